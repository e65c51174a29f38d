"""Runs other programs to their end and turns a failure into words.

It must never use a shell and never hide what a failed program said. What keeps running is started
by the part that also stops it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

Argument = str | Path


class CommandFailed(RuntimeError):
    """A program ended with an error; the message has the command and the end of its output."""

    def __init__(self, command: Sequence[Argument], returncode: int, output: str) -> None:
        shown = " ".join(str(word) for word in command)
        tail = "\n".join(output.strip().splitlines()[-30:])
        super().__init__(f"`{shown}` ended with {returncode}:\n{tail}")
        self.returncode = returncode
        self.output = output


class MissingProgram(RuntimeError):
    """A program is not on this machine; the message says how to install it."""


def run(
    command: Sequence[Argument],
    *,
    stdin: str | None = None,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    timeout: float | None = None,
) -> str:
    """Run the command and return what it printed on stdout.

    Args:
        command: program and arguments.
        stdin: text for its standard input; without it the input is empty.
        environment: variables on top of this process's own.
        folder: its working folder.
        timeout: seconds until it is killed.

    Raises:
        CommandFailed: it ended with another code than 0; stderr and stdout are in the message.
        subprocess.TimeoutExpired: it took longer than `timeout`.
    """
    done = subprocess.run(
        [str(word) for word in command],
        input=stdin or "",
        env={**os.environ, **(environment or {})},
        cwd=folder,
        timeout=timeout,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise CommandFailed(command, done.returncode, done.stdout + "\n" + done.stderr)
    return done.stdout


def follow(
    command: Sequence[Argument],
    on_line: Callable[[str], None],
    *,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> list[str]:
    """Run a long command, hand over each line as it comes, and return all of them.

    stdout and stderr arrive as one stream. Raises CommandFailed as `run` does.
    """
    lines: list[str] = []
    with subprocess.Popen(
        [str(word) for word in command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, **(environment or {})},
        cwd=folder,
        text=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line.rstrip("\n"))
            on_line(lines[-1])
    if process.returncode != 0:
        raise CommandFailed(command, process.returncode, "\n".join(lines))
    return lines


def require(programs: Sequence[str], *, install: str) -> None:
    """Raise MissingProgram when one of the programs is not on PATH.

    `install` is the command that brings them.
    """
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        raise MissingProgram(f"not on this machine: {', '.join(missing)}; run `{install}`")
