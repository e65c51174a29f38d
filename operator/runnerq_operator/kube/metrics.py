"""What the operator measures of itself, and what it shows of the objects it keeps.

The gauges of objects are made at each scrape from the caches, on the leader only: a replica that does
not lead would repeat them, and they vanish with their object. No pod or worker is ever a label.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
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

from runnerq_operator.kube.kinds import POOL, QUEUE
from runnerq_operator.kube.objects import Object, name_of, namespace_of
from runnerq_operator.kube.version import operator_version

if TYPE_CHECKING:
    from prometheus_client import Metric

    from runnerq_operator.kube.caches import Caches
    from runnerq_operator.kube.leadership import Leadership
    from runnerq_operator.kube.watches import WatchAges

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15)


class OperatorMetrics:
    """The operator's own measurements. One per process, in a registry of its own."""

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
        build.labels("operator", operator_version()).set(1)
        self._requests = Counter(
            "runnerq_operator_api_requests",
            "Calls to the Kubernetes API; code none: there was no answer.",
            ("verb", "resource", "code"),
            registry=registry,
        )
        self._request_seconds = Histogram(
            "runnerq_operator_api_request_duration_seconds",
            "Time of one call to the Kubernetes API.",
            ("verb", "resource"),
            buckets=_SECONDS,
            registry=registry,
        )
        self._drift = Counter(
            "runnerq_operator_drift_corrections",
            "Owned fields that somebody else had changed and that were put back.",
            ("kind", "field"),
            registry=registry,
        )
        self._watch_restarts = Counter(
            "runnerq_operator_watch_restarts",
            "Watches that were opened anew.",
            ("kind",),
            registry=registry,
        )

    def request(self, verb: str, resource: str, code: str, seconds: float) -> None:
        """One call to the Kubernetes API."""
        self._requests.labels(verb, resource, code).inc()
        self._request_seconds.labels(verb, resource).observe(seconds)

    def drift(self, kind: str, field: str) -> None:
        """An owned field was put back."""
        self._drift.labels(kind, field).inc()

    def watch_restarted(self, plural: str) -> None:
        """A watch was opened anew."""
        self._watch_restarts.labels(plural).inc()


class ObjectGauges(Collector):
    """Made at each scrape: leadership, freshness of the watches, conditions of all objects."""

    def __init__(
        self,
        caches: Caches,
        ages: WatchAges,
        leadership: Leadership,
        *,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._caches = caches
        self._ages = ages
        self._leadership = leadership
        self._wall = wall

    def describe(self) -> Iterable[Metric]:
        """Nothing: names are then not looked up by collecting once at registration."""
        return ()

    def collect(self) -> Iterable[Metric]:
        leading = self._leadership.leading
        yield GaugeMetricFamily(
            "runnerq_operator_leader", "1 on the replica that leads.", value=float(leading)
        )
        yield self._freshness()
        if leading:
            yield self._conditions()
            yield self._lag()

    def _freshness(self) -> Metric:
        family = GaugeMetricFamily(
            "runnerq_operator_last_watch_event_timestamp_seconds",
            "Last sign of life of the stalest watch of a kind, bookmarks included.",
            labels=("kind",),
        )
        oldest: dict[str, float] = {}
        for (plural, _), age in self._ages.ages().items():
            oldest[plural] = max(age, oldest.get(plural, 0.0))
        for plural, age in sorted(oldest.items()):
            family.add_metric((plural,), self._wall() - age)
        return family

    def _conditions(self) -> Metric:
        family = GaugeMetricFamily(
            "runnerq_resource_condition",
            "1 for the current status of each condition.",
            labels=("kind", "name", "resource_namespace", "condition", "status"),
        )
        for kind in (QUEUE, POOL):
            for item in self._caches[kind].all():
                for condition in _conditions_of(item):
                    labels = (
                        kind.name,
                        name_of(item),
                        namespace_of(item),
                        condition["type"],
                        condition["status"],
                    )
                    family.add_metric(labels, 1)
        return family

    def _lag(self) -> Metric:
        family = GaugeMetricFamily(
            "runnerq_resource_generation_lag",
            "Changes of the spec that the status does not answer yet.",
            labels=("kind", "name", "resource_namespace"),
        )
        for item in self._caches[QUEUE].all():
            status: Object = item.get("status") or {}
            generation: int = item["metadata"].get("generation", 0)
            lag = generation - int(status.get("observedGeneration") or 0)
            family.add_metric((QUEUE.name, name_of(item), namespace_of(item)), lag)
        return family


def _conditions_of(item: Object) -> list[Object]:
    status: Object = item.get("status") or {}
    return status.get("conditions") or []
