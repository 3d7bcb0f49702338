from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.unit.trainer.builders import content

from ppojob_contract.durable import read_json, write_json_once
from ppojob_contract.layout import AttemptLayout
from ppojob_contract.mailbox import AckResult, Command, CommandKind
from ppojob_trainer.mailbox import Mail, Mailbox

STOP = Command(id="c1", kind=CommandKind.STOP)


@pytest.fixture
def layout(tmp_path: Path) -> AttemptLayout:
    tmp_path.joinpath("a").mkdir()
    return AttemptLayout(tmp_path / "a")


def test_empty_mailbox(layout: AttemptLayout) -> None:
    assert Mailbox(layout, "runner").look() is None


def test_claim_then_ack(layout: AttemptLayout) -> None:
    write_json_once(layout.command, STOP.to_json())
    mailbox = Mailbox(layout, "runner")
    assert mailbox.look() == Mail(STOP)
    assert mailbox.claim(STOP)
    mailbox.acknowledge(STOP, AckResult.DONE, step=7)
    assert read_json(layout.claim) == {"by": "Trainer", "id": "c1", "process": "runner"}
    ack = content(layout.ack)
    assert (ack["id"], ack["kind"], ack["result"], ack["step"]) == ("c1", "Stop", "Done", 7)
    assert mailbox.look() is None


def test_a_revoked_command_is_ignored(layout: AttemptLayout) -> None:
    write_json_once(layout.command, STOP.to_json())
    mailbox = Mailbox(layout, "runner")
    assert mailbox.look() == Mail(STOP)
    write_json_once(layout.claim, {"by": "Monitor"})
    assert not mailbox.claim(STOP)
    assert mailbox.look() is None
    assert read_json(layout.claim) == {"by": "Monitor"}
    assert Mailbox(layout, "entry").look() is None


def test_a_revoked_rollback_asks_to_end_until_somebody_acts(layout: AttemptLayout) -> None:
    command = Command(id="c2", kind=CommandKind.ROLLBACK, next_attempt=2)
    write_json_once(layout.command, command.to_json())
    mailbox = Mailbox(layout, "runner")
    assert mailbox.look() == Mail(command)
    assert not Mail(command).asks_to_end
    write_json_once(layout.claim, {"by": "Monitor"})
    assert not mailbox.claim(command)
    for _ in range(2):
        assert mailbox.look() == Mail(command, revoked=True)
    assert Mail(command, revoked=True).asks_to_end


def test_what_another_process_of_the_trainer_claimed_is_its_own(layout: AttemptLayout) -> None:
    command = Command(id="c2", kind=CommandKind.ROLLBACK, next_attempt=2)
    write_json_once(layout.command, command.to_json())
    assert Mailbox(layout, "runner").claim(command)
    assert Mailbox(layout, "entry").look() is None


def test_of_many_exactly_one_claims(layout: AttemptLayout) -> None:
    write_json_once(layout.command, STOP.to_json())

    def trainer(number: int) -> bool:
        return Mailbox(layout, f"p{number}").claim(STOP)

    def monitor(_: int) -> bool:
        return write_json_once(layout.claim, {"by": "Monitor"})

    with ThreadPoolExecutor(16) as pool:
        won = [*pool.map(trainer, range(20)), *pool.map(monitor, range(20))]
    assert sum(won) == 1
    assert not [path for path in layout.folder.iterdir() if path.name.endswith(".tmp")]


def test_due_limits_how_often_files_are_read(layout: AttemptLayout) -> None:
    now = 0.0
    mailbox = Mailbox(layout, "runner", monotonic=lambda: now)
    assert mailbox.due(0.25)
    now = 0.1
    assert not mailbox.due(0.25)
    assert mailbox.due(0.0)
    now = 0.4
    assert mailbox.due(0.25)
