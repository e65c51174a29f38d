"""Processes recognised for certain: by id and start time, so that a reused id is never taken for ours.

Whatever `runnerq dev` starts is noted in a file at once. After a kill -9 the next start finds there what
was left running, ends it, and nothing else.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import time
from enum import StrEnum
from pathlib import Path

import msgspec

logger = logging.getLogger(__name__)

_POLL_SECONDS = 0.05


class Kind(StrEnum):
    WORKER = "worker"
    DATABASE = "database"
    PROGRAM = "program"


_HOW: dict[Kind, tuple[signal.Signals, float]] = {
    # A worker hands back what it runs; Postgres disconnects its clients and writes all down.
    Kind.WORKER: (signal.SIGTERM, 5.0),
    Kind.PROGRAM: (signal.SIGTERM, 2.0),
    Kind.DATABASE: (signal.SIGINT, 20.0),
}


class Noted(msgspec.Struct, frozen=True):
    """One process as it was when it was started."""

    kind: Kind
    pid: int
    started: str


class ProcessNotes:
    """The file, one JSON line per process."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def note(self, kind: Kind, pid: int) -> None:
        started = start_time(pid)
        if started is None:
            return
        line = msgspec.json.encode(Noted(kind, pid, started)) + b"\n"
        with self._path.open("ab") as file:
            file.write(line)

    def end_leftovers(self) -> list[Noted]:
        """End what is still running of an earlier time, workers before the database; who that was.
        Blocks for up to half a minute."""
        alive = [one for one in self._read() if start_time(one.pid) == one.started]
        for kind in (Kind.PROGRAM, Kind.WORKER, Kind.DATABASE):
            _end([one for one in alive if one.kind is kind], *_HOW[kind])
        self._path.unlink(missing_ok=True)
        return alive

    def _read(self) -> list[Noted]:
        try:
            lines = self._path.read_bytes().splitlines()
        except FileNotFoundError:
            return []
        noted: list[Noted] = []
        for line in lines:
            # The last line may be half written: the machine stopped in the middle of it.
            with contextlib.suppress(msgspec.DecodeError, msgspec.ValidationError):
                noted.append(msgspec.json.decode(line, type=Noted))
        return noted


def _end(processes: list[Noted], how: signal.Signals, grace: float) -> None:
    for one in processes:
        logger.info("ending %s %d, left over from an earlier run", one.kind.value, one.pid)
        _send(one, how)
    deadline = time.monotonic() + grace
    left = processes
    while left and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
        left = [one for one in left if start_time(one.pid) == one.started]
    for one in left:
        _send(one, signal.SIGKILL)
    # What they started themselves is in their group; it may outlive them.
    for one in processes:
        if one.kind is not Kind.DATABASE:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(one.pid, signal.SIGKILL)


def _send(one: Noted, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(one.pid, number)


def start_time(pid: int) -> str | None:
    """When a process was started, in words that differ for every process that ever has this id;
    None when there is none, or it has ended and only waits to be noticed."""
    stat = Path(f"/proc/{pid}/stat")
    if Path("/proc/self/stat").exists():
        try:
            # The name in the second field may contain anything, also spaces and brackets.
            fields = stat.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            return None
        return None if fields[0] == "Z" else f"{_boot()}/{fields[19]}"
    found = subprocess.run(
        ["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return found.stdout.strip() or None


def _boot() -> str:
    """Start times count from the boot, so which boot it was belongs to them."""
    with contextlib.suppress(FileNotFoundError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ""
