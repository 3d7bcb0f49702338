"""Which exit class an exception is, from its type or, for errors of other processes, from its text.

Ray hands on a remote failure as text with the remote traceback, so the type alone says little. The patterns are
quotations of messages of torch, Ray, NCCL, gloo and vLLM; the first class that fits decides.
"""

import errno
import re
from collections.abc import Iterator

from ppojob_contract.outcomes import ExitClass
from ppojob_trainer.errors import AttemptError, CheckpointError

MESSAGE_LIMIT = 500
"""Characters; more does not fit a status column."""

_STORAGE_ERRNOS = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.ESTALE}

_PATTERNS: dict[ExitClass, str] = {
    ExitClass.STORAGE_ERROR: (
        r"No space left on device|Disk quota exceeded|Read-only file system|Stale file handle|Input/output error"
        r"|PytorchStreamWriter failed|unexpected pos \d+ vs \d+|PytorchStreamReader failed"
        r"|OutOfDiskError|file in archive is not in a subdirectory|Error while deserializing header"
    ),
    ExitClass.OUT_OF_MEMORY: (
        r"CUDA out of memory|torch\.OutOfMemoryError|torch\.cuda\.OutOfMemoryError|NPU out of memory"
        r"|DefaultCPUAllocator: (can't allocate|not enough) memory|ray\.exceptions\.OutOfMemoryError"
        r"|node running low on memory|Cannot allocate memory|\bMemoryError\b|NODE_OUT_OF_MEMORY|OOMKilled"
        r"|No available memory for the cache blocks|larger than the available KV cache memory"
        r"|Free memory on device .* is less than desired|CUBLAS_STATUS_ALLOC_FAILED"
    ),
    ExitClass.HANG: (
        r"Watchdog caught collective operation timeout|Timed out after \d+\s?(ms|milliseconds) waiting"
        r"|GetTimeoutError|Timed out waiting \d+ms for (recv|send)|Wait timeout after"
    ),
    ExitClass.COMMUNICATION: (
        r"NCCL error|ncclSystemError|ncclRemoteError|ncclInternalError|ncclUnhandledCudaError|DistBackendError"
        r"|DistNetworkError|Connection reset by peer|Connection closed by peer|Broken pipe|Connection refused"
        r"|ActorDiedError|ActorUnavailableError|RayActorError|WorkerCrashedError|NodeDiedError|OwnerDiedError"
        r"|ObjectLostError|RpcError|GCS (server )?.*(unavailable|failed)|The actor died|worker died"
        r"|EngineDeadError|EngineCore (encountered|died)"
    ),
    ExitClass.NON_FINITE: (
        r"probability tensor contains either `?inf`?, `?nan`?|Loss is (nan|inf)"
        r"|(loss|gradient|grad_norm) is (nan|not finite)"
        r"|non-finite|contains (NaN|nan)"
    ),
    ExitClass.DATA_ERROR: (
        r"ArrowInvalid|Parquet magic bytes not found|DatasetGenerationError|DataFilesNotFoundError"
        r"|Unable to find '.*\.(parquet|jsonl?)'|No such file or directory: '.*\.(parquet|jsonl?)'"
        r"|All samples were filtered out|Train dataloader is empty"
    ),
    ExitClass.CONFIG_ERROR: (
        r"ConfigAttributeError|ConfigKeyError|ConfigTypeError|MissingMandatoryValue|InterpolationKeyError"
        r"|omegaconf\.errors|hydra\.errors|Unrecognized model in|is not a valid model identifier"
        r"|HFValidationError|is not a local folder and is not a valid|can't be loaded because .*trust_remote_code"
        r"|must be divisible by|is not divisible by|should be larger than|Unknown (trainer|rollout mode|platform)"
        r"|does not appear to have a file named|No such file or directory: \S+\.safetensors"
    ),
}

_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
"""Colours, which Ray puts into tracebacks."""

_COMPILED = tuple((exit_class, re.compile(pattern)) for exit_class, pattern in _PATTERNS.items())


def classify(error: BaseException) -> tuple[ExitClass, str]:
    """Class and one-line message of a failure."""
    chain = list(_chain(error))
    for item in chain:
        # Ray's own wrapper is an instance too, with a traceback for a text; what it wraps comes later in the chain.
        if isinstance(item, AttemptError) and _remote(item) is None:
            return item.exit_class, one_line(str(item))
    for item in chain:
        if isinstance(item, OSError) and item.errno in _STORAGE_ERRNOS:
            return ExitClass.STORAGE_ERROR, one_line(f"{type(item).__name__}: {item}")
        if isinstance(item, MemoryError):
            return ExitClass.OUT_OF_MEMORY, one_line(f"MemoryError: {item}")
    text = "\n".join(f"{type(item).__name__}: {item}" for item in chain)
    return classify_text(text), last_words(text)


def unloadable(error: BaseException) -> str | None:
    """Folder of the checkpoint that could not be loaded, where that is what went wrong."""
    failed = (item for item in _chain(error) if isinstance(item, CheckpointError) and _remote(item) is None)
    return next((item.folder for item in failed), None)


def classify_text(text: str) -> ExitClass:
    """Class of a failure that is known by its text (a traceback, a log) only."""
    for exit_class, pattern in _COMPILED:
        if pattern.search(text):
            return exit_class
    return ExitClass.UNKNOWN


def one_line(text: str) -> str:
    """The text on one line, cut to what a status can show."""
    line = " ".join(_ESCAPES.sub("", text).split())
    return line if len(line) <= MESSAGE_LIMIT else f"{line[: MESSAGE_LIMIT - 1]}…"


def last_words(text: str) -> str:
    """The line that names the innermost error: the last one of a traceback that looks like `Type: message`."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    named = [line for line in lines if re.match(r"[A-Za-z_][\w.]*(Error|Exception|Interrupt|Exit)\b.*", line)]
    return one_line((named or lines or ["unknown failure"])[-1])


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error and what it came from, nearest first; `cause` is where Ray keeps a remote exception."""
    seen: set[int] = set()
    queue: list[BaseException | None] = [error]
    while queue:
        item = queue.pop(0)
        if item is None or id(item) in seen:
            continue
        seen.add(id(item))
        yield item
        queue.append(_remote(item))
        queue.append(item.__cause__)
        queue.append(item.__context__ if not item.__suppress_context__ else None)


def _remote(error: BaseException) -> BaseException | None:
    """What a wrapper of Ray's wraps."""
    cause = getattr(error, "cause", None)
    return cause if isinstance(cause, BaseException) else None
