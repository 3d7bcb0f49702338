# mypy: disable-error-code="import, misc, no-untyped-call, untyped-decorator, attr-defined, union-attr, arg-type"
"""`ppojob-train`: one attempt, from the lock to the outcome. Exit code 0 for Succeeded and Stopped, else 1.

An attempt that was started before ends with 3 and without a trace; one whose predecessor in this pod does not go
ends with 4, before it counts as started, so that it may be tried again.
"""

import json
import logging
import os
import signal
import sys
from pathlib import Path
from typing import Any

from ppojob_contract import names
from ppojob_contract.attempt import AttemptConfig
from ppojob_contract.layout import JobLayout
from ppojob_contract.mailbox import CheckpointRef
from ppojob_contract.outcomes import ExitClass, Outcome
from ppojob_trainer import cluster, configuration, datasets, incident, locks, origin
from ppojob_trainer.attempt_files import AttemptFiles
from ppojob_trainer.classification import classify, unloadable
from ppojob_trainer.errors import ConfigError, Stopped
from ppojob_trainer.exit_codes import EXIT_DUPLICATE, EXIT_FAILED, EXIT_LOCKED, EXIT_OK, EXIT_USAGE
from ppojob_trainer.redaction import log_without_secrets
from ppojob_trainer.rewards import preflight
from ppojob_trainer.stages import ahead
from ppojob_trainer.supervision import SupervisedRunner
from ppojob_trainer.watch import Watch

log = logging.getLogger("ppojob_trainer")

LOCK_SLACK_SECONDS = 30
"""Beyond the predecessor's grace."""


def main() -> int:
    """Entry point; the attempt is in the environment variable `names.ENV_ATTEMPT`."""
    log_without_secrets()
    try:
        attempt = AttemptConfig.from_json(json.loads(os.environ[names.ENV_ATTEMPT]))
    except (KeyError, TypeError, ValueError) as error:
        log.error("%s is not an attempt's configuration: %r", names.ENV_ATTEMPT, error)  # noqa: TRY400
        return EXIT_USAGE
    wait_seconds = attempt.graceful_stop_seconds + LOCK_SLACK_SECONDS
    with locks.held(Path(names.DRIVER_LOCK), wait_seconds) as mine:
        if not mine:
            log.error("another driver of this pod has not ended within %d s", wait_seconds)
            return EXIT_LOCKED
        return run(attempt)


def run(attempt: AttemptConfig) -> int:
    """Runs the attempt under the driver lock."""
    files = AttemptFiles(JobLayout(Path(attempt.root)).attempt(attempt.attempt))
    if not files.begin({"podUID": os.environ.get(names.ENV_POD_UID, "")}):
        log.error("%s: attempt %d was started before", ExitClass.DUPLICATE, attempt.attempt)
        return EXIT_DUPLICATE
    watch = Watch(attempt, files)
    _on_sigterm(watch)
    outcome = _run_to_outcome(watch)
    outcome = watch.files.with_log(outcome)
    watch.files.finish(outcome)
    log.info("%s at step %d: %s", outcome.exit_class, outcome.step, outcome.message)
    return EXIT_FAILED if outcome.failed else EXIT_OK


def _run_to_outcome(watch: Watch) -> Outcome:
    """Afterwards `watch` is at the attempt that the outcome is of: the last one of this driver."""
    try:
        watch.files.reserve()
        watch.files.beat()
        ending = _train(watch.attempt, watch)
    except Stopped as stop:
        watch.follow()
        return Outcome(exit_class=ExitClass.STOPPED, message=str(stop), step=watch.last_step())
    except BaseException as error:
        watch.follow()
        log.exception("attempt %d failed", watch.attempt.attempt)
        exit_class, message = classify(error)
        unusable = _unusable(watch.attempt, error)
        return Outcome(exit_class=exit_class, message=message, step=watch.last_step(), unusable=unusable)
    watch.follow()
    return _outcome(watch.attempt, ending)


def _train(attempt: AttemptConfig, watch: Watch) -> dict[str, Any]:
    """From configuration to the end of verl's run. Cheap checks come first: they need no cluster."""
    files = watch.files

    def waiting() -> None:
        files.beat()
        watch.check()

    platform = configuration.platform()
    keys = configuration.effective(attempt, platform)
    files.write_config(attempt, keys, platform)
    configuration.check_verl()
    files.keep_findings(preflight.check(attempt, waiting))
    ahead.check(attempt)
    origin.manifest_of(attempt)
    incident.keep(attempt)
    datasets.begin(files.layout, attempt.overrides)
    cluster.prepare_environment(platform)
    config = configuration.compose(keys, attempt)
    _validate(config)
    files.beat()
    cluster.connect(config)
    _on_sigterm(watch)  # Ray has just put its own handler there, which would end the process without an outcome

    cluster.wait_for_devices(attempt, waiting)
    files.beat()
    return _run_verl(config, attempt, watch)


def _run_verl(config: Any, attempt: AttemptConfig, watch: Watch) -> dict[str, Any]:
    import ray  # noqa: PLC0415 - after the environment is prepared
    from verl.trainer.main_ppo import run_ppo  # noqa: PLC0415

    from ppojob_trainer.runner import JobRunner  # noqa: PLC0415

    def create() -> Any:
        return ray.remote(JobRunner).options(**cluster.on_this_node()).remote(json.dumps(attempt.to_json()))

    runner = SupervisedRunner(create, watch)
    try:
        run_ppo(config, task_runner_class=runner)
    finally:
        runner.kill()
    if runner.ending is None:
        raise RuntimeError("verl returned without running the trainer")
    return runner.ending


def _validate(config: Any) -> None:
    """Verl's own checks. Raises ConfigError."""
    from hydra.errors import HydraException  # noqa: PLC0415
    from verl.trainer.ppo.utils import need_critic, need_reference_policy  # noqa: PLC0415
    from verl.utils.config import validate_config  # noqa: PLC0415

    try:
        validate_config(
            config=config, use_reference_policy=need_reference_policy(config), use_critic=need_critic(config)
        )
    except (
        HydraException,
        AssertionError,
        ValueError,
        KeyError,
        TypeError,
        NotImplementedError,
        AttributeError,
    ) as error:
        raise ConfigError(f"verl refuses the configuration: {error}") from error


def _outcome(attempt: AttemptConfig, ending: dict[str, Any]) -> Outcome:
    step = int(ending["step"])
    if ending["stopped"]:
        return Outcome(exit_class=ExitClass.STOPPED, message="stopped at a step boundary", step=step)
    if step >= attempt.total_steps:  # later, where the total was lowered below a checkpoint
        return Outcome(exit_class=ExitClass.SUCCEEDED, message=f"all {step} steps done", step=step)
    message = f"training ended at step {step} of {attempt.total_steps}"
    return Outcome(exit_class=ExitClass.UNKNOWN, message=message, step=step)


def _unusable(attempt: AttemptConfig, error: BaseException) -> CheckpointRef | None:
    """The job's own checkpoint that could not be loaded, where that is what went wrong."""
    folder = unloadable(error)
    found = JobLayout(Path(attempt.root)).locate(Path(folder)) if folder else None
    return CheckpointRef(attempt=found[0], step=found[1]) if found else None


def _on_sigterm(watch: Watch) -> None:
    def request_stop(*_: Any) -> None:
        watch.files.stop_request.touch()

    signal.signal(signal.SIGTERM, request_stop)


if __name__ == "__main__":
    sys.exit(main())
