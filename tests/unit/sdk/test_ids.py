"""UUIDv7 ids."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta
from uuid import RFC_4122, UUID

import pytest

from runnerq.ids import IdSource, instant_of


def test_ids_of_one_source_increase_strictly_also_within_a_millisecond() -> None:
    source = IdSource()
    ids = [source.next() for _ in range(20_000)]
    assert ids == sorted(set(ids))


def test_an_id_is_a_uuid_of_version_7_that_tells_when_it_was_made() -> None:
    made = IdSource().next()
    assert (made.version, made.variant) == (7, RFC_4122)
    assert abs(instant_of(made) - datetime.now(UTC)) < timedelta(seconds=5)


def test_the_instant_of_an_id_is_exact_to_the_millisecond() -> None:
    for ms in (0, 1, 1_750_000_000_001, 1_750_000_000_999):
        assert instant_of(UUID(int=ms << 80)) == datetime(1970, 1, 1, tzinfo=UTC) + timedelta(
            milliseconds=ms
        )


def test_ids_increase_when_the_clock_steps_back(monkeypatch: pytest.MonkeyPatch) -> None:
    source = IdSource()
    before = source.next()
    an_hour_ago = time.time_ns() - 3600 * 10**9
    monkeypatch.setattr(time, "time_ns", lambda: an_hour_ago)
    assert source.next() > before


def test_ids_made_in_many_threads_are_different() -> None:
    source = IdSource()
    made: list[UUID] = []

    def make() -> None:
        made.extend([source.next() for _ in range(2_000)])

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(made)) == 16_000


def test_ids_of_two_sources_differ() -> None:
    one, two = IdSource(), IdSource()
    assert {one.next() for _ in range(1000)}.isdisjoint({two.next() for _ in range(1000)})
