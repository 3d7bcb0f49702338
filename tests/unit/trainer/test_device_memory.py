"""Which role's turn needed how much of a device, on a device that keeps the books as torch's allocator does."""

from types import SimpleNamespace

import pytest

from ppojob_contract.figures import FIGURES
from ppojob_trainer.device_memory import DeviceMemory, largest

TOTAL = 1000


class Books:
    """Tensors come and go; what is reserved stays until it is given back."""

    def __init__(self) -> None:
        self.allocated = self.reserved = self.peak_allocated = self.peak_reserved = self.elsewhere = 0

    def hold(self, size: int) -> None:
        self.allocated += size
        self.reserved = max(self.reserved, self.allocated)
        self.peak_allocated = max(self.peak_allocated, self.allocated)
        self.peak_reserved = max(self.peak_reserved, self.reserved)

    def give_back(self) -> None:
        self.reserved = self.allocated

    def max_memory_allocated(self) -> int:
        return self.peak_allocated

    def max_memory_reserved(self) -> int:
        return self.peak_reserved

    def memory_reserved(self) -> int:
        return self.reserved

    def reset_peak_memory_stats(self) -> None:
        self.peak_allocated, self.peak_reserved = self.allocated, self.reserved

    def mem_get_info(self) -> tuple[int, int]:
        return TOTAL - self.reserved - self.elsewhere, TOTAL


@pytest.fixture
def books() -> Books:
    return Books()


@pytest.fixture
def memory(books: Books) -> DeviceMemory:
    return DeviceMemory(books)


def engine(memory: DeviceMemory, books: Books, role: str) -> SimpleNamespace:
    """Its call holds so much while it lasts."""

    def work(size: int) -> str:
        books.hold(size)
        books.hold(-size)
        if size > TOTAL:
            raise MemoryError
        return f"{role} {size}"

    made = SimpleNamespace(train_batch=work)
    memory.watch(role, made, "train_batch")
    return made


def test_each_role_has_the_peak_of_its_own_turns(memory: DeviceMemory, books: Books) -> None:
    actor, critic = engine(memory, books, "actor"), engine(memory, books, "critic")
    books.hold(100)
    assert actor.train_batch(300) == "actor 300"
    actor.train_batch(200)
    books.give_back()
    critic.train_batch(50)
    assert memory.take() == {
        "actorMemoryAllocatedBytes": 400,
        "actorMemoryReservedBytes": 400,
        "criticMemoryAllocatedBytes": 150,
        "criticMemoryReservedBytes": 150,
        "deviceMemoryFraction": 0.4,
        "deviceMemoryTotalBytes": TOTAL,
    }


def test_what_no_role_needed_is_in_the_share_of_all(memory: DeviceMemory, books: Books) -> None:
    actor = engine(memory, books, "actor")
    books.hold(700)
    books.hold(-700)
    books.give_back()
    actor.train_batch(100)
    books.hold(500)
    books.hold(-500)
    found = memory.take()
    assert (found["actorMemoryAllocatedBytes"], found["deviceMemoryFraction"]) == (100, 0.7)


def test_peaks_begin_anew_when_they_were_taken(memory: DeviceMemory, books: Books) -> None:
    actor = engine(memory, books, "actor")
    actor.train_batch(800)
    memory.take()
    books.give_back()
    assert "actorMemoryAllocatedBytes" not in memory.take()
    actor.train_batch(10)
    found = memory.take()
    assert (found["actorMemoryAllocatedBytes"], found["deviceMemoryFraction"]) == (10, 0.01)


def test_a_turn_that_fails_counts(memory: DeviceMemory, books: Books) -> None:
    actor = engine(memory, books, "actor")
    with pytest.raises(MemoryError):
        actor.train_batch(TOTAL + 1)
    assert memory.take()["actorMemoryAllocatedBytes"] == TOTAL + 1


def test_the_engine_holds_what_the_trainer_does_not(memory: DeviceMemory, books: Books) -> None:
    assert "rolloutMemoryReservedBytes" not in memory.take()
    books.hold(200)
    books.elsewhere = 600
    memory.note_engine()
    books.elsewhere = 0
    assert [memory.take()["rolloutMemoryReservedBytes"] for _ in range(2)] == [600, 600]


def test_every_figure_is_known(memory: DeviceMemory, books: Books) -> None:
    for role in ("actor", "reference", "critic"):
        engine(memory, books, role).train_batch(1)
    memory.note_engine()
    named = {name for name in FIGURES if "Memory" in name}
    assert set(memory.take()) == named


def test_the_fullest_device_counts() -> None:
    assert largest([{"a": 1.0, "b": 5.0}, {"a": 2.0}, {}]) == {"a": 2.0, "b": 5.0}
    assert largest([]) == {}
