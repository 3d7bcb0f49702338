"""`ppojob-stage`: one run of a stage, from the lock to the outcome. Exit codes are those of `ppojob-train`.

A stage whose output is there and whole is not run again. Killed at any point, the next run goes on from what is in
`work`, or begins anew: an output is never half there (`outputs`).
"""

import importlib
import json
import logging
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from ppojob_contract import names
from ppojob_contract.durable import write_json
from ppojob_contract.outcomes import ExitClass, Outcome
from ppojob_contract.stages import Stage, StageConfig, StageLayout
from ppojob_trainer import driver_log, locks
from ppojob_trainer.classification import classify
from ppojob_trainer.errors import Stopped
from ppojob_trainer.exit_codes import EXIT_DUPLICATE, EXIT_FAILED, EXIT_LOCKED, EXIT_OK, EXIT_USAGE
from ppojob_trainer.redaction import log_without_secrets, redact
from ppojob_trainer.run_files import RunFiles
from ppojob_trainer.stages import outputs
from ppojob_trainer.stages.context import StageContext

log = logging.getLogger("ppojob_trainer.stages")

LOCK_WAIT_SECONDS = 150
"""For the driver before this one to go: the longest that a stopped trainer is given by default, and some slack."""

Program = Callable[[StageContext], None]

PROGRAMS: Mapping[Stage, str] = {
    Stage.PREPARE: "ppojob_trainer.stages.prepare.program",
    Stage.REWARD: "ppojob_trainer.stages.reward.program",
    Stage.EVALUATE: "ppojob_trainer.stages.evaluate.program",
    Stage.EXPORT: "ppojob_trainer.stages.export.program",
}
"""Modules with the function `run`, imported when they are needed: each brings libraries that the others do not use."""


def main() -> int:
    """Entry point; the stage is in the environment variable `names.ENV_STAGE`."""
    log_without_secrets()
    try:
        config = StageConfig.from_json(json.loads(os.environ[names.ENV_STAGE]))
    except (KeyError, TypeError, ValueError) as error:
        log.error("%s is not a stage's configuration: %r", names.ENV_STAGE, error)  # noqa: TRY400
        return EXIT_USAGE
    with locks.held(Path(names.DRIVER_LOCK), LOCK_WAIT_SECONDS) as mine:
        if not mine:
            log.error("another driver of this pod has not ended within %d s", LOCK_WAIT_SECONDS)
            return EXIT_LOCKED
        return run(config)


def run(config: StageConfig, program: Program | None = None) -> int:
    """Runs the stage under the driver lock; `program` stands in for the table's."""
    layout = StageLayout.of(Path(config.root), config.stage, config.key)
    files = RunFiles(layout.run(config.run))
    if not files.begin({"podUID": os.environ.get(names.ENV_POD_UID, "")}):
        log.error("%s: run %d of %s was started before", ExitClass.DUPLICATE, config.run, config.stage)
        return EXIT_DUPLICATE
    context = StageContext(config, files)
    context.catch_sigterm()
    outcome = _run_to_outcome(context, program)
    driver_log.keep(files.driver_log)
    files.finish(outcome)
    log.info("%s %s: %s", config.stage, outcome.exit_class, outcome.message)
    return EXIT_FAILED if outcome.failed else EXIT_OK


def _run_to_outcome(context: StageContext, program: Program | None) -> Outcome:
    try:
        message = _work(context, program)
    except Stopped as stop:
        return _outcome(ExitClass.STOPPED, str(stop))
    except BaseException as error:
        log.exception("%s failed", context.config.stage)
        return _outcome(*classify(error))
    return _outcome(ExitClass.SUCCEEDED, message)


def _work(context: StageContext, program: Program | None) -> str:
    """What the output says of itself."""
    config, files = context.config, context.files
    files.reserve()
    files.beat()
    write_json(files.layout.config, config.to_json())
    there = outputs.begin(context.layout, config.run)
    if there is not None:
        return f"was complete already: {there.message}"
    (program or _program(config.stage))(context)
    if context.result is None:
        raise RuntimeError(f"the program of {config.stage} ended without an output")
    return context.result.message


def _program(stage: Stage) -> Program:
    program: Program = importlib.import_module(PROGRAMS[stage]).run
    return program


def _outcome(exit_class: ExitClass, message: str) -> Outcome:
    return Outcome(exit_class=exit_class, message=redact(message), step=0)


if __name__ == "__main__":
    sys.exit(main())
