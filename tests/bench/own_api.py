"""An API server and its store alone: no kubelet, no KubeRay, so that thousands of objects cost their storage only."""

from __future__ import annotations

import json
import secrets
import socket
import ssl
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.settings import Paths
from tests.cluster.tools import ETCD, KUBERNETES
from tests.support.kube import wait_for


@dataclass(frozen=True, slots=True)
class OwnApi:
    """A server with one user, who may do everything."""

    url: str
    token: str
    kubeconfig: Path


@contextmanager
def own_api(paths: Paths) -> Iterator[OwnApi]:
    """Up while the block runs."""
    with tempfile.TemporaryDirectory(prefix="ppojob-api-") as name:
        folder, token = Path(name), secrets.token_urlsafe(16)
        client, peer, port = _free_port(), _free_port(), _free_port()
        store = f"http://127.0.0.1:{client}"
        (folder / "tokens").write_text(f'{token},bench,bench,"system:masters"\n')
        subprocess.run(["openssl", "genrsa", "-out", folder / "key", "2048"], check=True, capture_output=True)
        commands: tuple[list[str | Path], ...] = (
            [
                ETCD.program(paths, "etcd"),
                *("--data-dir", folder / "etcd", "--unsafe-no-fsync", "--log-level", "error"),
                *("--listen-client-urls", store, "--advertise-client-urls", store),
                *("--listen-peer-urls", f"http://127.0.0.1:{peer}"),
            ],
            [
                KUBERNETES.program(paths, "kube-apiserver"),
                *("--etcd-servers", store, "--secure-port", str(port), "--bind-address", "127.0.0.1"),
                *("--cert-dir", folder / "certificates", "--token-auth-file", folder / "tokens"),
                *("--service-account-issuer", "https://bench", "--service-account-key-file", folder / "key"),
                *("--service-account-signing-key-file", folder / "key", "--authorization-mode", "RBAC"),
                *("--service-cluster-ip-range", "10.97.0.0/24", "--disable-admission-plugins", "ServiceAccount"),
            ],
        )
        with (folder / "log").open("wb") as log:
            processes = [subprocess.Popen(command, stdout=log, stderr=log) for command in commands]
        api = OwnApi(f"https://127.0.0.1:{port}", token, folder / "kubeconfig")
        _write_kubeconfig(api)
        try:
            wait_for("the API server", lambda: _ready(api), seconds=60, every=0.2)
            yield api
        finally:
            for process in reversed(processes):
                process.terminate()
                process.wait(30)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _ready(api: OwnApi) -> bool:
    request = urllib.request.Request(f"{api.url}/readyz", headers={"Authorization": f"Bearer {api.token}"})  # noqa: S310
    try:
        context = ssl._create_unverified_context()  # noqa: S323 - its certificate was made a second ago
        with urllib.request.urlopen(request, timeout=2, context=context) as answer:  # noqa: S310
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _write_kubeconfig(api: OwnApi) -> None:
    cluster = {"server": api.url, "insecure-skip-tls-verify": True}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "bench", "cluster": cluster}],
        "users": [{"name": "bench", "user": {"token": api.token}}],
        "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
        "current-context": "bench",
    }
    api.kubeconfig.write_text(json.dumps(config))
