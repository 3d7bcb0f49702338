"""Keys, certificates and kubeconfigs, made anew by every start with the openssl program (some 0.3 s)."""

from __future__ import annotations

import base64
import json
import os

from .settings import API_SERVICE_IP, API_URL, NODE_IP, NODE_NAME, Paths
from .shell import run

_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
_API_NAMES = (
    "DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,DNS:kubernetes.default.svc.cluster.local,"
    f"DNS:localhost,IP:127.0.0.1,IP:{API_SERVICE_IP},IP:{NODE_IP}"
)
_NODE_USER = f"/O=system:nodes/CN=system:node:{NODE_NAME}"
# kubeconfig -> the subject that the API server's RBAC knows.
_USERS = {
    "admin": "/O=system:masters/CN=admin",
    "controller-manager": "/CN=system:kube-controller-manager",
    "scheduler": "/CN=system:kube-scheduler",
    "kubelet": _NODE_USER,
    "proxy": "/CN=system:kube-proxy",
}


def create(paths: Paths) -> None:
    """Write the authority, the servers' and clients' certificates, the token key and one kubeconfig per user."""
    previous = os.umask(0o077)
    try:
        paths.pki.mkdir(parents=True)
        paths.admin_kubeconfig.parent.mkdir(parents=True)
        _authority(paths)
        _signed(paths, "apiserver", "/CN=kube-apiserver", _API_NAMES)
        _signed(paths, "apiserver-kubelet", "/O=system:masters/CN=apiserver-kubelet-client")
        _signed(paths, "kubelet-serving", _NODE_USER, f"DNS:{NODE_NAME},IP:{NODE_IP}")
        _token_key(paths)
        for user, subject in _USERS.items():
            _signed(paths, user, subject)
            _kubeconfig(paths, user)
    finally:
        os.umask(previous)


def _authority(paths: Paths) -> None:
    key, certificate = paths.pki / "ca.key", paths.pki / "ca.crt"
    subject = ("-subj", "/CN=ppojob-dev-ca", "-days", "365")
    run("openssl", "req", "-x509", *_NEW_KEY, *subject, "-keyout", key, "-out", certificate)


def _signed(paths: Paths, name: str, subject: str, alternative_names: str = "") -> None:
    """A key and a certificate for clients and servers alike."""
    extensions = ["basicConstraints=critical,CA:FALSE", "extendedKeyUsage=clientAuth,serverAuth"]
    if alternative_names:
        extensions.append(f"subjectAltName={alternative_names}")
    added = [word for extension in extensions for word in ("-addext", extension)]
    signer = ("-CA", paths.pki / "ca.crt", "-CAkey", paths.pki / "ca.key", "-days", "365")
    files = ("-keyout", paths.pki / f"{name}.key", "-out", paths.pki / f"{name}.crt")
    run("openssl", "req", "-x509", *_NEW_KEY, "-subj", subject, *added, *signer, *files)


def _token_key(paths: Paths) -> None:
    """Signs service-account tokens."""
    key = paths.pki / "tokens.key"
    run("openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", key)
    run("openssl", "pkey", "-in", key, "-pubout", "-out", paths.pki / "tokens.pub")


def _kubeconfig(paths: Paths, user: str) -> None:
    """Self-contained (JSON is YAML too), so that it can be copied."""

    def inline(file: str) -> str:
        return base64.b64encode((paths.pki / file).read_bytes()).decode()

    cluster = {"server": API_URL, "certificate-authority-data": inline("ca.crt")}
    identity = {
        "client-certificate-data": inline(f"{user}.crt"),
        "client-key-data": inline(f"{user}.key"),
    }
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": NODE_NAME, "cluster": cluster}],
        "users": [{"name": user, "user": identity}],
        "contexts": [{"name": NODE_NAME, "context": {"cluster": NODE_NAME, "user": user}}],
        "current-context": NODE_NAME,
    }
    paths.kubeconfig(user).write_text(json.dumps(content, indent=1))
