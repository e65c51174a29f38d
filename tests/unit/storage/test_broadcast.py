"""Broadcast: never waits for a reader, and tells a slow one what it lost."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tests.conformance.eventually import WITHIN

from runnerq.clock import instant
from runnerq.ids import IdSource
from runnerq.storage.broadcast import Broadcast
from runnerq.storage.records import ActivityEvent, EventKind, StreamGap

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

IDS = IdSource()


def event(number: int) -> ActivityEvent:
    return ActivityEvent(
        activity_id=IDS.next(), kind=EventKind.ENQUEUED, at=instant(number), attempt=number
    )


async def read(
    stream: AsyncIterator[ActivityEvent | StreamGap], count: int
) -> list[ActivityEvent | StreamGap]:
    async with asyncio.timeout(WITHIN):
        return [await anext(stream) for _ in range(count)]


async def test_a_watcher_gets_what_is_published_while_it_watches_in_order() -> None:
    broadcast = Broadcast()
    broadcast.publish("q", [event(0)])
    events = [event(number) for number in range(1, 6)]
    async with broadcast.subscribe("q") as stream:
        broadcast.publish("q", events[:2])
        broadcast.publish("other", [event(9)])
        broadcast.publish("q", events[2:])
        assert await read(stream, 5) == events


async def test_publishing_to_nobody_builds_nothing() -> None:
    broadcast = Broadcast()
    built: list[int] = []

    def events() -> list[ActivityEvent]:
        built.append(1)
        return []

    assert not broadcast.watched("q")
    broadcast.publish("q", (one for _ in range(1) for one in events()))
    assert built == []
    async with broadcast.subscribe("q"):
        assert broadcast.watched("q")
    assert not broadcast.watched("q")


async def test_a_slow_reader_gets_a_gap_and_then_what_is_new() -> None:
    broadcast = Broadcast(buffer=10)
    async with broadcast.subscribe("q") as stream:
        broadcast.publish("q", [event(number) for number in range(11)])
        late = event(99)
        broadcast.publish("q", [late])
        gap, following = await read(stream, 2)
    assert isinstance(gap, StreamGap)
    assert following == late


async def test_a_slow_reader_does_not_cost_the_others_anything() -> None:
    broadcast = Broadcast(buffer=10)
    async with broadcast.subscribe("q") as slow, broadcast.subscribe("q") as quick:
        for start in range(0, 30, 5):
            events = [event(number) for number in range(start, start + 5)]
            broadcast.publish("q", events)
            assert await read(quick, 5) == events
        [gap] = await read(slow, 1)
        assert isinstance(gap, StreamGap)


async def test_a_loss_before_the_broadcast_can_be_told() -> None:
    broadcast = Broadcast()
    async with broadcast.subscribe("q") as stream, broadcast.subscribe("other"):
        broadcast.gap("q", "the connection broke")
        assert await read(stream, 1) == [StreamGap("the connection broke")]
