"""The page of what was measured."""

from __future__ import annotations

from collections.abc import Sequence

from tests.faults.result import Key, Result, table
from tests.support.kube import REPOSITORY

PAGE = REPOSITORY / "docs" / "faults.md"


def write(results: Sequence[Result], order: Sequence[Key]) -> int:
    """The page; exit code 1 where a line is missing or bad."""
    found = {result.key: result for result in results}
    ordered = [found[key] for key in order if key in found]
    PAGE.write_text(page(ordered, len(order)))
    print(
        f"{PAGE}: {len(ordered)} of {len(order)} faults, {sum(not item.good for item in ordered)} with something wrong"
    )
    return 0 if len(ordered) == len(order) and all(item.good for item in ordered) else 1


def page(ordered: Sequence[Result], planned: int) -> str:
    lost = sum(len(item.lost) for item in ordered)
    wrong = sum(bool(item.wrong) for item in ordered)
    return f"""{HEAD}
{len(ordered)} of {planned} faults were measured. Confirmed checkpoints lost: {lost}. \
Lines with anything wrong: {wrong}.

{table(ordered)}
"""


HEAD = """# What is killed or damaged in a rollback, and what comes of it

<!-- Written by `python -m tests.faults --report` from what `make test-faults` measured: do not edit. -->

`make test-faults` trains the example of a run that goes bad on the development cluster (one node, two cores, KubeRay,
the toy model), with a learning rate that sends it away again after each rollback. Each rollback is met by one fault:
processes are killed with SIGKILL at a moment that the files on the claim show, or the newest confirmed checkpoint (the
one to go back to) is damaged by hand. `hot` lines are of a run that rolls back in the running trainer where it can,
`cold` ones of a run with `rollback.path: Cold`; there operator, monitor and KubeRay's operator are killed in the same
rollback, each at another moment. `REST=1` measures again what is missing here or went wrong.

- *what happened*: how each attempt after the one that went bad came to be, up to the first that trained on.
- *trained on after*: seconds from the fault to the first step that was trained after it; where the driver was hit, by a
  driver that was started after it. The step is in the status too, or the line would not have ended.
- *steps again*: steps of the attempt that went bad that had to be trained again, which is what a rollback does. After
  damage they are more: the rollback goes to the confirmed checkpoint before.
- *lost*: checkpoints that were confirmed and whole right after the fault, and were not any more at the end.
- *wrong*: rollbacks that do not fit the attempts that were rolled back, an attempt that was begun twice or that trained
  on from a checkpoint not confirmed, rows of an earlier attempt after those of a later one.

A killed container is started again by the kubelet at once, or after a wait that doubles each time it dies within ten
minutes: some seconds of lines in which the monitor or the operator died are such waits.
"""
