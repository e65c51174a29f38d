"""The command line as a test uses it: in this process for speed, as a process where that matters."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from runnerq.cli.main import run

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pytest

ROOT = "worker"
DEADLINE = 60


class Said(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


class Terminal:
    """Runs `runnerq ...` against one backend."""

    def __init__(self, capture: pytest.CaptureFixture[str]) -> None:
        self._capture = capture

    def __call__(self, *arguments: str) -> Said:
        self._capture.readouterr()
        code = run(list(arguments), program="runnerq")
        captured = self._capture.readouterr()
        return Said(int(code), captured.out, captured.err)


def environment(**variables: str) -> dict[str, str]:
    """This process's environment without anything of RunnerQ's, plus what a test sets."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RUNNERQ_")}
    return kept | {"PYTHONUNBUFFERED": "1"} | variables


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-c", "from runnerq.cli.main import main; main()", *arguments]


class Process:
    """A long-running command; read line by line, ended by a signal."""

    def __init__(
        self, arguments: Sequence[str], *, cwd: Path | None = None, **variables: str
    ) -> None:
        self._popen = subprocess.Popen(
            command(*arguments),
            cwd=cwd,
            env=environment(**variables),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        self._popen.kill()
        self._popen.communicate(timeout=DEADLINE)

    def says(self, part: str) -> str:
        """The next line on stderr that contains `part`."""
        stream = self._popen.stderr
        assert stream is not None
        seen: list[str] = []
        for line in stream:
            seen.append(line)
            if part in line:
                return line
        raise AssertionError(f"{part!r} was never said, only {''.join(seen)!r}")

    def prints(self) -> str:
        """The next line on stdout."""
        stream = self._popen.stdout
        assert stream is not None
        return stream.readline()

    def end(self, number: signal.Signals) -> Said:
        self._popen.send_signal(number)
        out, err = self._popen.communicate(timeout=DEADLINE)
        return Said(self._popen.returncode, out, err)


def on_a_terminal(*arguments: str, **variables: str) -> str:
    """What one command writes to stdout when that is a terminal."""
    ours, theirs = os.openpty()
    settings = {"TERM": "xterm-256color", "COLUMNS": "200", **variables}
    try:
        subprocess.run(
            command(*arguments),
            env=environment(**settings),
            stdout=theirs,
            stderr=subprocess.DEVNULL,
            timeout=DEADLINE,
            check=True,
        )
    finally:
        os.close(theirs)
    try:
        return os.read(ours, 65_536).decode()
    finally:
        os.close(ours)


def finished(*arguments: str, cwd: Path | None = None, **variables: str) -> Said:
    """One command as a process, to its end."""
    done = subprocess.run(
        command(*arguments),
        cwd=cwd,
        env=environment(**variables),
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
    return Said(done.returncode, done.stdout, done.stderr)
