"""What a worker counts, and from when on."""

from __future__ import annotations

from uuid import UUID

import pytest

from runnerq.engine.account import OUTCOMES, Account
from runnerq.metrics import PrometheusMetrics
from runnerq.storage.records import ActivityState, Reaped


@pytest.fixture
def metrics() -> PrometheusMetrics:
    return PrometheusMetrics()


@pytest.fixture
def account(metrics: PrometheusMetrics) -> Account:
    account = Account("shop", metrics)
    account.opened(("send",), "1.2.3")
    return account


def value(metrics: PrometheusMetrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


@pytest.mark.usefixtures("account")
def test_every_counter_begins_at_a_visible_zero(metrics: PrometheusMetrics) -> None:
    queue = {"queue": "shop"}
    assert value(metrics, "runnerq_activities_started_total", **queue, type="send") == 0
    for outcome in OUTCOMES:
        labels = {**queue, "type": "send", "outcome": outcome}
        assert value(metrics, "runnerq_activities_finished_total", **labels) == 0
    for name in ("runnerq_handed_back_total", "runnerq_reaped_total"):
        assert value(metrics, name, **queue) == 0
    for outcome in ("hit", "empty", "error"):
        assert value(metrics, "runnerq_fetches_total", **queue, outcome=outcome) == 0
    labels = {"component": "worker", "version": "1.2.3"}
    assert value(metrics, "runnerq_build_info", **labels) == 1


def test_a_dead_letter_made_by_the_reaper_is_an_end_that_is_counted(
    account: Account, metrics: PrometheusMetrics
) -> None:
    again = Reaped(id=UUID(int=1), type="send", attempt=1, state=ActivityState.PENDING)
    dead = Reaped(id=UUID(int=2), type="send", attempt=3, state=ActivityState.DEAD_LETTER)
    account.reaped([again, dead])
    labels = {"queue": "shop", "type": "send", "outcome": "dead_letter"}
    assert value(metrics, "runnerq_activities_finished_total", **labels) == 1
    assert value(metrics, "runnerq_reaped_total", queue="shop") == 2


def test_beats_that_failed_are_counted_by_what_was_wrong(
    account: Account, metrics: PrometheusMetrics
) -> None:
    name = "runnerq_worker_heartbeat_failures_total"
    account.beat_failed("no_answer")
    assert value(metrics, name, reason="no_answer") == 1
    assert value(metrics, name, reason="unknown_engine") == 0
