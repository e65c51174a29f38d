"""Looks at processes through /proc and ends one that is certainly ours.

It never acts on a name: a process is the number and the start time that were written down.
"""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

from tests.cluster.local.state import ProcessMark


def mark(pid: int) -> ProcessMark:
    """Take down a running process; raises ProcessLookupError when there is none."""
    fields = _stat(pid)
    if fields is None:
        raise ProcessLookupError(f"no process {pid}")
    return ProcessMark(pid=pid, started=int(fields[19]))


def alive(process: ProcessMark | None) -> bool:
    """Whether it is that very process and still runs; a zombie does not."""
    if process is None:
        return False
    fields = _stat(process.pid)
    return fields is not None and int(fields[19]) == process.started and fields[0] not in "ZX"


def children(pid: int) -> list[int]:
    """The children of a process that run; none when it has ended."""
    try:
        found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [int(child) for child in found]


def pid_inside(pid: int) -> int | None:
    """The number that a process has in the innermost process namespace; None when it has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    numbers = [line for line in status.splitlines() if line.startswith("NSpid:")]
    if "State:\tZ" in status or not numbers:
        return None
    return int(numbers[0].split()[-1])


def kill(process: ProcessMark | None) -> None:
    """End it at once, if it is still that very process."""
    if process is not None and alive(process):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)


def _stat(pid: int) -> list[str] | None:
    """Fields 3 and on of /proc/<pid>/stat (the state is first); the name before may hold blanks."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text[text.rindex(")") + 2 :].split()
