"""The monitor's bearer token."""

from typing import Any

from ppojob_contract.names import TOKEN_FILE
from ppojob_operator.domain.job import AcceptedJob
from ppojob_operator.render import names, objects

TOKEN_KEY = TOKEN_FILE.rsplit("/", 1)[-1]


def render_token_secret(job: AcceptedJob, token: str) -> dict[str, Any]:
    """`<base>-monitor`."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": objects.metadata(job, names.secret_name(names.base(job.name, job.uid)), "monitor"),
        "type": "Opaque",
        "stringData": {TOKEN_KEY: token},
    }
