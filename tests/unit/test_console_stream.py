"""The live stream of one queue: one subscription for all, bounded clients, honest gaps."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from uuid import UUID

import pytest
from prometheus_client import CollectorRegistry
from tests.conformance.eventually import eventually
from tests.unit.console_records import NOW

from runnerq.console.metrics import ConsoleMetrics
from runnerq.console.ring import ResyncReason
from runnerq.console.stream import WINDOW_ACTIVITIES, Client, Feed
from runnerq.errors import BackendUnavailable
from runnerq.storage.records import ActivityEvent, EventKind, StreamGap

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    from runnerq.storage.ports import InspectionStorage


class Source:
    """Stands in for a backend: hands out what a test puts into it, and counts its subscribers."""

    def __init__(self) -> None:
        self.subscribed = 0
        self.subscriptions = 0
        self.failures: deque[Exception] = deque()
        self._events: asyncio.Queue[ActivityEvent | StreamGap | Exception] = asyncio.Queue()

    def put(self, *events: ActivityEvent | StreamGap | Exception) -> None:
        for event in events:
            self._events.put_nowait(event)

    @asynccontextmanager
    async def event_stream(
        self, queue: str
    ) -> AsyncGenerator[AsyncIterator[ActivityEvent | StreamGap]]:
        if self.failures:
            raise self.failures.popleft()
        self.subscribed += 1
        self.subscriptions += 1
        try:
            yield self._all()
        finally:
            self.subscribed -= 1

    async def _all(self) -> AsyncIterator[ActivityEvent | StreamGap]:
        while True:
            event = await self._events.get()
            if isinstance(event, Exception):
                raise event
            yield event


class Message(NamedTuple):
    event: str
    data: Any
    id: str | None


def parse(chunk: bytes) -> list[Message]:
    messages: list[Message] = []
    for block in chunk.decode().split("\n\n"):
        fields: dict[str, str] = {}
        for line in block.splitlines():
            name, _, value = line.partition(": ")
            fields[name] = fields.get(name, "") + value
        if "event" in fields:
            messages.append(Message(fields["event"], json.loads(fields["data"]), fields.get("id")))
    return messages


class Reader:
    """A client that collects what it was sent."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.messages: list[Message] = []

    async def until(self, event: str) -> Message:
        async def found() -> Message | None:
            chunk = await self.client.take(0.01)
            self.messages += parse(chunk or b"")
            return next((message for message in self.messages if message.event == event), None)

        message = await eventually(found, within=5)
        assert message is not None
        return message

    async def everything(self) -> list[Message]:
        self.messages += parse(await self.client.take(0.01) or b"")
        return self.messages


def event(number: int, kind: EventKind = EventKind.CLAIMED) -> ActivityEvent:
    return ActivityEvent(activity_id=UUID(int=number), kind=kind, at=NOW, type="send")


class Bench:
    def __init__(self, *, linger_seconds: float = 0.05) -> None:
        self.source = Source()
        self.registry = CollectorRegistry()
        self.feed = Feed(
            cast("InspectionStorage", self.source),
            "q",
            ConsoleMetrics(self.registry),
            coalesce_seconds=0.02,
            linger_seconds=linger_seconds,
            ring_frames=50,
        )

    def measured(self, name: str, **labels: str) -> float:
        return self.registry.get_sample_value(name, labels) or 0.0

    async def watched(self) -> None:
        await eventually(lambda: self.source.subscribed == 1, within=5)


@asynccontextmanager
async def running(made: Bench) -> AsyncGenerator[Bench]:
    async with asyncio.TaskGroup() as tasks:
        feed = tasks.create_task(made.feed.run())
        yield made
        feed.cancel()


@pytest.fixture
async def bench() -> AsyncGenerator[Bench]:
    async with running(Bench()) as made:
        yield made


async def test_nobody_watching_means_no_subscription(bench: Bench) -> None:
    await asyncio.sleep(0)
    assert bench.source.subscriptions == 0


async def test_all_clients_share_one_subscription(bench: Bench) -> None:
    with bench.feed.attach(None) as one, bench.feed.attach(None) as two:
        await bench.watched()
        bench.source.put(event(1))
        for client in (one, two):
            message = await Reader(client).until("activity")
            assert message.data["activity_id"] == str(UUID(int=1))
    assert bench.source.subscriptions == 1


async def test_the_subscription_ends_some_time_after_the_last_client(bench: Bench) -> None:
    with bench.feed.attach(None):
        await bench.watched()
    await eventually(lambda: bench.source.subscribed == 0, within=5)


async def test_a_reload_finds_the_subscription_still_open() -> None:
    async with running(Bench(linger_seconds=30)) as bench:
        with bench.feed.attach(None) as client:
            await bench.watched()
            bench.source.put(event(1))
            seen = await Reader(client).until("activity")
        with bench.feed.attach(seen.id) as again:
            assert not any(one.event == "resync" for one in await Reader(again).everything())
        assert bench.source.subscriptions == 1


async def test_transitions_of_one_activity_are_coalesced(bench: Bench) -> None:
    with bench.feed.attach(None) as client:
        await bench.watched()
        bench.source.put(event(1, EventKind.ENQUEUED), event(1), event(1, EventKind.COMPLETED))
        reader = Reader(client)
        message = await reader.until("activity")
        assert message.data["kind"] == "completed"
        assert sum(one.event == "activity" for one in reader.messages) == 1
    assert bench.measured("runnerq_console_sse_events_total", outcome="coalesced") == 2


