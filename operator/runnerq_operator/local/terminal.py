"""What `runnerq dev` shows: where things are, one line per change of a pool, and the workers' output.

Quiet: nothing is said twice, and nothing is said while nothing changes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from datetime import datetime
from typing import Final

from rich.console import Console
from rich.text import Text

from runnerq_operator.control.report import EventType, QueueReport
from runnerq_operator.fleet.port import PoolKey
from runnerq_operator.model.status import Condition, RunnerWorkerPoolStatus

_COLOURS: Final = ("cyan", "magenta", "green", "yellow", "blue", "red")
_SAID_CONDITIONS: Final = {
    "BackendReachable": "False",
    "SchemaCompatible": "False",
    "Stalled": "True",
}
"""Conditions that are worth a line when they become so."""


class Terminal:
    """Implements `StatusSink` on a terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._colours: dict[str, str] = {}
        self._ready: dict[str, tuple[int, int]] = {}
        self._trouble: dict[str, str] = {}
        self.report: QueueReport | None = None
        """The newest."""

    def heading(self, queue: str, facts: Mapping[str, str]) -> None:
        self._print(Text.assemble(("runnerq dev", "bold"), f"  queue {queue}"))
        for name, value in facts.items():
            self._print(Text(f"  {name:<9}{value}"))

    def say(self, text: str, *, source: str = "", style: str = "") -> None:
        """One line with the time in front."""
        now = f"{datetime.now().astimezone():%H:%M:%S}"
        name = Text(f"{source:<8} " if source else "", self._colour(source))
        self._print(Text.assemble((f"{now} ", "dim"), name, (text, style)))

    def output(self, pool: PoolKey, worker: str, line: str) -> None:
        """A line that a worker wrote, with the worker's short name in its pool's colour."""
        short = worker.removeprefix(f"{pool.queue}-")
        self._written(pool.pool, short, line)

    def program_output(self, line: str) -> None:
        self._written("run", "run", line)

    async def publish(self, report: QueueReport) -> None:
        for event in report.events:
            style = "yellow" if event.type is EventType.WARNING else ""
            self.say(event.message, source=event.pool or "queue", style=style)
        self._conditions(report.status.conditions)
        for name, status in report.pools.items():
            self._pool(name, status)
        self.report = report

    def _pool(self, name: str, status: RunnerWorkerPoolStatus) -> None:
        now = (status.ready_replicas, status.desired_replicas)
        before = self._ready.get(name, (0, 0))
        self._ready[name] = now
        if now != before and now[0] == now[1]:
            self.say(f"{now[0]} ready" if now[0] else "at zero", source=name, style="green")

    def _conditions(self, conditions: tuple[Condition, ...]) -> None:
        trouble = {
            condition.type: f"{condition.reason}: {condition.message}"
            for condition in conditions
            if _SAID_CONDITIONS.get(condition.type) == condition.status
        }
        for name, text in trouble.items():
            if self._trouble.get(name) != text:
                self.say(text, source="queue", style="red")
        for name in self._trouble.keys() - trouble.keys():
            self.say(f"{name} is good again", source="queue", style="green")
        self._trouble = trouble

    def _written(self, group: str, name: str, line: str) -> None:
        prefix = Text(f"{name} | ", self._colour(group))
        # What programs write is theirs: its own colours stay, and nothing in it is taken for markup.
        self._print(Text.assemble(prefix, Text.from_ansi(line)))

    def _print(self, text: Text) -> None:
        # A terminal that was closed must not keep what runs from being ended in order.
        with contextlib.suppress(OSError):
            self._console.print(text, soft_wrap=True)

    def _colour(self, group: str) -> str:
        if not group:
            return ""
        return self._colours.setdefault(group, _COLOURS[len(self._colours) % len(_COLOURS)])
