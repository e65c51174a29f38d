"""Topics: the documents that REST answers and the live stream pushes, built the same way for both.

Pure. A topic is a latest value: a client that missed one needs only the next. What could not be read
becomes an error in its own topic and leaves the others alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

from runnerq.clock import milliseconds
from runnerq.console.pools import is_stale, pools_of
from runnerq.console.problems import Problem
from runnerq.console.series import Point, PoolPoint
from runnerq.documents import (
    decision_document,
    demand_document,
    engine_document,
    stats_document,
)
from runnerq.storage.records import EngineState

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from runnerq.documents import Document
    from runnerq.storage.records import DecisionRecord, PodRecord, QueueDemand, QueueStats

_T = TypeVar("_T")


class Readings(NamedTuple):
    """One look at a queue: each part as read, or why it could not be."""

    stats: QueueStats | Problem
    demand: QueueDemand | Problem
    pods: Sequence[PodRecord] | Problem
    decisions: Sequence[DecisionRecord] | Problem


def stats_topic(stats: QueueStats, demand: QueueDemand, rate: float | None) -> Document:
    """`demand` says what can run now, which the states alone do not: due retries count as claimable."""
    return stats_document(stats) | {
        "demand": demand_document(demand),
        "finished_per_second": rate,
    }


def pools_topic(
    demand: QueueDemand, pods: Sequence[PodRecord], decisions: Sequence[DecisionRecord]
) -> Document:
    return {
        "queue": demand.queue,
        "as_of": demand.as_of,
        "pools": pools_of(demand, pods, decisions),
    }


def workers_topic(demand: QueueDemand) -> Document:
    """Engine processes that have not stopped, by pool and pod."""
    engines = [engine for engine in demand.engines if engine.state is not EngineState.STOPPED]
    engines.sort(key=lambda engine: (engine.info.pool, engine.info.pod, engine.started_at))
    return {
        "queue": demand.queue,
        "as_of": demand.as_of,
        "workers": [engine_document(engine, stale=is_stale(engine)) for engine in engines],
    }


def decisions_topic(queue: str, decisions: Sequence[DecisionRecord]) -> Document:
    return {
        "queue": queue,
        "decisions": [decision_document(decision) for decision in decisions],
    }


def topic_documents(queue: str, readings: Readings, rate: float | None) -> dict[str, Document]:
    """All topics of one look; a failed part shows as `{"error": ...}` where it was needed."""
    stats, demand, pods, decisions = readings
    return {
        "stats": _unless_failed(lambda: stats_topic(_read(stats), _read(demand), rate)),
        "pools": _unless_failed(lambda: pools_topic(_read(demand), _read(pods), _read(decisions))),
        "workers": _unless_failed(lambda: workers_topic(_read(demand))),
        "decisions": _unless_failed(lambda: decisions_topic(queue, _read(decisions))),
    }


def point(readings: Readings, rate: float | None, *, now_ms: int) -> Point:
    """The chart's point of one look; a gap (at `now_ms`, our clock) where the backend told nothing."""
    _, demand, pods, decisions = readings
    if isinstance(demand, Problem):
        return Point(now_ms)
    known_pods = () if isinstance(pods, Problem) else pods
    known_decisions = () if isinstance(decisions, Problem) else decisions
    return Point(
        milliseconds(demand.as_of),
        rate,
        sum(entry.claimable for entry in demand.types),
        sum(entry.running for entry in demand.types),
        {
            pool.pool: PoolPoint(pool.desired, pool.ready, pool.busy, pool.backlog)
            for pool in pools_of(demand, known_pods, known_decisions)
        },
    )


def _read(part: _T | Problem) -> _T:
    if isinstance(part, Problem):
        raise part
    return part


def _unless_failed(build: Callable[[], Document]) -> Document:
    try:
        return build()
    except Problem as problem:
        return problem.document()
