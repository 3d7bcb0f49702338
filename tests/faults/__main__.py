"""`python -m tests.faults [--only WORD]`: the table of what is killed or damaged in a rollback, and what came of it.

The example's model trains with a learning rate that sends it away again after every rollback: each rollback of one run
is met by one fault. Two runs: with rollbacks in the running trainer, and by new starts. Exit code 1 where anything
confirmed was lost, or a rollback was doubled or missed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable

from tests.faults import full_volume, moments, victims
from tests.faults.damage import DAMAGES
from tests.faults.matrix import Fault, Result, inflict, kills
from tests.support.kube import REPOSITORY, Kube
from tests.support.run import Run

NAMESPACE = "faults"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="faults whose line has this word, for example 'hot' or 'monitor'")
    only = parser.parse_args().only
    began = time.monotonic()
    kube = Kube.connect()
    kube.install_operator()
    results: list[tuple[str, Result]] = []
    for path, mode, faults in (
        ("hot", "Auto", [*kills(victims.ALL, moments.HOT), *DAMAGES]),
        ("cold", "Cold", [*kills(victims.ALL, moments.COLD), *DAMAGES]),
    ):
        chosen = [fault for fault in faults if only in f"{path} {fault.what} {fault.moment.name}"]
        results += [(path, result) for result in _run(kube, path, mode, chosen)]
    if only in "cold volume full during a save":
        results.append(("cold", full_volume.inflict(kube)))
    print(f"\n{_table(results)}\n\n{len(results)} faults in {(time.monotonic() - began) / 60:.0f} minutes")
    return 0 if results and all(result.good for _, result in results) else 1


def _run(kube: Kube, name: str, mode: str, faults: list[Fault]) -> Iterable[Result]:
    if not faults:
        return
    kube.fresh_namespace(NAMESPACE)
    run = Run.of(kube, NAMESPACE, (REPOSITORY / "examples" / "rollback.yaml").read_text()).named(name)
    run.spec["training"]["totalSteps"] = 100_000
    run.spec["rollback"] = {"limit": 1000, "path": mode, "data": "Replay", "minHealthySteps": 0}
    run.spec["failurePolicy"] = {"maxRestarts": 1000, "startupTimeoutSeconds": 300}
    run.spec["checkpoints"] |= {"keepLast": 1000}
    run.apply()
    for fault in faults:
        result = inflict(run, fault)
        print(f"{name}: {_line(result)}", flush=True)
        yield result
    kube.kubectl("delete", "namespace", NAMESPACE, "--wait", "--timeout=170s")


def _table(results: list[tuple[str, Result]]) -> str:
    head = (
        "| rollback | fault | moment | seconds | rollbacks | restarts | attempt | steps again | lost | wrong |\n"
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"
    )
    return "\n".join([head, *(f"| {path} | {_line(result)} |" for path, result in results)])


def _line(result: Result) -> str:
    return (
        f"{result.what} | {result.moment} | {result.seconds:.0f} | {result.rollbacks} | {result.restarts} | "
        f"{result.attempts} | {result.steps_again} | {'; '.join(result.lost) or '-'} | {'; '.join(result.wrong) or '-'}"
    )


if __name__ == "__main__":
    sys.exit(main())
