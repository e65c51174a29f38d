"""Hands reports to the sink: at once when something of weight changed, figures at most every 5 s.

A report that the sink did not take is not lost: the next one carries its events along.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import msgspec

from runnerq_operator.control.report import QueueEvent, QueueReport, StatusSink
from runnerq_operator.control.status import standing
from runnerq_operator.model.status import RunnerQueueStatus, RunnerWorkerPoolStatus

logger = logging.getLogger(__name__)

FIGURES_EVERY_SECONDS = 5.0
_KEPT_EVENTS = 50


class Publisher:
    """Of one queue."""

    def __init__(self, sink: StatusSink, clock: Callable[[], float]) -> None:
        self._sink = sink
        self._clock = clock
        self._shown: QueueReport | None = None
        self._shown_at = 0.0
        self._pending: tuple[QueueEvent, ...] = ()

    async def publish(self, report: QueueReport) -> None:
        """Show the report if there is something new in it. What the sink raises is the caller's."""
        self._pending = (*self._pending, *report.events)[-_KEPT_EVENTS:]
        now = self._clock()
        if not self._pending and not self._worth_showing(report, now):
            return
        await self._sink.publish(msgspec.structs.replace(report, events=self._pending))
        self._shown, self._shown_at, self._pending = report, now, ()

    def _worth_showing(self, report: QueueReport, now: float) -> bool:
        shown = self._shown
        if shown is None or _weight(shown) != _weight(report):
            return True
        if now - self._shown_at < FIGURES_EVERY_SECONDS:
            return False
        return _figures(shown) != _figures(report)


def _figures(report: QueueReport) -> tuple[Any, ...]:
    """Everything but how the decisions were explained: the rates in there move at every read, also
    where nothing happens, and a status is not written for them alone."""
    return (_explained_briefly(report.status), *map(_explained_briefly, report.pools.values()))


def _explained_briefly(status: RunnerQueueStatus | RunnerWorkerPoolStatus) -> tuple[Any, ...]:
    decision = status.decision
    brief = decision and (decision.pool, decision.from_replicas, decision.to_replicas)
    return msgspec.structs.replace(status, decision=None), brief, decision and decision.reason


def _weight(report: QueueReport) -> tuple[Any, ...]:
    pools = {name: standing(status) for name, status in report.pools.items()}
    return standing(report.status), pools
