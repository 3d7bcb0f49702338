"""Which batches are trained on: the data's order without those that rollbacks left out."""

from pathlib import Path

from tests.unit.trainer.builders import step_row

from ppojob_contract import journal
from ppojob_contract.data_plan import Batches, DataPlan, StepRange
from ppojob_contract.layout import JobLayout
from ppojob_contract.manifest import Manifest
from ppojob_trainer.batches import Feed, Order, beginning, find

ORDER = Order(
    files=["/a.parquet"],
    rows=256,
    max_prompt_length=48,
    batch_size=16,
    shuffle=True,
    loader_processes=False,
    data_seed=42,
)


def manifest(step: int, batches: Batches | None) -> Manifest:
    return Manifest(attempt=1, step=step, world_size=1, files={}, batches=batches)


def at(first: int, last: int, order: Order = ORDER) -> Batches:
    return Batches(order=order.name, reshuffle=order.reshuffle, first=first, last=last)


def changed(**facts: object) -> Order:
    values = {name: getattr(ORDER, name) for name in Order.__slots__}
    return Order(**(values | facts))  # type: ignore[arg-type]


def test_an_order_is_named_by_all_that_makes_it() -> None:
    others = [
        changed(files=["/b.parquet"]),
        changed(rows=255),
        changed(max_prompt_length=47),
        changed(batch_size=8),
        changed(shuffle=False),
        changed(loader_processes=True),
        changed(data_seed=43),
        changed(reshuffle=1),
        changed(reshuffle=2),
    ]
    assert len({order.name for order in (ORDER, *others)}) == len(others) + 1
    assert changed().name == ORDER.name


def test_reshuffles_have_seeds_of_their_own() -> None:
    seeds = [changed(reshuffle=number).seed for number in range(5)] + [changed(data_seed=43, reshuffle=1).seed]
    assert seeds[0] == 42
    assert len(set(seeds)) == len(seeds)
    assert changed(reshuffle=3).seed == seeds[3]


def test_an_attempt_begins_where_its_checkpoint_was_saved() -> None:
    start = beginning(ORDER, manifest(10, at(12, 12)))
    assert (start.position, start.iterator, start.message) == (13, True, "")


def test_another_order_begins_anew_and_says_so() -> None:
    edited = beginning(changed(batch_size=8), manifest(10, at(9, 9)))
    assert (edited.position, edited.iterator) == (0, False)
    assert "batchSize" in edited.message
    shuffled = beginning(changed(reshuffle=1), manifest(10, at(9, 9)))
    assert (shuffled.position, shuffled.iterator) == (0, False)
    assert "reshuffle 1" in shuffled.message


def test_a_checkpoint_without_numbers_was_saved_before_anything_was_left_out() -> None:
    start = beginning(ORDER, manifest(10, None))
    assert (start.position, start.iterator) == (10, True)


def test_steps_are_found_as_batches_of_their_own_order_only(tmp_path: Path) -> None:
    job = JobLayout(tmp_path)
    for step in (1, 2, 3):
        step_row(job.attempt(1), step, batches=at(step + 4, step + 4))
    step_row(job.attempt(2), 3, batches=at(0, 1, changed(reshuffle=1)))
    steps = [StepRange(attempt=1, first=2, last=3), StepRange(attempt=2, first=3, last=3)]
    assert find(job, steps, ORDER.name) == ({6, 7}, ())
    assert find(job, steps, changed(reshuffle=1).name) == ({0, 1}, ())


def test_what_no_journal_says_is_told(tmp_path: Path) -> None:
    job = JobLayout(tmp_path)
    step_row(job.attempt(1), 1)
    numbers, unknown = find(job, [StepRange(attempt=1, first=1, last=2), StepRange(attempt=7, first=4, last=4)], "x")
    assert numbers == frozenset()
    assert [line.split(":")[0] for line in unknown] == [
        "the journal of attempt 1 does not say which batches steps 1 to 2 had",
        "the journal of attempt 7 does not say which batches step 4 had",
    ]


def test_passing_over_is_told_once(tmp_path: Path) -> None:
    job = JobLayout(tmp_path)
    for step in (1, 2, 3, 4):
        step_row(job.attempt(1), step, batches=at(step - 1, step - 1))
    said: list[str] = []
    feed, source = Feed(said.append), iter(range(100))
    plan = DataPlan(skip=[StepRange(attempt=1, first=2, last=4)])
    assert "3 batches are to be passed over" in feed.begin(ORDER, plan, None, job).message
    drawn = []
    for _ in range(3):
        feed.begin_step()
        drawn.append(feed.draw(lambda: next(source)))
    assert drawn == [0, 4, 5]
    assert said == ["batches 1 to 3 of the data's order passed over: a rollback left them out"]


def test_rows_say_their_batches_and_old_rows_are_read(tmp_path: Path) -> None:
    layout = JobLayout(tmp_path).attempt(1)
    step_row(layout, 1)
    step_row(layout, 2, batches=at(1, 2))
    rows = [row for row, _ in journal.read(layout.journal)]
    assert [row.batches for row in rows] == [None, at(1, 2)]
    saved = manifest(2, at(1, 2))
    assert Manifest.from_json(saved.to_json()) == saved
    old = saved.to_json()
    del old["batches"]
    assert Manifest.from_json(old).batches is None
