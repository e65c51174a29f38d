"""Timelines: what is stored and what the row tells become one story, in the order it happened."""

from __future__ import annotations

from typing import Any

import pytest

from runnerq.clock import instant
from runnerq.ids import IdSource
from runnerq.storage.records import (
    ActivityEvent,
    ActivitySnapshot,
    ActivityState,
    EventKind,
    Priority,
)
from runnerq.storage.timeline import CLAIMED_AT_MS, READY_AT_MS, timeline

ID = IdSource().next()


def row(status: ActivityState, **fields: Any) -> ActivitySnapshot:
    values: dict[str, Any] = {
        "attempt": 0,
        "created_at": instant(1_000),
        "ready_at": instant(1_000),
        **fields,
    }
    return ActivitySnapshot(
        id=ID,
        queue="q",
        type="work",
        status=status,
        priority=Priority.NORMAL,
        payload=b"{}",
        codec="json",
        max_attempts=3,
        timeout_ms=1,
        worker_id="w",
        **values,
    )


def ended(kind: EventKind, at_ms: int, attempt: int, **detail: int) -> ActivityEvent:
    return ActivityEvent(
        activity_id=ID, kind=kind, at=instant(at_ms), attempt=attempt, worker_id="w", detail=detail
    )


def story(events: list[ActivityEvent]) -> list[tuple[str, int]]:
    return [(event.kind.value, event.attempt) for event in events]


@pytest.mark.parametrize(("ready_ms", "kind"), [(1_000, "enqueued"), (9_000, "scheduled")])
def test_it_begins_with_how_it_was_asked_for(ready_ms: int, kind: str) -> None:
    assert story(timeline(row(ActivityState.PENDING, ready_at=instant(ready_ms)), [])) == [
        (kind, 0)
    ]


def test_a_delay_is_remembered_after_retries_have_moved_the_due_time() -> None:
    at_once = ended(EventKind.RETRIED, 3_000, 1, **{CLAIMED_AT_MS: 2_000, READY_AT_MS: 1_000})
    delayed = ended(EventKind.RETRIED, 9_500, 1, **{CLAIMED_AT_MS: 9_000, READY_AT_MS: 9_000})
    now = row(ActivityState.RETRYING, attempt=1, ready_at=instant(50_000))
    assert story(timeline(now, [at_once]))[0] == ("enqueued", 0)
    assert story(timeline(now, [delayed]))[0] == ("scheduled", 0)


def test_each_ended_attempt_is_preceded_by_its_claim() -> None:
    stored = [
        ended(EventKind.RETRIED, 3_000, 1, **{CLAIMED_AT_MS: 2_000, READY_AT_MS: 1_000}),
        ended(EventKind.SNOOZED, 5_000, 2, **{CLAIMED_AT_MS: 4_000, READY_AT_MS: 3_500}),
    ]
    now = row(
        ActivityState.COMPLETED,
        attempt=2,
        claimed_at=instant(6_000),
        finished_at=instant(7_000),
    )
    events = timeline(now, stored)
    assert story(events) == [
        *[("enqueued", 0), ("claimed", 1), ("retried", 1), ("claimed", 2), ("snoozed", 2)],
        *[("claimed", 2), ("completed", 2)],
    ]
    assert [event.at for event in events] == [
        instant(ms) for ms in (1_000, 2_000, 3_000, 4_000, 5_000, 6_000, 7_000)
    ]


def test_work_that_waits_again_shows_no_claim_beyond_the_ended_one() -> None:
    stored = [ended(EventKind.RELEASED, 3_000, 1, **{CLAIMED_AT_MS: 2_000, READY_AT_MS: 1_000})]
    now = row(ActivityState.PENDING, attempt=0, claimed_at=instant(2_000))
    assert story(timeline(now, stored)) == [("enqueued", 0), ("claimed", 1), ("released", 1)]


def test_a_lost_claim_of_a_dead_letter_is_told_once() -> None:
    stored = [ended(EventKind.CLAIM_LOST, 3_000, 1, **{CLAIMED_AT_MS: 2_000, READY_AT_MS: 1_000})]
    now = row(
        ActivityState.DEAD_LETTER,
        attempt=1,
        claimed_at=instant(2_000),
        finished_at=instant(3_000),
    )
    assert story(timeline(now, stored)) == [
        *[("enqueued", 0), ("claimed", 1), ("claim_lost", 1), ("dead_lettered", 1)]
    ]


def test_the_running_attempt_is_shown_even_if_it_began_in_the_same_millisecond() -> None:
    stored = [ended(EventKind.RETRIED, 1_000, 1, **{CLAIMED_AT_MS: 1_000, READY_AT_MS: 1_000})]
    now = row(ActivityState.PROCESSING, attempt=2, claimed_at=instant(1_000))
    assert story(timeline(now, stored)) == [
        *[("enqueued", 0), ("claimed", 1), ("retried", 1), ("claimed", 2)]
    ]
