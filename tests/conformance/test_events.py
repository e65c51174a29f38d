"""Timelines and the live stream: what happened to an activity, and what happens now."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.conformance.eventually import WITHIN

from runnerq.storage.records import ActivityEvent, EventKind, OutcomeKind, StreamGap

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from uuid import UUID

    from tests.conformance.station import Station


async def kinds(station: Station, activity_id: UUID) -> list[str]:
    events = await station.backend.get_activity_events(station.queue, activity_id)
    assert {event.activity_id for event in events} == {activity_id}
    instants = [event.at for event in events]
    assert instants == sorted(instants)
    return [event.kind.value for event in events]


async def test_the_timeline_of_a_success(station: Station) -> None:
    activity_id = await station.enqueue()
    assert await kinds(station, activity_id) == ["enqueued"]
    claim = await station.claim_one()
    assert await kinds(station, activity_id) == ["enqueued", "claimed"]
    await station.end(claim)
    assert await kinds(station, activity_id) == ["enqueued", "claimed", "completed"]


async def test_the_timeline_of_delayed_work_begins_with_its_schedule(station: Station) -> None:
    activity_id = await station.enqueue(delay_ms=60_000)
    assert await kinds(station, activity_id) == ["scheduled"]
    await station.advance(60)
    claim = await station.claim_one()
    await station.retry(claim)
    assert await kinds(station, activity_id) == ["scheduled", "claimed", "retried"]


async def test_the_timeline_keeps_every_failed_attempt_with_its_error(station: Station) -> None:
    activity_id = await station.enqueue(max_attempts=3)
    for _ in range(2):
        await station.retry(await station.claim_one())
    await station.end(await station.claim_one())
    assert await kinds(station, activity_id) == [
        "enqueued",
        *("claimed", "retried"),
        *("claimed", "retried"),
        *("claimed", "completed"),
    ]
    events = await station.backend.get_activity_events(station.queue, activity_id)
    retried = [event for event in events if event.kind is EventKind.RETRIED]
    assert [event.attempt for event in retried] == [1, 2]
    assert all(event.error is not None and event.error.message == "it broke" for event in retried)
    assert all(event.worker_id for event in retried)
    claims = [event.attempt for event in events if event.kind is EventKind.CLAIMED]
    assert claims == [1, 2, 3]


async def test_the_timeline_of_a_dead_letter_and_its_requeue_names_who_did_it(
    station: Station,
) -> None:
    activity_id = await station.enqueue(max_attempts=1)
    await station.fail_until_dead(activity_id)
    assert await kinds(station, activity_id) == ["enqueued", "claimed", "dead_lettered"]
    await station.backend.requeue_dead_letters(station.queue, [activity_id], actor="alice")
    assert await kinds(station, activity_id) == [
        *("enqueued", "claimed", "dead_lettered"),
        "requeued",
    ]
    events = await station.backend.get_activity_events(station.queue, activity_id)
    assert events[-1].detail["actor"] == "alice"
    await station.end(await station.claim_one())
    assert (await kinds(station, activity_id))[-2:] == ["claimed", "completed"]


async def test_the_timeline_tells_of_lost_workers(station: Station) -> None:
    activity_id = await station.enqueue(max_attempts=1)
    await station.claim_one()
    await station.silence(15)
    await station.reap()
    assert await kinds(station, activity_id) == [
        *("enqueued", "claimed", "claim_lost"),
        "dead_lettered",
    ]
    await station.backend.requeue_dead_letters(station.queue, [activity_id], actor="bob")
    assert (await kinds(station, activity_id))[2:] == ["claim_lost", "dead_lettered", "requeued"]


async def test_the_timeline_tells_of_hand_backs_and_snoozes(station: Station) -> None:
    activity_id = await station.enqueue()
    await station.end(await station.claim_one(), OutcomeKind.RELEASED)
    await station.end(await station.claim_one(), OutcomeKind.SNOOZED)
    await station.end(await station.claim_one(), OutcomeKind.FAILED)
    assert await kinds(station, activity_id) == [
        "enqueued",
        *("claimed", "released"),
        *("claimed", "snoozed"),
        *("claimed", "failed"),
    ]


async def next_events(
    stream: AsyncIterator[ActivityEvent | StreamGap], count: int
) -> list[ActivityEvent]:
    events: list[ActivityEvent] = []
    async with asyncio.timeout(WITHIN):
        while len(events) < count:
            event = await anext(stream)
            assert isinstance(event, ActivityEvent)
            events.append(event)
    return events


@pytest.mark.parametrize("elsewhere", [False, True])
async def test_the_live_stream_carries_every_transition_of_every_process(
    station: Station, elsewhere: bool
) -> None:
    watcher = await station.store.another() if elsewhere else station.backend
    async with watcher.event_stream(station.queue) as stream:
        activity_id = await station.enqueue(max_attempts=2)
        await station.retry(await station.claim_one())
        await station.end(await station.claim_one())
        events = await next_events(stream, 5)
    assert {event.activity_id for event in events} == {activity_id}
    assert [event.kind.value for event in events] == [
        *("enqueued", "claimed", "retried", "claimed", "completed")
    ]
    assert {event.type for event in events} == {"work"}
    assert events[-1].state == "completed"


async def test_the_live_stream_carries_reclaims_and_requeues(station: Station) -> None:
    activity_id = await station.enqueue(max_attempts=1)
    await station.claim_one()
    await station.silence(15)
    async with station.backend.event_stream(station.queue) as stream:
        await station.reap()
        await station.backend.requeue_dead_letters(station.queue, [activity_id], actor="bob")
        events = await next_events(stream, 3)
    assert [event.kind.value for event in events] == ["claim_lost", "dead_lettered", "requeued"]


async def test_a_stream_carries_only_its_queue(station: Station) -> None:
    other = station.queue + "-other"
    async with station.backend.event_stream(station.queue) as stream:
        await station.backend.enqueue(other, [station.spec()])
        mine = await station.enqueue()
        [event] = await next_events(stream, 1)
    assert event.activity_id == mine


async def test_several_watchers_each_see_everything(station: Station) -> None:
    async with (
        station.backend.event_stream(station.queue) as one,
        station.backend.event_stream(station.queue) as other,
    ):
        ids = [await station.enqueue() for _ in range(3)]
        for stream in (one, other):
            events = await next_events(stream, 3)
            assert [event.activity_id for event in events] == ids


async def test_a_stream_begins_now(station: Station) -> None:
    await station.enqueue()
    async with station.backend.event_stream(station.queue) as stream:
        later = await station.enqueue()
        [event] = await next_events(stream, 1)
    assert event.activity_id == later


async def test_a_stream_can_be_left_and_opened_again(station: Station) -> None:
    for _ in range(3):
        async with station.backend.event_stream(station.queue) as stream:
            activity_id = await station.enqueue()
            [event] = await next_events(stream, 1)
            assert event.activity_id == activity_id
