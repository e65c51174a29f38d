"""What the console measures of itself, and the queue's gauges from its last look at the backend.

The gauges come from one place, the sampler's reading, with the time of that reading beside them, so
that a scrape costs the backend nothing and a stale number can be told from a fresh one. When the last
look failed they vanish: an old number is not shown as if it were the present one.
"""

from __future__ import annotations

from collections import Counter as Tally
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    PlatformCollector,
    ProcessCollector,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from runnerq.clock import milliseconds
from runnerq.console.pools import is_stale
from runnerq.console.problems import Problem
from runnerq.storage.records import ActivityState, EngineState

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client import Metric

    from runnerq.console.topics import Readings
    from runnerq.storage.records import EngineStatus, QueueDemand, QueueStats

_SECONDS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)

MAX_TYPES = 200
"""Type values exported per queue; the rest are summed under the type "other"."""


class ConsoleMetrics:
    """The console's own measurements, in a registry of their own."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        build = Gauge(
            "runnerq_build_info",
            "Always 1; build facts.",
            ("component", "version"),
            registry=registry,
        )
        build.labels("console", installed_version()).set(1)
        self.requests = Counter(
            "runnerq_console_requests",
            "Requests answered.",
            ("route", "method", "code"),
            registry=registry,
        )
        self.request_seconds = Histogram(
            "runnerq_console_request_duration_seconds",
            "Time to answer a request; streams are not in it.",
            ("route", "method"),
            buckets=_SECONDS,
            registry=registry,
        )
        self.clients = Gauge("runnerq_console_sse_clients", "Open live streams.", registry=registry)
        self.events = Counter(
            "runnerq_console_sse_events",
            "Transitions by what became of them.",
            ("outcome",),
            registry=registry,
        )
        self.resyncs = Counter(
            "runnerq_console_sse_resyncs",
            "Times that streams were told to read again.",
            ("reason",),
            registry=registry,
        )
        self.actions = Counter(
            "runnerq_console_actions",
            "Actions taken.",
            ("action", "role", "outcome"),
            registry=registry,
        )
        self.query_seconds = Histogram(
            "runnerq_console_query_duration_seconds",
            "Time the backend took for a read.",
            ("query",),
            buckets=_SECONDS,
            registry=registry,
        )


class QueueGauges(Collector):
    """The queue's depth, workers and reachability, as last read. `detailed` False leaves out what the
    operator of a cluster exports too, since sums would count it twice: the dead letters remain."""

    def __init__(self, queue: str, backend: str, *, detailed: bool) -> None:
        self._queue = queue
        self._backend = backend
        self._detailed = detailed
        self._readings: Readings | None = None

    def update(self, readings: Readings) -> None:
        self._readings = readings

    def collect(self) -> Iterable[Metric]:
        if self._readings is None:
            return
        stats, demand, _, _ = self._readings
        up = GaugeMetricFamily(
            "runnerq_backend_up",
            "1 when the last read of the queue succeeded.",
            labels=("queue", "backend"),
        )
        up.add_metric((self._queue, self._backend), float(not isinstance(demand, Problem)))
        yield up
        yield self._depth(stats, demand)
        if not self._detailed or isinstance(demand, Problem):
            return
        read_at = GaugeMetricFamily(
            "runnerq_stats_last_collection_timestamp_seconds",
            "When the figures of the queue were read, by the backend's clock.",
            labels=("queue", "backend"),
        )
        read_at.add_metric((self._queue, self._backend), milliseconds(demand.as_of) / 1000)
        yield read_at
        oldest = GaugeMetricFamily(
            "runnerq_queue_oldest_ready_age_seconds",
            "Age of the oldest claimable activity since it became claimable; 0 when none is.",
            labels=("queue",),
        )
        ages = (entry.oldest_claimable_age_ms or 0 for entry in demand.types)
        oldest.add_metric((self._queue,), max(ages, default=0) / 1000)
        yield oldest
        yield _workers(self._queue, demand.engines)

    def _depth(self, stats: QueueStats | Problem, demand: QueueDemand | Problem) -> Metric:
        depth = GaugeMetricFamily(
            "runnerq_queue_activities",
            "Activities by state; beyond the backend's cap a lower bound.",
            labels=("queue", "type", "state"),
        )
        counts: Tally[tuple[str, str]] = Tally()
        if self._detailed and not isinstance(demand, Problem):
            # An empty queue shows zeros, of no type: without them it would look like one nobody reads.
            counts.update({("", "claimable"): 0, ("", "processing"): 0})
            for rank, entry in enumerate(demand.types):
                name = entry.type if rank < MAX_TYPES else "other"
                counts[name, "claimable"] += entry.claimable
                counts[name, "processing"] += entry.running
        if not isinstance(stats, Problem):
            states = (ActivityState.SCHEDULED, ActivityState.RETRYING) if self._detailed else ()
            for rank, (activity_type, by_state) in enumerate(sorted(stats.by_type.items())):
                name = activity_type if rank < MAX_TYPES else "other"
                for state in states:
                    counts[name, state.value] += by_state.get(state, 0)
            dead = stats.counts.get(ActivityState.DEAD_LETTER, 0)
            counts["", ActivityState.DEAD_LETTER.value] += dead
        for (name, state), count in counts.items():
            depth.add_metric((self._queue, name, state), count)
        return depth


def installed_version() -> str:
    """The version of the installed distribution; "unknown" in a bare checkout."""
    try:
        return version("runnerq")
    except PackageNotFoundError:
        return "unknown"


def _workers(queue: str, engines: Iterable[EngineStatus]) -> GaugeMetricFamily:
    states: Tally[str] = Tally({"live": 0, "draining": 0, "stale": 0})
    for engine in engines:
        if engine.state is EngineState.STOPPED:
            continue
        draining = engine.state is EngineState.DRAINING
        states["stale" if is_stale(engine) else "draining" if draining else "live"] += 1
    family = GaugeMetricFamily(
        "runnerq_workers", "Engine processes by state.", labels=("queue", "state")
    )
    for state, count in states.items():
        family.add_metric((queue, state), count)
    return family
