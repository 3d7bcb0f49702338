"""Running other programs: argument lists only, errors that say what failed, waiting with a deadline."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO


class ClusterError(Exception):
    """Something the person at the terminal has to know; printed as one message, without a traceback."""


class CommandError(ClusterError):
    """A program ended with an error; carries the end of what it printed."""


def run(
    *arguments: str | Path,
    stdin: str | IO[bytes] | None = None,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    timeout: float | None = None,
) -> str:
    """Run a program to its end and return its standard output; raise `CommandError` unless it exits with 0.

    `environment` is added to this process's own. A string as `stdin` is the text to send.
    """
    command = [str(argument) for argument in arguments]
    source: dict[str, object] = {"stdin": subprocess.DEVNULL}
    if isinstance(stdin, str):
        source = {"input": stdin.encode()}
    elif stdin is not None:
        source = {"stdin": stdin}
    try:
        done = subprocess.run(  # type: ignore[call-overload]
            command,
            capture_output=True,
            env={**os.environ, **(environment or {})},
            cwd=folder,
            timeout=timeout,
            check=False,
            **source,
        )
    except FileNotFoundError as error:
        raise CommandError(f"{command[0]} is not installed") from error
    except subprocess.TimeoutExpired as error:
        raise CommandError(f"{_short(command)} did not end within {timeout} s") from error
    if done.returncode != 0:
        printed = (done.stderr or done.stdout).decode(errors="replace").strip()
        raise CommandError(f"{_short(command)} ended with {done.returncode}: {printed[-2000:]}")
    return str(done.stdout.decode(errors="replace"))


def succeeds(*arguments: str | Path, timeout: float | None = None) -> bool:
    """Whether the program exits with 0; a missing program does not."""
    try:
        run(*arguments, timeout=timeout)
    except CommandError:
        return False
    return True


def wait_until(what: str, condition: Callable[[], bool], seconds: float, interval: float = 0.1) -> None:
    """Poll `condition` until it holds; raise `ClusterError` naming `what` when the deadline passes first."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise ClusterError(f"{what}: not so within {seconds:.0f} s")
        time.sleep(interval)


def tail(file: Path, lines: int = 15) -> str:
    """The last lines of a log, or a note that there is none."""
    if not file.exists():
        return "(no log)"
    return "\n".join(file.read_text(errors="replace").splitlines()[-lines:])


def _short(command: Sequence[str]) -> str:
    """The program and its first arguments: enough to recognise it, without repeating a manifest."""
    return " ".join([Path(command[0]).name, *command[1:6]])
