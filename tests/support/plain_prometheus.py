"""A Prometheus without the Prometheus operator: it finds pods by the customary annotations."""

import json
import socket
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from tests.cluster.tools import PROMETHEUS
from tests.support.kube import Kube

_META = "__meta_kubernetes_pod"
_RELABEL = [
    {"source_labels": [f"{_META}_annotation_prometheus_io_scrape"], "action": "keep", "regex": "true"},
    {"source_labels": [f"{_META}_annotation_prometheus_io_path"], "target_label": "__metrics_path__"},
    {
        "source_labels": [f"{_META}_ip", f"{_META}_annotation_prometheus_io_port"],
        "regex": "(.+);(.+)",
        "replacement": "$1:$2",
        "target_label": "__address__",
    },
    {"source_labels": [f"{_META}_name"], "target_label": "pod"},
]
"""As in the prometheus-community chart's job `kubernetes-pods`."""


class PlainPrometheus:
    """Its HTTP API for instant queries."""

    def __init__(self, url: str) -> None:
        self._url = url

    def query(self, query: str) -> list[dict[str, Any]]:
        """Result of an instant query; nothing while it starts."""
        try:
            with urllib.request.urlopen(f"{self._url}?{urllib.parse.urlencode({'query': query})}") as answer:  # noqa: S310
                found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
                return found
        except OSError:
            return []


@contextmanager
def plain_prometheus(kube: Kube, folder: Path, namespaces: list[str]) -> Iterator[PlainPrometheus]:
    """Runs while the block runs, beside the cluster."""
    discovery = {"role": "pod", "kubeconfig_file": str(kube.kubectl.kubeconfig), "namespaces": {"names": namespaces}}
    job = {
        "job_name": "pods",
        "honor_labels": True,
        "kubernetes_sd_configs": [discovery],
        "relabel_configs": _RELABEL,
    }
    settings = folder / "prometheus.yml"
    every = {"scrape_interval": "1s", "scrape_timeout": "1s"}
    settings.write_text(yaml.safe_dump({"global": every, "scrape_configs": [job]}))
    address = f"127.0.0.1:{_free_port()}"
    program: list[str | Path] = [PROMETHEUS.program(kube.paths, "prometheus"), f"--config.file={settings}"]
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [*program, f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address={address}"],
            stdout=log,
            stderr=log,
        )
    try:
        yield PlainPrometheus(f"http://{address}/api/v1/query")
    finally:
        process.terminate()
        process.wait()


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port
