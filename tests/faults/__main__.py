"""`python -m tests.faults [--only WORD] [--rest] [--report]`: what is killed or damaged in a rollback, what came of it.

The example's model trains with a learning rate that sends it away again after every rollback: each rollback of one run
is met by one fault. Two runs: with rollbacks in the running trainer, and by new starts. Exit code 1 where anything
confirmed was lost, or a rollback was doubled or missed. `--report` makes docs/faults.md of the lines measured so far.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Set

from tests.faults import full_volume, moments, report, victims
from tests.faults.damage import DAMAGES
from tests.faults.matrix import Fault, Faults, inflict, kills, kills_together
from tests.faults.result import Key, Result, line, measured, remember, table
from tests.support.kube import REPOSITORY, Kube
from tests.support.run import Run

NAMESPACE = "faults"
PATHS = {"hot": "Auto", "cold": "Cold"}
SINGLE = [(fault,) for fault in DAMAGES]
FAULTS: dict[str, list[Faults]] = {
    "hot": [*kills((*victims.CONTROL, *victims.TRAINER), moments.HOT), *SINGLE],
    "cold": [*kills_together(victims.CONTROL, moments.COLD), *kills(victims.TRAINER, moments.COLD), *SINGLE],
}


def _key(path: str, fault: Fault) -> Key:
    return path, fault.what, fault.moment.name


ORDER: list[Key] = [
    *(_key(path, fault) for path, rollbacks in FAULTS.items() for faults in rollbacks for fault in faults),
    full_volume.KEY,
]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="faults whose line has this word, for example 'hot' or 'monitor'")
    parser.add_argument("--rest", action="store_true", help="faults that were not measured yet, or went wrong")
    parser.add_argument("--report", action="store_true", help="write docs/faults.md of what was measured, run nothing")
    arguments = parser.parse_args()
    if arguments.report:
        return report.write(measured(), ORDER)
    began = time.monotonic()
    results: list[Result] = []
    good = {result.key for result in measured() if result.good}
    chosen = {key for key in ORDER if arguments.only in " ".join(key) and not (arguments.rest and key in good)}
    for result in _measure(Kube.connect(), chosen):
        remember(result)
        results.append(result)
        print(f"{(time.monotonic() - began) / 60:.0f} min {line(result)}", flush=True)
    print(f"\n{table(results)}\n\n{len(results)} faults in {(time.monotonic() - began) / 60:.0f} minutes")
    return 0 if results and all(result.good for result in results) else 1


def _measure(kube: Kube, chosen: Set[Key]) -> Iterable[Result]:
    kube.install_operator()
    for victim in victims.CONTROL:
        victim.renew(kube)
    for path, rollbacks in FAULTS.items():
        yield from _of_path(kube, path, [faults for faults in rollbacks if chosen & {_key(path, f) for f in faults}])
    if full_volume.KEY in chosen:
        yield full_volume.inflict(kube)


def _of_path(kube: Kube, path: str, rollbacks: list[Faults]) -> Iterable[Result]:
    run: Run | None = None
    for faults in rollbacks:
        if run is None or run.status.get("finished"):
            run = _begin(kube, path)
        yield from inflict(run, path, faults)
    if run is not None:
        run.remove()


def _begin(kube: Kube, path: str) -> Run:
    kube.fresh_namespace(NAMESPACE)
    run = Run.of(kube, NAMESPACE, (REPOSITORY / "examples" / "rollback.yaml").read_text()).named(path)
    run.spec["training"]["totalSteps"] = 100_000
    run.spec["guardrails"][0]["conditions"] = [{"metric": "kl", "above": moments.KL_BOUND}]
    run.spec["rollback"] = {"limit": 1000, "path": PATHS[path], "data": "Replay", "minHealthySteps": 0}
    run.spec["failurePolicy"] = {"maxRestarts": 1000, "startupTimeoutSeconds": 600}
    run.spec["checkpoints"] |= {"keepLast": 1000, "verify": "Checksums"}
    run.apply()
    return run


if __name__ == "__main__":
    sys.exit(main())
