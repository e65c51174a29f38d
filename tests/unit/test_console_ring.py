"""The live stream's memory: what a returning client is given, and when it must read again instead."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runnerq.console.ring import Position, ResyncReason, Ring, frame


def filled(count: int, *, capacity: int = 10, epoch: str = "ab12") -> Ring:
    ring = Ring(epoch, capacity=capacity)
    for number in range(1, count + 1):
        ring.append("activity", b"%d" % number)
    return ring


def test_a_client_that_missed_nothing_gets_nothing() -> None:
    assert filled(3).since("3:ab12") == []


def test_a_client_gets_exactly_what_it_missed_in_order() -> None:
    frames = filled(5).since("3:ab12")
    assert isinstance(frames, list)
    assert [chunk.split(b"\n")[0] for chunk in frames] == [b"id: 4:ab12", b"id: 5:ab12"]


def test_a_client_that_was_away_for_too_long_must_read_again() -> None:
    assert filled(20, capacity=10).since("9:ab12") is ResyncReason.RING_OVERFLOW


def test_the_oldest_kept_frame_can_still_be_replayed() -> None:
    frames = filled(20, capacity=10).since("10:ab12")
    assert isinstance(frames, list)
    assert len(frames) == 10


@pytest.mark.parametrize(
    "position",
    [
        "3:ffff",
        "99:ab12",
        "",
        "x",
        "3",
        "-1:ab12",
        "3:ab12:1",
        "3:AB12",
        "9" * 30 + ":ab12",
        "٣:ab12",
    ],
)
def test_a_position_that_is_not_of_this_stream_means_a_restart(position: str) -> None:
    assert filled(5).since(position) is ResyncReason.RESTART


@given(st.integers(0, 40), st.integers(1, 15), st.integers(0, 50))
def test_replay_is_complete_or_refused(count: int, capacity: int, seen: int) -> None:
    answer = filled(count, capacity=capacity).since(f"{seen}:ab12")
    if seen > count:
        assert answer is ResyncReason.RESTART
    elif count - seen > capacity:
        assert answer is ResyncReason.RING_OVERFLOW
    else:
        assert isinstance(answer, list)
        assert len(answer) == count - seen


def test_a_position_survives_being_written_and_read() -> None:
    assert Position.parse(str(Position(7, "ab12"))) == Position(7, "ab12")


def test_data_with_line_breaks_stays_one_event() -> None:
    chunk = frame("activity", b'{"a":\n1,\r\n"b":2}')
    assert chunk == b'event: activity\ndata: {"a":\ndata: 1,\ndata: "b":2}\n\n'


def test_an_event_without_data_is_still_well_formed() -> None:
    assert frame("hello", b"") == b"event: hello\ndata: \n\n"
