"""A hot rollback: the next attempt begins in the running trainer.

The order gives a death at any point one meaning. Before the claim nobody has begun; from the claim on the next
attempt's number is used up; from the acknowledgement on the driver is the next attempt's:

    claim            by `orders`, with the checks that need nothing touched
    next attempt     `started`, `config.json`
    trainer          leave what runs, load, settings, weights into the engine
    next attempt     its journal begins
    acknowledgement  Done, in the attempt that is left; Failed where anything above raised
"""

import os
from pathlib import Path
from typing import Any, Protocol

from ppojob_contract import names
from ppojob_contract.attempt import AttemptConfig
from ppojob_contract.layout import JobLayout
from ppojob_contract.mailbox import AckResult, Command
from ppojob_contract.outcomes import ExitClass
from ppojob_trainer import configuration, datasets, incident, sealing, settings
from ppojob_trainer.attempt_files import AttemptFiles
from ppojob_trainer.classification import classify
from ppojob_trainer.errors import ConfigError, StorageError
from ppojob_trainer.mailbox import Mailbox
from ppojob_trainer.succession import STARTED_AFTER, successor


class Trainer(Protocol):
    """What a rollback does to the running trainer, in this order."""

    attempt: AttemptConfig
    files: AttemptFiles

    def leave(self) -> None:
        """Ends what is under way: no request runs, no sample waits, the replicas sleep."""

    def load(self, attempt: AttemptConfig, changed_keys: dict[str, Any]) -> None:
        """Becomes that attempt: verl's keys that differ, its checkpoint, its place in the data. Returns it loaded."""

    def put_in_force(self) -> str:
        """Sets what the attempt sets and gives the weights to the engine; says for the journal what is in force."""


def check(command: Command, attempt: AttemptConfig, capabilities: settings.Capabilities, *, world_size: int) -> None:
    """Raises AttemptError for a rollback that cannot work; cheap, and nothing is touched."""
    if command.target is None or command.next_attempt is None:
        raise ConfigError("a rollback names its target and the next attempt")
    job = JobLayout(Path(attempt.root))
    if command.next_attempt <= attempt.attempt or job.attempt(command.next_attempt).started.exists():
        raise ConfigError(
            f"attempt {command.next_attempt} cannot follow attempt {attempt.attempt}: it was begun before"
        )
    settings.check(command.settings, capabilities)
    folder = job.attempt(command.target.attempt).checkpoint(command.target.step)
    same_world(folder, sealing.verified(folder).world_size, world_size)


def same_world(folder: Path, saved_by: int, world_size: int) -> None:
    """Raises ConfigError for a checkpoint of another number of devices: each has a shard of its own."""
    if saved_by != world_size:
        raise ConfigError(f"checkpoint {folder} was saved by {saved_by} devices, the job has {world_size}")


def carry_out(command: Command, trainer: Trainer, mailbox: Mailbox) -> None:
    """Takes the trainer into the next attempt. Whatever is raised has been acknowledged as Failed."""
    try:
        following = _carry_out(command, trainer)
    except Exception as error:
        mailbox.acknowledge(command, AckResult.FAILED, message=classify(error)[1])
        raise
    assert command.target is not None
    mailbox.acknowledge(command, AckResult.DONE, step=command.target.step)
    trainer.files = following
    following.beat()


def _carry_out(command: Command, trainer: Trainer) -> AttemptFiles:
    before = trainer.attempt
    attempt = successor(before, command)
    platform = configuration.platform()
    keys = configuration.effective(attempt, platform)
    old_keys = configuration.effective(before, platform)
    following = AttemptFiles(JobLayout(Path(attempt.root)).attempt(attempt.attempt), predecessor=trainer.files)
    who = {"podUID": os.environ.get(names.ENV_POD_UID, ""), STARTED_AFTER: before.attempt}
    if not following.begin(who):
        raise StorageError(f"{ExitClass.DUPLICATE}: attempt {attempt.attempt} was started before")
    following.reserve()
    following.write_config(attempt, keys, platform)
    trainer.leave()
    incident.keep(attempt)
    datasets.carry_on(trainer.files.layout, following.layout)
    trainer.load(attempt, {key: value for key, value in keys.items() if old_keys.get(key) != value})
    begin_journal(following, attempt, trainer.put_in_force())
    return following


def begin_journal(files: AttemptFiles, attempt: AttemptConfig, in_force: str) -> None:
    """The first row: everything is loaded, the engine has the weights."""
    origin = "the initial weights"
    if attempt.resume is not None:
        source = attempt.resume.checkpoint
        origin = attempt.resume.folder or f"attempt {source.attempt} step {source.step}"
    files.event(attempt.first_step, "AttemptStarted", f"from {origin}; {in_force}")
