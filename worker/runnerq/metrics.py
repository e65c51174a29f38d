"""Where measurements go: the sink protocol, the silent default, and Prometheus.

Names and labels are those of docs/metrics.md. A sink must be cheap and must not raise: it is called
from the hot path.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Protocol

from runnerq.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta

    from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

log = logging.getLogger(__name__)

DURATION_BUCKETS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600)
SIZE_BUCKETS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


class MetricsSink(Protocol):
    """Plug in any monitoring system. Durations are seconds, or a timedelta. A sink that derives from
    this class needs `inc_counter` only; the other calls do nothing by default."""

    def inc_counter(
        self, name: str, value: float = 1, labels: Mapping[str, str] | None = None
    ) -> None: ...

    def observe_duration(
        self, name: str, duration: float | timedelta, labels: Mapping[str, str] | None = None
    ) -> None:
        """Ignored by default."""

    def observe_size(
        self, name: str, value: float, labels: Mapping[str, str] | None = None
    ) -> None:
        """Ignored by default."""

    def set_gauge(self, name: str, value: float, labels: Mapping[str, str] | None = None) -> None:
        """Ignored by default."""


class NoopMetrics:
    """The default: measures nothing. Also a base for sinks that want only some of the calls."""

    def inc_counter(
        self, name: str, value: float = 1, labels: Mapping[str, str] | None = None
    ) -> None:
        """Ignored."""

    def observe_duration(
        self, name: str, duration: float | timedelta, labels: Mapping[str, str] | None = None
    ) -> None:
        """Ignored."""

    def observe_size(
        self, name: str, value: float, labels: Mapping[str, str] | None = None
    ) -> None:
        """Ignored."""

    def set_gauge(self, name: str, value: float, labels: Mapping[str, str] | None = None) -> None:
        """Ignored."""


def guarded(sink: MetricsSink | None) -> MetricsSink:
    """A sink that cannot fail its caller: what a foreign one raises is logged, once, and dropped."""
    if sink is None:
        return NoopMetrics()
    return sink if type(sink) is NoopMetrics or isinstance(sink, _Guarded) else _Guarded(sink)


class _Guarded:
    def __init__(self, sink: MetricsSink) -> None:
        self._sink = sink
        self._complained = False

    def inc_counter(
        self, name: str, value: float = 1, labels: Mapping[str, str] | None = None
    ) -> None:
        try:
            self._sink.inc_counter(name, value, labels)
        except Exception as error:  # noqa: BLE001 - foreign code; work goes on without the measurement
            self._complain(name, error)

    def observe_duration(
        self, name: str, duration: float | timedelta, labels: Mapping[str, str] | None = None
    ) -> None:
        try:
            self._sink.observe_duration(name, duration, labels)
        except Exception as error:  # noqa: BLE001 - as above
            self._complain(name, error)

    def observe_size(
        self, name: str, value: float, labels: Mapping[str, str] | None = None
    ) -> None:
        try:
            self._sink.observe_size(name, value, labels)
        except Exception as error:  # noqa: BLE001 - as above
            self._complain(name, error)

    def set_gauge(self, name: str, value: float, labels: Mapping[str, str] | None = None) -> None:
        try:
            self._sink.set_gauge(name, value, labels)
        except Exception as error:  # noqa: BLE001 - as above
            self._complain(name, error)

    def _complain(self, name: str, error: Exception) -> None:
        if not self._complained:
            self._complained = True
            log.error(
                "the metrics sink failed on %s; further failures are not told", name, exc_info=error
            )


class PrometheusMetrics:
    """Measurements as Prometheus metrics in `registry` (a new one by default). Needs the extra
    `runnerq[metrics]`. A metric appears with its first measurement, and with the text that
    `descriptions` has for it."""

    def __init__(
        self,
        registry: CollectorRegistry | None = None,
        *,
        descriptions: Mapping[str, str] | None = None,
    ) -> None:
        try:
            import prometheus_client
        except ModuleNotFoundError as error:
            raise ConfigurationError(
                'prometheus-client is missing; install "runnerq[metrics]"', field="metrics"
            ) from error
        self._client = prometheus_client
        self.registry = registry if registry is not None else prometheus_client.CollectorRegistry()
        self._descriptions = DESCRIPTIONS if descriptions is None else descriptions
        self._metrics: dict[str, Counter | Gauge | Histogram] = {}
        # Children by name and label values: prometheus_client's own look-up costs several times more.
        self._children: dict[tuple[str, tuple[tuple[str, str], ...]], Any] = {}

    def inc_counter(
        self, name: str, value: float = 1, labels: Mapping[str, str] | None = None
    ) -> None:
        self._child("counter", name, labels).inc(value)

    def observe_duration(
        self, name: str, duration: float | timedelta, labels: Mapping[str, str] | None = None
    ) -> None:
        seconds = duration if isinstance(duration, int | float) else duration.total_seconds()
        self._child("duration", name, labels).observe(seconds)

    def observe_size(
        self, name: str, value: float, labels: Mapping[str, str] | None = None
    ) -> None:
        self._child("size", name, labels).observe(value)

    def set_gauge(self, name: str, value: float, labels: Mapping[str, str] | None = None) -> None:
        self._child("gauge", name, labels).set(value)

    def render(self) -> bytes:
        """The text of a `/metrics` answer."""
        return self._client.generate_latest(self.registry)

    def _child(self, kind: str, name: str, labels: Mapping[str, str] | None) -> Any:
        values = tuple(labels.items()) if labels else ()
        child = self._children.get((name, values))
        if child is None:
            metric = self._metrics.get(name) or self._make(kind, name, tuple(labels or ()))
            child = metric.labels(**labels) if labels else metric
            self._children[name, values] = child
        return child

    def _make(self, kind: str, name: str, label_names: tuple[str, ...]) -> Any:
        text = self._descriptions.get(name, name)
        client, registry = self._client, self.registry
        made: Counter | Gauge | Histogram
        if kind == "counter":
            made = client.Counter(name.removesuffix("_total"), text, label_names, registry=registry)
        elif kind == "gauge":
            made = client.Gauge(name, text, label_names, registry=registry)
        else:
            buckets = DURATION_BUCKETS if kind == "duration" else SIZE_BUCKETS
            made = client.Histogram(name, text, label_names, registry=registry, buckets=buckets)
        self._metrics[name] = made
        return made


DESCRIPTIONS = {
    "runnerq_build_info": "Always 1; build facts.",
    "runnerq_activities_enqueued_total": "Activities accepted by the backend.",
    "runnerq_enqueue_deduplicated_total": "Enqueues answered by an existing idempotency key.",
    "runnerq_enqueue_duration_seconds": "Time to enqueue one call, single or batch.",
    "runnerq_activities_started_total": "Attempts started.",
    "runnerq_activities_finished_total": "Attempts ended, by outcome.",
    "runnerq_activity_wait_seconds": "Claimable to claimed; excludes delay and backoff.",
    "runnerq_activity_run_seconds": "Handler run time of one attempt.",
    "runnerq_activities_in_flight": "Attempts running now in this process.",
    "runnerq_worker_slots": "Configured concurrency of this process.",
    "runnerq_worker_draining": "1 while the process refuses new work.",
    "runnerq_worker_last_heartbeat_timestamp_seconds": "Last heartbeat accepted by the backend.",
    "runnerq_worker_heartbeat_failures_total": "Heartbeats the backend refused or did not answer.",
    "runnerq_leases_lost_total": "Claims lost while running; each is a possible double execution.",
    "runnerq_handed_back_total": "Claims handed back by a stopping worker.",
    "runnerq_fetches_total": "Claim calls, by outcome.",
    "runnerq_fetch_duration_seconds": "Time of one claim call.",
    "runnerq_fetch_batch_size": "Activities per successful claim.",
    "runnerq_acknowledge_batch_size": "Outcomes per acknowledge call.",
    "runnerq_event_loop_lag_seconds": "Scheduling delay of a 100 ms tick.",
    "runnerq_reaped_total": "Activities taken back from owners that are gone.",
}
"""Help texts of the metrics this package measures; docs/metrics.md is compared with it."""
