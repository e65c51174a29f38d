"""Instants in milliseconds, cursors of lists, and the clock that tests move."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conformance.eventually import eventually

from runnerq.clock import SystemClock, instant, milliseconds, optional_instant
from runnerq.ids import IdSource
from runnerq.storage.cursors import cursor_after, position_of
from runnerq.testing.clock import VirtualClock


@given(st.integers(0, 4_000_000_000_000))
def test_stored_milliseconds_survive_the_way_there_and_back(ms: int) -> None:
    assert milliseconds(instant(ms)) == ms


@given(st.datetimes(datetime(1990, 1, 1), datetime(2100, 1, 1)), st.integers(-720, 840))  # noqa: DTZ001 - hypothesis adds the zone below
def test_an_instant_is_rounded_up_never_down(naive: datetime, offset: int) -> None:
    """What is asked for an instant between two milliseconds must not become due before it."""
    at = naive.replace(tzinfo=timezone(timedelta(minutes=offset)))
    stored = instant(milliseconds(at))
    assert timedelta(0) <= stored - at < timedelta(milliseconds=1)
    assert stored.tzinfo is UTC


def test_no_instant_stays_none() -> None:
    assert optional_instant(None) is None
    assert optional_instant(0) == datetime(1970, 1, 1, tzinfo=UTC)


def test_the_system_clock_tells_the_time() -> None:
    assert abs(instant(SystemClock().now_ms()) - datetime.now(UTC)) < timedelta(seconds=5)


def test_a_virtual_clock_stands_still_until_it_is_moved() -> None:
    clock = VirtualClock(5_000)
    assert clock.now_ms() == 5_000
    clock.advance(timedelta(seconds=1.5))
    assert clock.now_ms() == 6_500
    with pytest.raises(ValueError, match="negative"):
        clock.advance(timedelta(seconds=-1))


async def test_a_running_virtual_clock_moves_with_real_time_too() -> None:
    clock = VirtualClock(5_000, running=True)
    await eventually(lambda: clock.now_ms() > 5_000)
    clock.advance(timedelta(hours=1))
    assert clock.now_ms() >= 3_605_000


def test_threads_may_move_a_virtual_clock_at_once() -> None:
    clock = VirtualClock(0)

    def move() -> None:
        for _ in range(1_000):
            clock.advance(timedelta(milliseconds=1))

    threads = [threading.Thread(target=move) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert clock.now_ms() == 4_000


def test_a_cursor_stands_for_the_id_it_was_made_of() -> None:
    activity_id = IdSource().next()
    assert position_of(cursor_after(activity_id)) == activity_id


@given(st.text(max_size=40))
def test_any_other_word_is_no_cursor(word: str) -> None:
    with pytest.raises(ValueError, match="not given out by a list"):
        position_of(word)
