"""Installs the operator, applies examples/rollback.yaml, and shows what happens until it has ended."""

from __future__ import annotations

import sys
import time

from tests.demo.show import Follower, summary
from tests.support.kube import REPOSITORY, Kube

NAMESPACE, JOB = "ppojob-demo", "rollback"
LIMIT_SECONDS = 1200


def main() -> int:
    """Exit code 0 when the job has succeeded after exactly one rollback."""
    kube = Kube.connect()
    began = time.monotonic()
    print("installing the operator with Helm ...", flush=True)
    kube.install_operator()
    kube.fresh_namespace(NAMESPACE)
    print(f"kubectl apply -f examples/rollback.yaml --namespace {NAMESPACE}", flush=True)
    kube.apply((REPOSITORY / "examples" / "rollback.yaml").read_text(), NAMESPACE)
    applied = time.monotonic()
    follower = Follower(kube, NAMESPACE, JOB)
    job = follower.follow(LIMIT_SECONDS)
    print(summary(kube, NAMESPACE, job))
    print(f"operator installed in {applied - began:.0f} s, job ended after {time.monotonic() - applied:.0f} s more")
    status = job["status"]
    good = (status["phase"], status["rollbacks"], status["attempt"]["number"]) == ("Succeeded", 1, 2)
    print("the demo did what it should" if good else "the demo did NOT do what it should: see above")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
