"""The node's own network namespace, joined to the host by one veth pair; nothing else of the host changes.

host 10.231.0.1 (ppojob0) <-> (eth0) 10.231.0.2 node -- cni0 -- pods 10.244.0.0/24; services 10.96.0.0/16.
"""

from __future__ import annotations

import json
from pathlib import Path

from .settings import HOST_IP, HOST_LINK, LINK_SUBNET, NETNS, NODE_IP, POD_SUBNET, SERVICE_SUBNET
from .shell import ClusterError, run, succeeds

_NAMESPACE_FILE = Path("/run/netns") / NETNS


def enter() -> list[str]:
    """The words before a command that runs it in the namespace.

    Not `ip netns exec`: that remounts /sys, which hides the control groups.
    """
    return ["nsenter", f"--net={_NAMESPACE_FILE}", "--"]


def create() -> None:
    """Make namespace, link, addresses and routes; `remove` has run before."""
    _refuse_foreign_routes()
    run("ip", "netns", "add", NETNS)
    run("ip", "link", "add", HOST_LINK, "type", "veth", "peer", "name", "eth0", "netns", NETNS)
    run("ip", "address", "add", f"{HOST_IP}/30", "dev", HOST_LINK)
    run("ip", "link", "set", HOST_LINK, "up")
    inside = ("ip", "-netns", NETNS)
    run(*inside, "link", "set", "lo", "up")
    run(*inside, "address", "add", f"{NODE_IP}/30", "dev", "eth0")
    run(*inside, "link", "set", "eth0", "up")
    run(*inside, "route", "add", "default", "via", HOST_IP)
    run(*enter(), "sysctl", "-qw", "net.ipv4.ip_forward=1")
    for subnet in (POD_SUBNET, SERVICE_SUBNET):
        run("ip", "route", "add", subnet, "via", NODE_IP, "dev", HOST_LINK)


def remove() -> None:
    """Undo `create`, or what of it there is; the routes go with the link."""
    if exists_link():
        run("ip", "link", "delete", HOST_LINK)
    if not _NAMESPACE_FILE.exists():
        return
    # A file without a namespace mounted on it stays when a run died between the two steps of `ip netns add`.
    if not succeeds("ip", "netns", "delete", NETNS):
        succeeds("umount", "--lazy", _NAMESPACE_FILE)
        _NAMESPACE_FILE.unlink(missing_ok=True)


def exists_link() -> bool:
    """Whether the host's end of the veth pair is there."""
    return Path("/sys/class/net", HOST_LINK).exists()


def exists() -> bool:
    """Whether anything of the network is there."""
    return exists_link() or _NAMESPACE_FILE.exists()


def _refuse_foreign_routes() -> None:
    """Addresses that the host already reaches in another way are not ours to take."""
    routes = {route["dst"]: route.get("dev") for route in json.loads(run("ip", "-json", "route", "show"))}
    for subnet in (LINK_SUBNET, POD_SUBNET, SERVICE_SUBNET):
        if subnet in routes:
            raise ClusterError(f"this host already routes {subnet} (through {routes[subnet]}): the node needs it")
