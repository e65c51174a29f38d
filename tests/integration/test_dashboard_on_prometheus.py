"""The dashboard and docs/metrics.md against the real system: a real Prometheus watched it at work."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dashboards.generate import TARGETS
from tests.documented_metrics import documented, problems
from tests.integration.measured_run import (
    COMPLETED,
    FLAKY,
    HOLDS,
    HOPELESS,
    LOOKS,
    SHORTS,
    SLOTS,
    WORKERS,
    MeasuredRun,
    measured_run,
)
from tests.servers.prometheus import Sample

DASHBOARD = json.loads(TARGETS[0].read_text("utf-8"))
PANELS: dict[str, dict[str, Any]] = {
    panel["title"]: panel for panel in DASHBOARD["panels"] if panel["type"] != "row"
}
RANGE_SECONDS = 60.0
"""What stands for $__rate_interval: longer than the run, so that a rate counts all of it."""
RATE_ERROR = 1.1 / LOOKS
"""A rate goes on for up to 1.1 scrape intervals after the last sample of each worker."""


@pytest.fixture(scope="module")
def run() -> Iterator[MeasuredRun]:
    # Not pytest's folder, which only its owner may enter: as root, Postgres runs as somebody else.
    with tempfile.TemporaryDirectory(prefix="runnerq-measured-") as name:
        Path(name).chmod(0o755)
        with measured_run(Path(name)) as made:
            yield made


def asked(run: MeasuredRun, title: str, number: int = 0) -> list[Sample]:
    """What a panel's query answers, with everything chosen: at the end, or over the whole run."""
    target = PANELS[title]["targets"][number]
    expression: str = target["expr"]
    for name, value in (
        ("$__rate_interval", f"{RANGE_SECONDS:.0f}s"),
        ("$resource_namespace", ".*"),
        ("$queue", ".*"),
        ("$pool", ".*"),
    ):
        expression = expression.replace(name, value)
    if target["instant"]:
        return run.prometheus.now(expression, at=run.ended)
    return run.prometheus.between(expression, run.began, run.ended)


def shown(run: MeasuredRun, title: str) -> float:
    """The number of a panel that shows one."""
    [answer] = asked(run, title)
    return answer.last


def by(
    run: MeasuredRun, title: str, *labels: str, number: int = 0
) -> dict[tuple[str, ...], Sample]:
    answers = asked(run, title, number)
    return {tuple(one.labels.get(label, "") for label in labels): one for one in answers}


@pytest.mark.parametrize("title", PANELS)
def test_every_query_of_a_panel_has_numbers(run: MeasuredRun, title: str) -> None:
    for number, target in enumerate(PANELS[title]["targets"]):
        answers = asked(run, title, number)
        assert any(answer.numbers for answer in answers), target["expr"]


def test_the_workers_counted_exactly_what_the_backend_stored(run: MeasuredRun) -> None:
    assert run.stored["completed"] == COMPLETED
    assert run.stored["dead_letter"] == HOPELESS
    answers = run.prometheus.now(
        "sum by (outcome) (runnerq_activities_finished_total)", at=run.ended
    )
    counted = {answer.labels["outcome"]: answer.last for answer in answers}
    assert counted == {
        "completed": COMPLETED,
        "retried": FLAKY + HOPELESS,
        "dead_letter": HOPELESS,
        "failed": 0,
        "snoozed": 0,
        "released": 0,
        "claim_lost": 0,
    }


def test_completions_are_those_that_happened(run: MeasuredRun) -> None:
    completed = shown(run, "Completed / s") * RANGE_SECONDS
    assert completed == pytest.approx(run.stored["completed"], rel=RATE_ERROR)


