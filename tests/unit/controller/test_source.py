"""Jobs that begin from a checkpoint that is not their own: `checkpoints.resumeFrom`."""

from typing import Any

import pytest
from tests.support.builders import NOW, raw_spec
from tests.support.drive import Drive
from tests.support.scripts import fails, healthy
from tests.support.world import World
from tests.unit.controller.test_retention import messages

from ppojob_contract.mailbox import CheckpointRef
from ppojob_contract.outcomes import ExitClass

OTHER_UID = "99999999-0000-0000-0000-000000000000"
FOLDER = "/ppojob/storage/runs/team/teacher-99999999/attempts/0002/checkpoints/global_step_20"
PATH = "/ppojob/storage/old/global_step_12"


def beginning(**resume_from: Any) -> dict[str, Any]:
    return raw_spec(checkpoints=raw_spec()["checkpoints"] | {"resumeFrom": resume_from})


def teacher(*, claim: str = "ppojob", confirmed: int | None = 20) -> dict[str, Any]:
    items = [
        {"attempt": 2, "step": 20, "phase": "Confirmed"},
        {"attempt": 2, "step": 25, "phase": "Complete"},
        {"attempt": 2, "step": 30, "phase": "Suspect"},
    ]
    checkpoints = {"items": items} | ({"confirmed": {"attempt": 2, "step": confirmed}} if confirmed else {})
    return {
        "metadata": {
            "namespace": "team",
            "name": "teacher",
            "uid": OTHER_UID,
            "generation": 1,
            "resourceVersion": "1",
            "creationTimestamp": NOW.isoformat(),
        },
        "spec": raw_spec(storage={"claimName": claim, "path": "runs"}),
        "status": {"checkpoints": checkpoints},
    }


def origins(world: World) -> list[str]:
    return [item.config.resume.folder if item.config.resume else "the start" for item in world.attempts.values()]


async def test_from_a_path():
    world = await Drive(World(healthy, spec=beginning(path=PATH))).to_the_end()
    (attempt,) = world.attempts.values()
    assert attempt.config.resume is not None
    assert (attempt.config.resume.folder, attempt.config.resume.checkpoint.step) == (PATH, 12)
    assert attempt.rows[0].step == 13
    assert world.status["attempt"]["source"] == {"path": PATH, "step": 12, "weightsOnly": False}
    assert messages(world, "AttemptStarted") == [f"attempt 1 starts from {PATH}"]
    assert world.status["phase"] == "Succeeded"


async def test_weights_alone_begin_at_step_0():
    world = await Drive(World(healthy, spec=beginning(path=PATH, weightsOnly=True))).to_the_end()
    assert world.attempts[1].rows[0].step == 1
    assert messages(world, "AttemptStarted") == [f"attempt 1 starts from the weights of {PATH}"]


@pytest.mark.parametrize(("wanted", "step"), [({}, 20), ({"step": 25}, 25)])
async def test_from_another_jobs_checkpoint(wanted, step):
    world = World(healthy, spec=beginning(job="teacher", **wanted))
    world.others["teacher"] = teacher()
    await Drive(world).to_the_end()
    assert origins(world) == [FOLDER.replace("20", str(step))]
    assert world.status["attempt"]["source"]["job"] == "teacher"


@pytest.mark.parametrize(
    ("other", "wanted", "told"),
    [
        (None, {}, "no PPOJob 'teacher' in namespace team"),
        (teacher(claim="elsewhere"), {}, "PPOJob teacher is on claim elsewhere, this job on ppojob"),
        (teacher(confirmed=None), {}, "has not a confirmed checkpoint; whole ones: 20, 25"),
        (teacher(), {"step": 30}, "has not a whole checkpoint of step 30; whole ones: 20, 25"),
    ],
)
async def test_what_is_in_the_way_is_told_and_waited_for(other, wanted, told):
    world = World(healthy, spec=beginning(job="teacher", **wanted))
    if other is not None:
        world.others["teacher"] = other
    drive = Drive(world)
    await drive.until(lambda world: told in world.status.get("message", ""))
    assert not world.attempts
    world.others["teacher"] = teacher()
    if not wanted:
        await drive.to_the_end()
        assert origins(world) == [FOLDER]


async def test_found_out_once():
    """The other job goes on, and is deleted; a restart before the first checkpoint begins where the first did."""
    drive = Drive(World(fails({1}, 22, ExitClass.COMMUNICATION), spec=beginning(job="teacher")))
    drive.world.others["teacher"] = teacher()
    await drive.until(lambda world: 1 in world.attempts)
    drive.world.others.clear()
    world = await drive.to_the_end()
    assert origins(world)[:2] == [FOLDER, FOLDER]
    assert world.status["phase"] == "Succeeded"


async def test_its_own_checkpoints_come_first():
    world = await Drive(World(fails({1}, 23, ExitClass.COMMUNICATION), spec=beginning(path=PATH))).to_the_end()
    assert world.attempts[2].config.resume is not None
    assert world.attempts[2].config.resume.checkpoint == CheckpointRef(attempt=1, step=20)
    assert origins(world) == [PATH, ""]


async def test_a_job_does_not_begin_from_itself():
    world = World(healthy, spec=beginning(job="job"))
    assert world.job is not None
    world.others["job"] = world.job
    await Drive(world).until(lambda world: "names the job itself" in world.status.get("message", ""))
