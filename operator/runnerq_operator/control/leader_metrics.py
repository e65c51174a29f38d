"""What the leader measures of queues and pools: alive only while it leads, gone with what it is about.

A sink for the control loop and a collector of the last observations. A gauge that outlived its pool, or
that a former leader kept, would be summed with the present one.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from runnerq.metrics import PrometheusMetrics
from runnerq.storage.records import EngineState, QueueDemand
from runnerq_operator.control.measurements import DESCRIPTIONS
from runnerq_operator.control.reading import alive

if TYPE_CHECKING:
    from prometheus_client import Metric

    from runnerq_operator.control.observation import Observation
    from runnerq_operator.fleet.port import QueueKey

MAX_TYPES = 200
"""Type values per queue; the rest are summed under the type "other"."""
_NOTHING = (("", "claimable"), ("", "processing"), ("", "scheduled"))

_Labels = tuple[tuple[str, str], ...]


class LeaderMetrics(Collector):
    """Implements `MetricsSink`; `observed` takes what each pass found. One per term of leadership.

    What is shown follows at each scrape from the queues that `exists` and from their pools. `without`
    names what somebody else shows better.
    """

    def __init__(
        self, exists: Callable[[QueueKey], bool], *, without: Collection[str] = ()
    ) -> None:
        self._exists = exists
        self._without = frozenset(without)
        self.registry = CollectorRegistry()
        self._durations = PrometheusMetrics(self.registry, descriptions=DESCRIPTIONS)
        self._gauges: dict[str, dict[_Labels, float]] = {}
        self._counters: dict[str, dict[_Labels, float]] = {}
        self._observations: dict[QueueKey, Observation] = {}
        self.registry.register(self)

    def inc_counter(
        self, name: str, value: float = 1, labels: Mapping[str, str] | None = None
    ) -> None:
        series = self._counters.setdefault(name, {})
        key = _key(labels)
        series[key] = series.get(key, 0.0) + value

    def observe_duration(
        self, name: str, duration: float | timedelta, labels: Mapping[str, str] | None = None
    ) -> None:
        self._durations.observe_duration(name, duration, labels)

    def observe_size(
        self, name: str, value: float, labels: Mapping[str, str] | None = None
    ) -> None:
        self._durations.observe_size(name, value, labels)

    def set_gauge(self, name: str, value: float, labels: Mapping[str, str] | None = None) -> None:
        if name not in self._without:
            self._gauges.setdefault(name, {})[_key(labels)] = value

    def observed(self, observation: Observation) -> None:
        """Keep what a pass found."""
        self._observations[observation.desired.key] = observation

    def describe(self) -> Iterable[Metric]:
        """Nothing: names are then not looked up by collecting once at registration."""
        return ()

    def collect(self) -> Iterable[Metric]:
        self._prune()
        for name, series in self._gauges.items():
            gauge = GaugeMetricFamily(name, DESCRIPTIONS.get(name, name), labels=_names(series))
            for labels, value in series.items():
                gauge.add_metric(_values(labels), value)
            yield gauge
        for name, series in self._counters.items():
            counter = CounterMetricFamily(name, DESCRIPTIONS.get(name, name), labels=_names(series))
            for labels, value in series.items():
                counter.add_metric(_values(labels), value)
            yield counter
        yield from _queue_gauges(self._observations.values())

    def _prune(self) -> None:
        """Forget queues that are no more, and pools that no queue has any more."""
        for key in [key for key in self._observations if not self._exists(key)]:
            del self._observations[key]
        pools = {
            (pool.key.namespace, pool.key.object_name)
            for observation in self._observations.values()
            for pool in observation.pools
        }
        queues = {(key.namespace, key.name) for key in self._observations}
        for series in (*self._gauges.values(), *self._counters.values()):
            for labels in list(series):
                known = dict(labels)
                namespace, pool, queue = map(known.get, ("resource_namespace", "pool", "name"))
                gone = pool is not None and (namespace, pool) not in pools
                if gone or (queue is not None and (namespace, queue) not in queues):
                    del series[labels]


def _queue_gauges(observations: Iterable[Observation]) -> Iterable[Metric]:
    """Depth, age and workers of all queues as last read, and when that was."""
    where = ("resource_namespace", "queue")
    depth = GaugeMetricFamily(
        "runnerq_queue_activities",
        "Activities by state; beyond the backend's cap a lower bound.",
        labels=(*where, "type", "state"),
    )
    oldest = GaugeMetricFamily(
        "runnerq_queue_oldest_ready_age_seconds",
        "Age of the oldest claimable activity since it became claimable; 0 when none is.",
        labels=where,
    )
    workers = GaugeMetricFamily(
        "runnerq_workers", "Engine processes by state.", labels=(*where, "state")
    )
    uncovered = GaugeMetricFamily(
        "runnerq_queue_uncovered_types", "Waiting or required types without workers.", labels=where
    )
    up = GaugeMetricFamily(
        "runnerq_backend_up", "1 when the last read of the queue succeeded.", labels=where
    )
    read_at = GaugeMetricFamily(
        "runnerq_stats_last_collection_timestamp_seconds",
        "When the figures of the queue were read, by the backend's clock.",
        labels=where,
    )
    for observation in observations:
        labels = (observation.desired.key.namespace, observation.desired.backend_queue)
        demand = observation.read.demand
        up.add_metric(labels, float(demand is not None))
        if demand is None:
            # The figures vanish: an old number is not shown as if it were the present one.
            continue
        read_at.add_metric(labels, demand.as_of.timestamp())
        ages = (entry.oldest_claimable_age_ms or 0 for entry in demand.types)
        oldest.add_metric(labels, max(ages, default=0) / 1000)
        uncovered.add_metric(labels, len(observation.uncovered))
        for (name, state), count in _depths(demand).items():
            depth.add_metric((*labels, name, state), count)
        for state, count in _engine_states(demand).items():
            workers.add_metric((*labels, state), count)
    return (depth, oldest, workers, uncovered, up, read_at)


def _depths(demand: QueueDemand) -> Tally[tuple[str, str]]:
    # An empty queue shows zeros, of no type: without them it would look like one nobody reads.
    counts: Tally[tuple[str, str]] = Tally(dict.fromkeys(_NOTHING, 0))
    for rank, entry in enumerate(sorted(demand.types, key=lambda entry: entry.type)):
        name = entry.type if rank < MAX_TYPES else "other"
        counts[name, "claimable"] += entry.claimable
        counts[name, "processing"] += entry.running
        counts[name, "scheduled"] += entry.future
    return counts


def _engine_states(demand: QueueDemand) -> Tally[str]:
    states: Tally[str] = Tally({"live": 0, "draining": 0, "stale": 0})
    for engine in demand.engines:
        if engine.state is EngineState.STOPPED:
            continue
        if not alive(engine):
            states["stale"] += 1
        else:
            states["draining" if engine.state is EngineState.DRAINING else "live"] += 1
    return states


def _key(labels: Mapping[str, str] | None) -> _Labels:
    return tuple((labels or {}).items())


def _names(series: Mapping[_Labels, float]) -> tuple[str, ...]:
    return tuple(name for name, _ in next(iter(series), ()))


def _values(labels: _Labels) -> tuple[str, ...]:
    return tuple(value for _, value in labels)
