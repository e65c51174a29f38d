"""What the loop reports, and the port it leaves through.

The loop computes statuses, conditions and events as data; an adapter writes them where people look (the
API server, a terminal). Nothing here does I/O.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Protocol

import msgspec

from runnerq_operator.fleet.port import QueueKey
from runnerq_operator.model.status import RunnerQueueStatus, RunnerWorkerPoolStatus


class EventType(StrEnum):
    NORMAL = "Normal"
    WARNING = "Warning"


class QueueEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened, once. Aggregated: at most one per decision."""

    reason: str
    """One of `runnerq_operator.model.conditions.EVENTS`."""
    message: str
    type: EventType = EventType.NORMAL
    pool: str = ""
    """"" = about the queue as a whole."""


class QueueReport(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be shown of one queue after a pass of the loop. Sent only when something changed."""

    queue: QueueKey
    status: RunnerQueueStatus
    pools: Mapping[str, RunnerWorkerPoolStatus] = {}
    """By pool name; every pool of the spec is there."""
    events: tuple[QueueEvent, ...] = ()
    backend_queue: str = ""


class StatusSink(Protocol):
    async def publish(self, report: QueueReport) -> None:
        """Show it. Raising makes the loop send the newest report again later, events included."""
        ...
