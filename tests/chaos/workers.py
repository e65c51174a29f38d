"""Worker processes that a test starts, pauses and kills, and what they wrote down of their runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Self

from tests.chaos.apps.steps import JOURNAL

if TYPE_CHECKING:
    from types import TracebackType

ROOT = Path(__file__).parents[2]
APP = "tests.chaos.apps.steps"


class Workers:
    """`runnerq worker` processes on one queue. A context manager: none outlives the test."""

    def __init__(self, environment: dict[str, str], folder: Path, *, concurrency: int) -> None:
        self._folder = folder
        self._journal = folder / "journal"
        self._journal.touch()
        self._environment = {
            **os.environ,
            **environment,
            JOURNAL: str(self._journal),
            "RUNNERQ_CONCURRENCY": str(concurrency),
            "RUNNERQ_METRICS_PORT": "0",
        }
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in self._processes:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
                process.wait(30)

    def start(self) -> subprocess.Popen[bytes]:
        number = len(self._processes)
        with (self._folder / f"worker-{number}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "runnerq.cli.main", "worker", APP],
                cwd=ROOT,
                env=self._environment,
                stdout=log,
                stderr=log,
            )
        self._processes.append(process)
        return process

    def log_of(self, process: subprocess.Popen[bytes]) -> str:
        number = self._processes.index(process)
        return (self._folder / f"worker-{number}.log").read_text(errors="replace")

    def runs(self) -> dict[int, list[tuple[int, int]]]:
        """By the number of the step: (attempt, pid) of every run that began, in that order."""
        found: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        for line in self._journal.read_text().splitlines():
            number, attempt, pid = line.split()
            found[int(number)].append((int(attempt), int(pid)))
        return found

    def runs_of(self, process: subprocess.Popen[bytes]) -> int:
        return sum(pid == process.pid for runs in self.runs().values() for _, pid in runs)
