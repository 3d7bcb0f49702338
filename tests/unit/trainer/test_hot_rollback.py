"""The order of a hot rollback, and what a death at each point leaves for those who read the files."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from tests.unit.trainer.builders import attempt_config, content, event_row, sealed_checkpoint, started

from ppojob_contract.attempt import AttemptConfig
from ppojob_contract.data_plan import DataPlan
from ppojob_contract.durable import read_json, write_json_once
from ppojob_contract.layout import JobLayout
from ppojob_contract.mailbox import CheckpointRef, Command, CommandKind
from ppojob_contract.outcomes import ExitClass, Outcome
from ppojob_trainer import rollback
from ppojob_trainer.attempt_files import AttemptFiles
from ppojob_trainer.errors import AttemptError, Stopped, StorageError
from ppojob_trainer.orders import Orders, RollbackRequested, StopRequested
from ppojob_trainer.settings import Capabilities
from ppojob_trainer.stop import running, stop
from ppojob_trainer.succession import newest_driven, successor
from ppojob_trainer.watch import Watch

COMMAND = Command(
    id="r1",
    kind=CommandKind.ROLLBACK,
    target=CheckpointRef(attempt=1, step=4),
    settings={"LearningRate": 5e-4},
    next_attempt=2,
    data=DataPlan(reshuffle=1),
)
ALL = Capabilities(critic=True, kl_loss=True, kl_reward=False)


class Killed(BaseException):
    """kill -9: nothing in this process runs any more."""


@dataclass
class FakeTrainer:
    attempt: AttemptConfig
    files: AttemptFiles
    die_at: str = ""
    fail_at: str = ""
    done: list[str] = field(default_factory=list)
    keys: dict[str, Any] = field(default_factory=dict)

    def _do(self, what: str) -> None:
        if what == self.die_at:
            raise Killed
        if what == self.fail_at:
            raise StorageError("a shard cannot be read")
        self.done.append(what)

    def leave(self) -> None:
        assert self.files.layout.folder.parent.joinpath("0002", "config.json").exists()
        self._do("leave")

    def load(self, attempt: AttemptConfig, changed_keys: dict[str, Any]) -> None:
        self.attempt, self.keys = attempt, changed_keys
        self._do("load")

    def put_in_force(self) -> str:
        self._do("push")
        return "learning rate 0.0005"


@dataclass
class Scene:
    job: JobLayout
    trainer: FakeTrainer
    orders: Orders
    watch: Watch

    @classmethod
    def set(cls, root: Path) -> "Scene":
        job = JobLayout(root)
        files = AttemptFiles(started(job, 1))
        event_row(files.layout, 0, "AttemptStarted")
        sealed_checkpoint(files.layout, 1, 4)
        config = attempt_config(root, overrides={"trainer.val_before_train": True, "data.train_batch_size": 16})
        trainer = FakeTrainer(config, files)

        def check(command: Command) -> None:
            rollback.check(command, trainer.attempt, ALL, world_size=1)

        return cls(job, trainer, Orders(files, check), Watch(config, files))

    def put(self, command: Command, attempt: int = 1) -> None:
        write_json_once(self.job.attempt(attempt).command, command.to_json())

    def obey(self) -> None:
        """As the trainer does, at a step boundary."""
        try:
            self.orders.obey()
        except RollbackRequested as request:
            rollback.carry_out(request.command, self.trainer, self.orders.mailbox)


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    monkeypatch.setenv("VERL_PLATFORM", "cpu")
    return Scene.set(tmp_path)


def test_the_next_attempt_runs_in_the_same_driver(scene: Scene) -> None:
    scene.put(COMMAND)
    scene.obey()
    assert scene.trainer.done == ["leave", "load", "push"]
    left, following = scene.job.attempt(1), scene.job.attempt(2)
    assert content(left.claim)["by"] == "Trainer"
    ack = content(left.ack)
    assert (ack["id"], ack["result"], ack["step"]) == ("r1", "Done", 4)
    config = content(following.config)
    assert AttemptConfig.from_json(config) == successor(attempt_of(scene), COMMAND)
    assert (config["settings"], config["data"]["reshuffle"]) == ({"LearningRate": 5e-4}, 1)
    row = following.journal.read_text()
    assert '"AttemptStarted"' in row
    assert "from attempt 1 step 4; learning rate 0.0005" in row
    assert scene.trainer.files.layout == following
    assert following.heartbeat.exists()
    assert not left.outcome.exists()


def attempt_of(scene: Scene) -> AttemptConfig:
    config = attempt_config(Path(scene.job.root))
    return replace(config, overrides={"trainer.val_before_train": True, "data.train_batch_size": 16})


def test_verl_gets_what_a_cold_start_would_be_configured_with(scene: Scene) -> None:
    scene.put(COMMAND)
    scene.obey()
    root = scene.job.root
    assert scene.trainer.keys == {
        "trainer.default_local_dir": f"{root}/attempts/0002/checkpoints",
        "trainer.resume_mode": "resume_path",
        "trainer.resume_from_path": f"{root}/attempts/0001/checkpoints/global_step_4",
        "trainer.experiment_name": "sums-a2",
        "trainer.val_before_train": False,
    }


@pytest.mark.parametrize(
    ("point", "done"), [("leave", []), ("load", ["leave"]), ("push", ["leave", "load"]), ("ack", [])]
)
def test_killed_before_the_acknowledgement(scene: Scene, point: str, done: list[str]) -> None:
    """The driver was attempt 1's to its end; attempt 2's number is used up."""
    scene.put(COMMAND)
    scene.trainer.die_at = point
    if point == "ack":
        scene.orders.mailbox.acknowledge = die  # type: ignore[method-assign]
    with pytest.raises(Killed):
        scene.obey()
    if point != "ack":
        assert scene.trainer.done == done
    assert read_json(scene.job.attempt(1).ack) is None
    assert scene.job.attempt(2).started.exists()
    assert newest_driven(scene.job) == 1
    scene.watch.check()
    assert scene.watch.attempt.attempt == 1
    with pytest.raises(AttemptError, match="begun before"):
        rollback.check(replace(COMMAND, id="r2"), attempt_of(scene), ALL, world_size=1)


def die(*_: Any, **__: Any) -> None:
    raise Killed


@pytest.mark.parametrize("point", ["leave", "load", "push"])
def test_a_failure_on_the_way_ends_the_driver_in_the_attempt_it_left(scene: Scene, point: str) -> None:
    scene.put(COMMAND)
    scene.trainer.fail_at = point
    with pytest.raises(StorageError):
        scene.obey()
    ack = content(scene.job.attempt(1).ack)
    assert (ack["result"], ack["message"]) == ("Failed", "a shard cannot be read")
    scene.watch.follow()
    assert scene.watch.attempt.attempt == 1
    assert newest_driven(scene.job) == 1
    scene.watch.files.finish(Outcome(exit_class=ExitClass.STORAGE_ERROR, message="m", step=5))
    assert running(scene.job) is None, "the attempt that was only prepared is no running one"


def damaged(scene: Scene) -> Command:
    (scene.job.attempt(1).checkpoint(4) / "actor" / "model.pt").write_bytes(b"wei")
    return COMMAND


def other_world(scene: Scene) -> Command:
    sealed_checkpoint(scene.job.attempt(1), 1, 3, world_size=2)
    return replace(COMMAND, target=CheckpointRef(attempt=1, step=3))


def without_place(scene: Scene) -> Command:
    return replace(COMMAND, settings={"Temperature": 0.5})


def begun_before(scene: Scene) -> Command:
    started(scene.job, 2)
    return COMMAND


def earlier(scene: Scene) -> Command:
    return replace(COMMAND, next_attempt=1)


def aimless(scene: Scene) -> Command:
    return replace(COMMAND, target=None)


@pytest.mark.parametrize(
    ("prepare", "reason"),
    [
        (damaged, "model.pt has 3 bytes instead of 7"),
        (other_world, "saved by 2 devices"),
        (without_place, "Temperature"),
        (begun_before, "attempt 2 cannot follow"),
        (earlier, "attempt 1 cannot follow"),
        (aimless, "names its target"),
    ],
    ids=lambda item: getattr(item, "__name__", ""),
)
def test_what_cannot_work_is_refused_and_the_attempt_goes_on(scene: Scene, prepare: Any, reason: str) -> None:
    scene.put(prepare(scene))
    scene.obey()
    ack = content(scene.job.attempt(1).ack)
    assert ack["result"] == "Refused"
    assert reason in ack["message"]
    assert scene.trainer.done == []
    assert not scene.job.attempt(2).config.exists()
    scene.obey()
    scene.watch.check()


def test_a_check_that_breaks_is_a_refusal(scene: Scene) -> None:
    def check(_: Command) -> None:
        raise OSError(116, "Stale file handle")

    scene.put(COMMAND)
    Orders(scene.trainer.files, check).obey()
    ack = content(scene.job.attempt(1).ack)
    assert (ack["result"], "Stale file handle" in ack["message"]) == ("Refused", True)


def test_three_in_a_row(scene: Scene) -> None:
    for number in (1, 2, 3):
        scene.put(replace(COMMAND, id=f"r{number}", next_attempt=number + 1), attempt=number)
        scene.obey()
        scene.orders = Orders(scene.trainer.files, lambda _: None)
    scene.watch.check()
    assert scene.watch.attempt.attempt == scene.trainer.attempt.attempt == newest_driven(scene.job) == 4
    assert scene.watch.files.layout == scene.job.attempt(4)


@pytest.mark.parametrize("seen_by", ["task runner", "entry"])
def test_a_signal_for_the_attempt_that_was_left_stops_the_one_that_runs(scene: Scene, seen_by: str) -> None:
    """Who asked had not seen the rollback yet."""
    scene.put(COMMAND)
    scene.obey()
    scene.job.attempt(1).folder.joinpath("stop-requested").touch()
    if seen_by == "task runner":
        with pytest.raises(StopRequested) as request:
            Orders(scene.trainer.files, lambda _: None).obey()
        assert request.value.save
        return
    now = [0.0]
    watch = Watch(attempt_of(scene), scene.watch.files, monotonic=lambda: now[0])
    watch.check()
    now[0] = 1000.0
    with pytest.raises(Stopped):
        watch.check()
    assert watch.attempt.attempt == 2


def test_a_revoked_rollback_stops_without_saving(scene: Scene) -> None:
    scene.put(COMMAND)
    write_json_once(scene.job.attempt(1).claim, {"by": "Monitor"})
    with pytest.raises(StopRequested) as request:
        scene.orders.obey()
    assert (request.value.save, request.value.command) == (False, None)


def test_before_training_a_rollback_waits_and_a_revoked_one_stops(tmp_path: Path) -> None:
    files = AttemptFiles(started(JobLayout(tmp_path), 1))
    watch = Watch(attempt_config(tmp_path), files)
    write_json_once(files.layout.command, COMMAND.to_json())
    watch.check()
    assert read_json(files.layout.claim) is None
    write_json_once(files.layout.claim, {"by": "Monitor"})
    with pytest.raises(Stopped, match="before training"):
        watch.check()
    assert read_json(files.layout.ack) is None


@pytest.mark.parametrize("save", [True, False])
def test_a_stop_command(scene: Scene, save: bool) -> None:
    command = Command(id="s", kind=CommandKind.STOP, save=save)
    scene.put(command)
    with pytest.raises(StopRequested) as request:
        scene.orders.obey()
    assert (request.value.save, request.value.command) == (save, command)
    assert content(scene.job.attempt(1).claim)["by"] == "Trainer"


def test_prestop_follows_a_rollback_under_way(scene: Scene) -> None:
    scene.put(COMMAND)
    with pytest.raises(RollbackRequested):
        scene.orders.obey()
    slept = 0

    def driver(_: float) -> None:
        nonlocal slept
        slept += 1
        if slept == 1:
            rollback.carry_out(COMMAND, scene.trainer, scene.orders.mailbox)
        else:
            with pytest.raises(StopRequested):
                Orders(scene.trainer.files, lambda _: None).obey()
            scene.trainer.files.finish(Outcome(exit_class=ExitClass.STOPPED, message="m", step=4))

    assert stop(scene.job, "pod-1", 5.0, (), driver) == "attempt 2 has ended"


def test_prestop_asks_the_attempt_that_runs(scene: Scene) -> None:
    scene.put(COMMAND)
    scene.obey()
    assert "not ended" in stop(scene.job, "pod-1", 0.0, ())
    assert content(scene.job.attempt(2).command)["kind"] == "Stop"
