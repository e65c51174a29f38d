"""A burst of transitions becomes one per activity, and nothing is lost uncounted."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from runnerq.console.window import Window
from runnerq.storage.records import ActivityEvent, EventKind

AT = datetime(2026, 1, 1, tzinfo=UTC)


def event(number: int, kind: EventKind = EventKind.CLAIMED) -> ActivityEvent:
    return ActivityEvent(activity_id=UUID(int=number), kind=kind, at=AT)


def test_only_the_last_transition_of_an_activity_is_kept() -> None:
    window = Window(limit=10)
    for kind in (EventKind.ENQUEUED, EventKind.CLAIMED, EventKind.COMPLETED):
        window.add(event(1, kind))
    drained = window.drain()
    assert [kept.kind for kept in drained.events] == [EventKind.COMPLETED]
    assert drained.coalesced == 2


def test_activities_keep_the_order_of_their_last_transitions() -> None:
    window = Window(limit=10)
    for number in (1, 2, 3, 1):
        window.add(event(number))
    assert [kept.activity_id.int for kept in window.drain().events] == [2, 3, 1]


def test_a_full_window_still_follows_the_activities_it_has() -> None:
    window = Window(limit=2)
    for number in (1, 2, 3, 1):
        window.add(event(number, EventKind.COMPLETED if number == 1 else EventKind.CLAIMED))
    drained = window.drain()
    assert {kept.activity_id.int for kept in drained.events} == {1, 2}
    assert drained.dropped == 1


def test_a_drained_window_starts_anew() -> None:
    window = Window(limit=1)
    window.add(event(1))
    window.drain()
    assert window.drain() == ([], 0, 0)


@given(st.lists(st.integers(0, 9), max_size=60), st.integers(1, 8))
def test_every_transition_is_sent_coalesced_or_dropped(numbers: list[int], limit: int) -> None:
    window = Window(limit=limit)
    for number in numbers:
        window.add(event(number))
    drained = window.drain()
    assert len(drained.events) + drained.coalesced + drained.dropped == len(numbers)
    assert len(drained.events) <= limit
