"""A user's reward function, in processes of its own, with a deadline for each call."""

import logging
import multiprocessing
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Self

from ppojob_trainer.rewards import function_process
from ppojob_trainer.rewards.answers import Answer

log = logging.getLogger(__name__)

PROCESSES = 4
"""At most so many calls at a time; a process is started when all others are busy."""

LOAD_SECONDS = 300
"""For importing the file: torch from a slow volume takes its time."""


class FunctionFailed(Exception):
    """The function raised, took too long, or its process died; the text is for a person."""

    def __init__(self, said: str, place: str = "", traceback: str = "") -> None:
        super().__init__(f"{said}{place}")
        self.said = said
        self.place = place
        self.traceback = traceback


@dataclass(slots=True)
class _Process:
    process: subprocess.Popen[bytes]
    connection: Connection

    @classmethod
    def start(cls, path: str, name: str) -> Self:
        ours, theirs = multiprocessing.Pipe()
        with theirs:
            descriptor = theirs.fileno()
            # -P: what the code imports is never a module that lies beside this one.
            command = [sys.executable, "-P", function_process.__file__, str(descriptor), path, name]
            process = subprocess.Popen(command, pass_fds=[descriptor], stdin=subprocess.DEVNULL)
        started = cls(process, ours)
        try:
            loaded = started.receive(LOAD_SECONDS)
        except FunctionFailed:
            started.end()
            raise
        if loaded is not None:
            started.end()
            raise FunctionFailed(*loaded)
        return started

    def receive(self, seconds: float) -> Any:
        if not self.connection.poll(seconds):
            raise FunctionFailed(f"TimeoutError: no answer within {seconds:g} s; its process was ended")
        try:
            return self.connection.recv()
        except (EOFError, OSError) as error:
            code = self.process.wait(10)
            raise FunctionFailed(f"ChildProcessError: the function's process ended with code {code}") from error

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self.connection.close()


class FunctionProcesses:
    """Callable from several threads at once. Raises FunctionFailed for a call that gave no number."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self._path, self._name = str(spec["path"]), str(spec.get("name", "compute_score"))
        self._seconds = float(spec.get("timeoutSeconds", 30))
        self._idle: list[_Process] = []
        self._room = threading.Semaphore(PROCESSES)

    def load(self) -> None:
        """Raises FunctionFailed where the file cannot be loaded."""
        with self._process():
            pass

    def __call__(self, answer: Answer) -> float:
        arguments = (answer.data_source, answer.response, answer.ground_truth, dict(answer.extra_info))
        with self._process() as process:
            process.connection.send(arguments)
            result = process.receive(self._seconds)
        if not isinstance(result, float):
            raise FunctionFailed(*result)
        return result

    def close(self) -> None:
        """Ends the processes that wait for a call."""
        while self._idle:
            self._idle.pop().end()

    @contextmanager
    def _process(self) -> Iterator[_Process]:
        """One that is free; it is ended where what is inside raises."""
        with self._room:
            try:
                process = self._idle.pop()
            except IndexError:
                process = _Process.start(self._path, self._name)
            try:
                yield process
            except BaseException:
                process.end()
                raise
            self._idle.append(process)