def test_outcomes_are_those_that_happened(run: MeasuredRun) -> None:
    outcomes = by(run, "Outcomes", "outcome")
    for outcome, happened in (
        ("completed", COMPLETED),
        ("retried", FLAKY + HOPELESS),
        ("dead_letter", HOPELESS),
        ("failed", 0),
    ):
        rate = outcomes[outcome,].last
        assert rate * RANGE_SECONDS == pytest.approx(happened, rel=RATE_ERROR), outcome


def test_retries_and_dead_letters_are_told_by_type(run: MeasuredRun) -> None:
    rates = by(run, "Retries and dead letters by type", "type", "outcome")
    happened = {key: round(one.last * RANGE_SECONDS) for key, one in rates.items() if one.last}
    assert happened == {
        ("flaky", "retried"): FLAKY,
        ("hopeless", "retried"): HOPELESS,
        ("hopeless", "dead_letter"): HOPELESS,
    }


def test_the_failure_ratio_is_that_of_the_attempts(run: MeasuredRun) -> None:
    attempts = COMPLETED + FLAKY + 2 * HOPELESS
    expected = pytest.approx(HOPELESS / attempts, rel=2 * RATE_ERROR)
    assert shown(run, "Failure ratio") == expected


def test_the_queue_is_empty_but_for_its_dead_letters(run: MeasuredRun) -> None:
    assert shown(run, "Dead letters") == HOPELESS
    assert shown(run, "Claimable") == 0
    assert shown(run, "Oldest claimable") == 0
    assert shown(run, "Types without workers") == 0


def test_what_waited_was_seen_while_it_did(run: MeasuredRun) -> None:
    waiting = by(run, "Claimable by type", "type")
    assert max(waiting["short",].numbers) == SHORTS + HOLDS
    assert max(waiting["flaky",].numbers) == FLAKY
    states = by(run, "Activities by state", "state")
    # More than there are slots, when an outcome is not stored yet and its slot has the next one.
    assert max(states["processing",].numbers) >= HOLDS
    assert states["dead_letter",].last == HOPELESS


def test_the_pool_rose_from_zero_to_its_limit(run: MeasuredRun) -> None:
    replicas = [asked(run, "Replicas", number)[0] for number in range(5)]
    current, ready, desired, least, most = replicas
    assert {one.labels["pool"] for one in replicas} == {"measured-all"}
    assert current.numbers[0] == 0
    assert current.last == ready.last == desired.last == WORKERS
    assert (least.last, most.last) == (0, WORKERS)
    changes = by(run, "Changes since the leader took over", "pool", "direction")
    assert changes["measured-all", "up"].last == 1
    assert ("measured-all", "MaxReplicas") in by(run, "Why not: limits that were met", "pool", "by")
    assert max(by(run, "Why: what each term asks for", "term")["hold",].numbers) >= WORKERS


def test_workers_and_slots_are_those_of_the_pool(run: MeasuredRun) -> None:
    assert shown(run, "Live workers") == shown(run, "Ready workers") == WORKERS
    assert shown(run, "Workers that are not ready") == 0
    assert shown(run, "Backend reachable") == 1
    [slots], [running] = (asked(run, "Slots and running activities", n) for n in range(2))
    assert slots.last == WORKERS * SLOTS
    assert max(running.numbers) == HOLDS
    assert running.last == 0
    [used] = asked(run, "Slots in use")
    assert max(used.numbers) == 1


def test_ages_are_those_of_a_system_that_lives(run: MeasuredRun) -> None:
    assert 0 <= shown(run, "Age of the figures") < 5
    assert 0 <= shown(run, "Since the last decision") < 5
    [silence] = asked(run, "Since the last heartbeat")
    assert 0 <= silence.last < 15


@pytest.mark.parametrize(
    ("job", "heading"),
    [
        ("runnerq-worker", "Workers"),
        ("runnerq-control", "Control loop"),
        ("runnerq-console", "Console"),
    ],
)
def test_what_is_documented_is_shown_and_nothing_else(
    run: MeasuredRun, job: str, heading: str
) -> None:
    assert problems(run.pages[job], documented(heading)) == []
