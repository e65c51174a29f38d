"""Where measurements go: to nobody, to Prometheus, to a foreign sink that may fail."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from prometheus_client import CollectorRegistry

from runnerq import NoopMetrics, PrometheusMetrics
from runnerq.metrics import DESCRIPTIONS, DURATION_BUCKETS, SIZE_BUCKETS, guarded

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runnerq import MetricsSink


def feed(sink: MetricsSink) -> None:
    labels = {"queue": "q", "type": "t"}
    sink.inc_counter("runnerq_activities_started_total", 2, labels)
    sink.inc_counter("plain_total")
    sink.observe_duration("runnerq_fetch_duration_seconds", 0.02, {"queue": "q"})
    sink.observe_duration("runnerq_fetch_duration_seconds", timedelta(seconds=2), {"queue": "q"})
    sink.observe_size("runnerq_fetch_batch_size", 7, {"queue": "q"})
    sink.set_gauge("runnerq_worker_slots", 4, {"queue": "q"})
    sink.set_gauge("runnerq_worker_slots", 5, {"queue": "q"})


def test_the_default_sink_takes_everything_and_keeps_nothing() -> None:
    feed(NoopMetrics())
    assert vars(NoopMetrics()) == {}


def test_prometheus_gets_counters_histograms_and_gauges_under_their_own_names() -> None:
    metrics = PrometheusMetrics()
    feed(metrics)
    value = metrics.registry.get_sample_value
    labels = {"queue": "q"}
    assert value("runnerq_activities_started_total", {"queue": "q", "type": "t"}) == 2
    assert value("plain_total") == 1
    assert value("runnerq_fetch_duration_seconds_count", labels) == 2
    assert value("runnerq_fetch_duration_seconds_sum", labels) == pytest.approx(2.02)
    assert value("runnerq_fetch_duration_seconds_bucket", {**labels, "le": "0.05"}) == 1
    assert value("runnerq_fetch_batch_size_bucket", {**labels, "le": "10.0"}) == 1
    assert value("runnerq_worker_slots", labels) == 5
    text = metrics.render().decode()
    assert "# HELP runnerq_activities_started_total Attempts started." in text
    assert "_total_total" not in text


def test_labels_are_told_apart_by_name_and_not_by_place() -> None:
    metrics = PrometheusMetrics()
    metrics.inc_counter("n_total", 1, {"a": "x", "b": "y"})
    metrics.inc_counter("n_total", 2, {"b": "x", "a": "y"})
    assert metrics.registry.get_sample_value("n_total", {"a": "x", "b": "y"}) == 1
    assert metrics.registry.get_sample_value("n_total", {"a": "y", "b": "x"}) == 2


def test_two_sinks_do_not_share_a_registry_unless_they_are_given_one() -> None:
    feed(PrometheusMetrics())
    feed(PrometheusMetrics())
    registry = CollectorRegistry()
    assert PrometheusMetrics(registry).registry is registry


def test_every_name_has_a_unit_and_a_description() -> None:
    assert all(
        name.startswith("runnerq_") and text.endswith(".") for name, text in DESCRIPTIONS.items()
    )
    assert list(DURATION_BUCKETS) == sorted(DURATION_BUCKETS)
    assert list(SIZE_BUCKETS) == sorted(SIZE_BUCKETS)


class Failing:
    def __init__(self) -> None:
        self.calls = 0

    def _fail(self) -> None:
        self.calls += 1
        raise ConnectionError("statsd is gone")

    def inc_counter(
        self, name: str, value: float = 1, labels: Mapping[str, str] | None = None
    ) -> None:
        self._fail()

    def observe_duration(
        self, name: str, duration: float | timedelta, labels: Mapping[str, str] | None = None
    ) -> None:
        self._fail()

    def observe_size(
        self, name: str, value: float, labels: Mapping[str, str] | None = None
    ) -> None:
        self._fail()

    def set_gauge(self, name: str, value: float, labels: Mapping[str, str] | None = None) -> None:
        self._fail()


def test_a_guarded_sink_is_called_every_time_and_complains_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    failing = Failing()
    feed(guarded(failing))
    assert failing.calls == 7
    assert caplog.text.count("the metrics sink failed") == 1


def test_a_guard_is_put_around_foreign_sinks_only_once() -> None:
    assert isinstance(guarded(None), NoopMetrics)
    noop = NoopMetrics()
    assert guarded(noop) is noop
    once = guarded(Failing())
    assert guarded(once) is once
