"""Reads: every question that the console asks the backend, bounded in time and measured.

Turns what goes wrong into a `Problem`; never into a number or an empty list. A request that its client
gave up on is cancelled here, and with it the backend's query.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, TypeVar

from runnerq.console.problems import Problem, from_error
from runnerq.console.topics import Readings
from runnerq.errors import RunnerQError

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from runnerq.console.metrics import ConsoleMetrics
    from runnerq.storage.ports import Storage
    from runnerq.storage.records import QueueDemand

TIMEOUT_SECONDS = 5.0
HORIZON_MS = 60_000
"""How far ahead `due_soon` looks."""
DECISIONS = 50

_T = TypeVar("_T")


class Reads:
    """What the handlers and the sampler ask through."""

    def __init__(
        self,
        backend: Storage,
        metrics: ConsoleMetrics,
        *,
        queue: str,
        all_queues: bool,
        timeout: float = TIMEOUT_SECONDS,
    ) -> None:
        self.backend = backend
        self.queue = queue
        """The queue of requests that name none."""
        self._metrics = metrics
        self._all_queues = all_queues
        self._timeout = timeout

    async def ask(self, query: str, answer: Awaitable[_T]) -> _T:
        """Wait for one answer of the backend; `query` names the question in the metrics."""
        started = time.perf_counter()
        try:
            async with asyncio.timeout(self._timeout):
                return await answer
        except (RunnerQError, TimeoutError) as error:
            raise from_error(error) from error
        finally:
            self._metrics.query_seconds.labels(query).observe(time.perf_counter() - started)

    async def queues(self) -> list[str]:
        """The queues that may be looked at, the default one first."""
        if not self._all_queues:
            return [self.queue]
        known = await self.ask("queues", self.backend.list_queues())
        return [self.queue, *sorted(set(known) - {self.queue})]

    async def known_queue(self, name: str | None) -> str:
        """The queue a request is about; a Problem when there is none of that name."""
        if name is None or name == self.queue:
            return self.queue
        known = await self.queues()
        if name not in known:
            message = f"queue: there is no queue {name!r}; known are {', '.join(known)}"
            raise Problem(404, "not_found", message, field="queue")
        return name

    async def demand(self, queue: str) -> QueueDemand:
        answer = await self.ask("demand", self.backend.demand([queue], horizon_ms=HORIZON_MS))
        return answer[0]

    async def look(self, queue: str) -> Readings:
        """Everything the overview shows, read side by side; a part that failed is its Problem."""
        async with asyncio.TaskGroup() as tasks:
            stats = tasks.create_task(
                _problem_or(self.ask("stats", self.backend.stats(queue))), name="console-stats"
            )
            demand = tasks.create_task(_problem_or(self.demand(queue)), name="console-demand")
            pods = tasks.create_task(
                _problem_or(self.ask("pods", self.backend.pods(queue))), name="console-pods"
            )
            decisions = tasks.create_task(
                _problem_or(self.ask("decisions", self.backend.decisions(queue, limit=DECISIONS))),
                name="console-decisions",
            )
        return Readings(stats.result(), demand.result(), pods.result(), decisions.result())


async def _problem_or(answer: Awaitable[_T]) -> _T | Problem:
    try:
        return await answer
    except Problem as problem:
        return problem
