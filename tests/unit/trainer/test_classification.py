"""Messages as torch, Ray, NCCL and others have really written them."""

import errno

import pytest

from ppojob_contract.outcomes import ExitClass
from ppojob_trainer.classification import MESSAGE_LIMIT, classify, classify_text, last_words
from ppojob_trainer.errors import AttemptError, ConfigError, DataError, HangError, StorageError

RECORDED = {
    ExitClass.OUT_OF_MEMORY: (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of",
        "RuntimeError: [enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory: you tried to",
        "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.",
        "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`",
    ),
    ExitClass.COMMUNICATION: (
        "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:3356, unhandled system error",
        "RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.3]:41211",
        "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.",
        "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.",
    ),
    ExitClass.HANG: ("[rank0]: Watchdog caught collective operation timeout: WorkNCCL(SeqNum=912, OpType=ALLREDUCE)",),
    ExitClass.NON_FINITE: ("RuntimeError: probability tensor contains either `inf`, `nan` or element < 0",),
    ExitClass.STORAGE_ERROR: (
        "RuntimeError: [enforce fail at inline_container.cc:664] . unexpected pos 64 vs 0",
        "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory",
        "OSError: [Errno 28] No space left on device: '/ppojob/storage/a'",
    ),
    ExitClass.DATA_ERROR: ("pyarrow.lib.ArrowInvalid: Parquet magic bytes not found in footer.",),
    ExitClass.CONFIG_ERROR: (
        "omegaconf.errors.ConfigAttributeError: Key 'foo' is not in struct",
        "ValueError: Unrecognized model in /models/x. Should have a `model_type` key in its config.json",
    ),
    ExitClass.UNKNOWN: ("ZeroDivisionError: division by zero",),
}


@pytest.mark.parametrize(("expected", "text"), [(c, text) for c, texts in RECORDED.items() for text in texts])
def test_recorded_messages(expected: ExitClass, text: str) -> None:
    assert classify_text(text) is expected
    assert classify(RuntimeError(text))[0] is expected


def test_disk_full_names_the_innermost_line() -> None:
    exit_class, message = classify(OSError(errno.ENOSPC, "No space left on device", "/claim/x"))
    assert exit_class is ExitClass.STORAGE_ERROR
    assert "/claim/x" in message


@pytest.mark.parametrize("error", [ConfigError("a"), DataError("b"), StorageError("c"), HangError("d")])
def test_our_own_errors_keep_their_class_through_wrapping(error: AttemptError) -> None:
    outer = RuntimeError("ActorDiedError around it")
    outer.__cause__ = error
    assert classify(outer) == (error.exit_class, str(error))


def test_a_remote_cause_counts() -> None:
    class RemoteError(StorageError):
        cause = StorageError("manifest.json is missing")

    assert classify(RemoteError("\x1b[36mray::run()\x1b[39m File x, line 1")) == (
        ExitClass.STORAGE_ERROR,
        "manifest.json is missing",
    )


def test_message_is_the_last_named_line_and_short() -> None:
    text = "Traceback (most recent call last):\n  File x\nValueError: first\n\nRuntimeError: second   thing\n  noise"
    assert last_words(text) == "RuntimeError: second thing"
    assert len(classify(RuntimeError("x" * 5000))[1]) == MESSAGE_LIMIT


def test_colours_of_ray_are_taken_out() -> None:
    assert last_words("\x1b[36mray::run()\x1b[39m (pid=1)") == "ray::run() (pid=1)"


def test_a_circle_of_causes_ends() -> None:
    first, second = RuntimeError("a"), RuntimeError("b")
    first.__cause__, second.__cause__ = second, first
    assert classify(first)[0] is ExitClass.UNKNOWN
