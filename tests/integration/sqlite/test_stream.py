"""The live stream over a file: recorded only while somebody watches, and honest about what it lost."""

from __future__ import annotations

import asyncio
import sqlite3
from typing import TYPE_CHECKING, Any

import pytest
from tests.conformance.eventually import WITHIN, eventually

from runnerq.storage.records import ActivityEvent, StreamGap
from runnerq.storage.sqlite import stream as stream_module

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.conformance.station import Station


def rows(path: Path, statement: str, *parameters: Any) -> list[Any]:
    connection = sqlite3.connect(path, timeout=10)
    with connection:
        found = connection.execute(statement, parameters).fetchall()
    connection.close()
    return found


async def following(stream: AsyncIterator[ActivityEvent | StreamGap]) -> ActivityEvent | StreamGap:
    async with asyncio.timeout(WITHIN):
        return await anext(stream)


async def test_nothing_is_recorded_while_nobody_watches(station: Station, path: Path) -> None:
    await station.enqueue()
    assert rows(path, "SELECT * FROM runnerq_transitions") == []
    async with station.backend.event_stream(station.queue) as stream:
        await station.enqueue()
        await following(stream)
    recorded = len(rows(path, "SELECT * FROM runnerq_transitions"))
    await station.enqueue()
    assert len(rows(path, "SELECT * FROM runnerq_transitions")) == recorded == 1
    assert rows(path, "SELECT * FROM runnerq_watchers") == []


async def test_transitions_dropped_before_they_were_read_show_as_a_gap(
    station: Station, path: Path
) -> None:
    async with station.backend.event_stream(station.queue) as stream:
        first = await station.enqueue()
        event = await following(stream)
        assert isinstance(event, ActivityEvent)
        assert event.activity_id == first
        # As if this process had slept through the ring's minute.
        rows(
            path,
            "INSERT INTO runnerq_transitions (seq, queue, at_ms, event) VALUES (9, 'x', 0, '')",
        )
        rows(path, "DELETE FROM runnerq_transitions")
        later = await station.enqueue()
        gap = await following(stream)
        assert isinstance(gap, StreamGap)
        event = await following(stream)
        assert isinstance(event, ActivityEvent)
        assert event.activity_id == later


async def test_a_watch_that_lapsed_shows_as_a_gap(
    station: Station, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_module, "_RENEW_MS", 100)
    async with station.backend.event_stream(station.queue) as stream:
        rows(path, "DELETE FROM runnerq_watchers")
        gap = await following(stream)
        assert isinstance(gap, StreamGap)
        await eventually(lambda: rows(path, "SELECT * FROM runnerq_watchers"))
        activity_id = await station.enqueue()
        event = await following(stream)
        assert isinstance(event, ActivityEvent)
        assert event.activity_id == activity_id


async def test_what_a_dead_watcher_left_behind_is_forgotten(station: Station, path: Path) -> None:
    rows(path, "INSERT INTO runnerq_watchers VALUES (x'00', 'q', 1)")
    await station.enqueue()
    assert rows(path, "SELECT * FROM runnerq_transitions") == []
    async with station.backend.event_stream(station.queue):
        pass
    assert rows(path, "SELECT * FROM runnerq_watchers") == []
