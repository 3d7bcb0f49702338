"""A process that runs one user's function: `python -P function_process.py FD FILE NAME`.

FD is its end of a pipe. It says None once the file is loaded, then answers each call, which is a tuple of arguments,
with a number or with a `Failure`. What the function prints goes to the trainer's log. Whoever calls ends the process
where a call takes too long (`functions.FunctionProcesses`): a thread could not be ended.
"""

import asyncio
import ctypes
import importlib.util
import inspect
import os
import signal
import sys
import traceback
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

_PR_SET_PDEATHSIG = 1


Failure = tuple[str, str, str]
"""An exception of the user's code: its type and text, the end of the traceback in the user's own file, and the whole
traceback. No class: a class of this module would have another name where the answer is read.
"""

FRAMES = 4
"""Of the user's file, the innermost first, that are told with an error."""


def main() -> int:
    descriptor, path, name = sys.argv[1:]
    connection = Connection(int(descriptor))
    end_with_parent()
    try:
        function = load(Path(path), name)
    except BaseException as error:
        connection.send(failure(error, path))
        return 1
    connection.send(None)
    while True:
        try:
            arguments = connection.recv()
        except EOFError:
            return 0
        connection.send(answer(function, arguments, path))


def load(path: Path, name: str) -> Callable[..., Any]:
    """Raises ValueError where file or function is not there, else what the file raises."""
    spec = importlib.util.spec_from_file_location("ppojob_user_function", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise ValueError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    function = getattr(module, name, None)
    if not callable(function):
        raise TypeError(f"{path.name} has no function {name!r}")
    return function  # type: ignore[no-any-return]


def answer(function: Callable[..., Any], arguments: tuple[Any, ...], path: str) -> float | Failure:
    """The function's score: a number, or a map with `score`; it may be a coroutine."""
    try:
        value = function(*arguments)
        if inspect.isawaitable(value):
            value = asyncio.run(_awaited(value))
        return float(value["score"] if isinstance(value, Mapping) else value)
    except BaseException as error:
        return failure(error, path)


async def _awaited(value: Any) -> Any:
    return await value


def failure(error: BaseException, path: str) -> Failure:
    """With where in the user's own file it was raised, and from where that was called."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    line = getattr(error, "lineno", None) if isinstance(error, SyntaxError) else None
    places = [f"line {line}"] if line else [_place(frame) for frame in reversed(frames[-FRAMES:])]
    place = f" ({Path(path).name}, {'; called from '.join(places)})" if places else ""
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    said = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return said, place, "".join(traceback.format_exception(error))


def _place(frame: traceback.FrameSummary) -> str:
    return f"line {frame.lineno}, in {frame.name}" + (f": {frame.line}" if frame.line else "")


def end_with_parent() -> None:
    """A function that hangs would not notice that its trainer has been killed."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() == 1:
        sys.exit(1)


if __name__ == "__main__":
    sys.exit(main())