async def test_a_client_that_returns_gets_what_it_missed(bench: Bench) -> None:
    with bench.feed.attach(None) as stays:
        with bench.feed.attach(None) as client:
            await bench.watched()
            bench.source.put(event(1))
            first = await Reader(client).until("activity")
        bench.source.put(event(2))
        await Reader(stays).until("activity")
        await eventually(
            lambda: bench.measured("runnerq_console_sse_events_total", outcome="sent") == 2
        )
        with bench.feed.attach(first.id) as again:
            missed = await Reader(again).until("activity")
    assert missed.data["activity_id"] == str(UUID(int=2))


async def test_a_position_of_another_process_means_reading_again(bench: Bench) -> None:
    with bench.feed.attach("5:dead") as client:
        message = await Reader(client).until("resync")
    assert message.data["reason"] == "restart"
    assert message.id is not None
    assert bench.measured("runnerq_console_sse_resyncs_total", reason="restart") == 1


async def test_a_returning_client_keeps_its_position_until_it_has_what_it_missed(
    bench: Bench,
) -> None:
    with bench.feed.attach(None) as client:
        await bench.watched()
        bench.source.put(event(1))
        first = await Reader(client).until("activity")
        with bench.feed.attach(first.id) as again:
            hello = await Reader(again).until("hello")
    assert hello.id is None


async def test_a_slow_client_is_told_and_does_not_slow_the_others(bench: Bench) -> None:
    with bench.feed.attach(None) as slow, bench.feed.attach(None) as quick:
        await bench.watched()
        reader = Reader(quick)
        for number in range(60):
            bench.source.put(event(number))
            wanted = number + 1
            await eventually(
                lambda wanted=wanted: (
                    bench.measured("runnerq_console_sse_events_total", outcome="sent") >= wanted
                )
            )
            await reader.everything()
        reasons = [
            one.data["reason"] for one in await Reader(slow).everything() if one.event == "resync"
        ]
        assert reasons == ["slow_client"]
        assert not any(one.event == "resync" for one in reader.messages)


async def test_more_than_a_person_can_follow_becomes_a_resync(bench: Bench) -> None:
    with bench.feed.attach(None) as client:
        await bench.watched()
        bench.source.put(*(event(number) for number in range(WINDOW_ACTIVITIES + 30)))
        reader = Reader(client)
        message = await reader.until("resync")
        assert message.data["reason"] == "burst"
        assert sum(one.event == "activity" for one in reader.messages) <= WINDOW_ACTIVITIES


async def test_events_the_backend_lost_are_passed_on_as_a_gap(bench: Bench) -> None:
    with bench.feed.attach(None) as client:
        await bench.watched()
        bench.source.put(StreamGap("listener was away"))
        message = await Reader(client).until("resync")
    assert message.data == {"reason": "backend_gap", "detail": "listener was away"}


async def test_a_backend_that_goes_away_is_said_and_its_return_too(bench: Bench) -> None:
    with bench.feed.attach(None) as client:
        await bench.watched()
        reader = Reader(client)
        await reader.until("backend")
        reader.messages.clear()
        bench.source.put(BackendUnavailable("gone"))
        down = await reader.until("backend")
        assert down.data["up"] is False
        assert "gone" in down.data["error"]["message"]
        reader.messages.clear()
        assert (await reader.until("resync")).data["reason"] == "backend_gap"
        assert any(one.event == "backend" and one.data["up"] for one in reader.messages)


async def test_a_backend_that_cannot_be_reached_at_first_is_tried_again(bench: Bench) -> None:
    bench.source.failures.append(BackendUnavailable("not yet"))
    with bench.feed.attach(None) as client:
        assert (await Reader(client).until("backend")).data["up"] is False
        await bench.watched()


async def test_a_stream_that_breaks_unexpectedly_does_not_end_the_feed(bench: Bench) -> None:
    with bench.feed.attach(None) as client:
        await bench.watched()
        bench.source.put(ValueError("a bug"))
        await eventually(lambda: bench.source.subscriptions == 2, within=5)
        bench.source.put(event(1))
        await Reader(client).until("activity")


async def test_a_topic_is_a_latest_value(bench: Bench) -> None:
    bench.feed.publish({"stats": {"n": 1}})
    with bench.feed.attach(None) as client:
        bench.feed.publish({"stats": {"n": 2}})
        bench.feed.publish({"stats": {"n": 3}})
        received = [one.data for one in await Reader(client).everything() if one.event == "stats"]
        assert received == [{"n": 3}]


async def test_a_topic_that_did_not_change_is_not_sent_again(bench: Bench) -> None:
    with bench.feed.attach(None) as client:
        bench.feed.publish({"stats": {"n": 1}})
        reader = Reader(client)
        await reader.until("stats")
        reader.messages.clear()
        bench.feed.publish({"stats": {"n": 1}})
        assert not any(one.event == "stats" for one in await reader.everything())


async def test_closing_ends_every_stream(bench: Bench) -> None:
    with bench.feed.attach(None) as client:
        bench.feed.close_clients()
        assert await client.take(1) is None


async def test_a_quiet_stream_answers_nothing_after_its_time(bench: Bench) -> None:
    client = Client()
    assert await client.take(0.01) == b""


async def test_clients_are_counted_while_they_are_there(bench: Bench) -> None:
    with bench.feed.attach(None), bench.feed.attach(None):
        assert bench.measured("runnerq_console_sse_clients") == 2
    assert bench.measured("runnerq_console_sse_clients") == 0


def test_every_reason_is_a_word_of_its_own() -> None:
    assert {reason.value for reason in ResyncReason} == {
        "ring_overflow",
        "restart",
        "slow_client",
        "burst",
        "backend_gap",
    }
