"""The live stream over HTTP: what a browser's EventSource sees."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.conformance.eventually import eventually
from tests.integration.console.served import API, Served, served

from runnerq.console import TokenAuth
from runnerq.storage.records import OutcomeKind

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from aiohttp import ClientResponse


class Message(NamedTuple):
    event: str
    data: Any
    id: str | None


class EventSource:
    """Reads one stream as a browser does, and remembers the last id."""

    def __init__(self, response: ClientResponse) -> None:
        self.response = response
        self.last_id: str | None = None
        self.comments = 0

    async def next(self, *events: str, within: float = 10) -> Message:
        """The next message of one of these events (of any, without)."""
        async with asyncio.timeout(within):
            while True:
                message = await self._message()
                if not events or message.event in events:
                    return message

    async def _message(self) -> Message:
        fields: dict[str, str] = {}
        while True:
            line = (await self.response.content.readline()).decode().rstrip("\n")
            if line.startswith(":"):
                self.comments += 1
            elif line:
                name, _, value = line.partition(": ")
                fields[name] = fields.get(name, "") + value
            elif self.response.content.at_eof():
                raise EOFError
            elif "event" in fields:
                self.last_id = fields.get("id", self.last_id)
                return Message(fields["event"], json.loads(fields["data"]), fields.get("id"))
            else:
                fields = {}


@asynccontextmanager
async def listening(console: Served, **options: Any) -> AsyncGenerator[EventSource]:
    async with console.client.get(API + "/stream", **options) as response:
        assert response.status == 200
        yield EventSource(response)


@asynccontextmanager
async def subscribed(console: Served, **options: Any) -> AsyncGenerator[EventSource]:
    """A stream whose backend subscription is open: from here on nothing is missed."""
    async with listening(console, **options) as source:
        assert (await source.next("backend")).data == {"up": True}
        yield source


async def test_the_headers_keep_proxies_from_holding_it_back(console: Served) -> None:
    async with console.client.get(API + "/stream") as response:
        assert response.headers["Content-Type"] == "text/event-stream"
        assert response.headers["X-Accel-Buffering"] == "no"
        assert "no-cache" in response.headers["Cache-Control"]
        assert "Content-Encoding" not in response.headers


async def test_it_opens_with_what_it_is_about(console: Served) -> None:
    async with listening(console) as source:
        hello = await source.next()
    assert (hello.event, hello.data["queue"]) == ("hello", "shop")
    assert hello.id is not None
    assert hello.id.endswith(":" + hello.data["epoch"])


async def test_transitions_arrive_numbered(console: Served) -> None:
    async with subscribed(console) as source:
        first = await console.shop.enqueue()
        one = await source.next("activity")
        second = await console.shop.enqueue()
        two = await source.next("activity")
    assert [one.data["activity_id"], two.data["activity_id"]] == [str(first), str(second)]
    assert one.id is not None
    assert two.id is not None
    assert int(two.id.split(":")[0]) == int(one.id.split(":")[0]) + 1


async def test_a_reconnect_replays_what_was_missed(console: Served) -> None:
    async with subscribed(console) as stays:
        async with listening(console) as source:
            await console.shop.enqueue()
            seen = await source.next("activity")
            await stays.next("activity")
        missed = await console.shop.enqueue()
        await stays.next("activity")
        for resume in (
            {"headers": {"Last-Event-ID": seen.id}},
            {"params": {"last_event_id": seen.id}},
        ):
            async with listening(console, **resume) as again:
                replayed = await again.next("activity", "resync")
                assert replayed.event == "activity"
                assert replayed.data["activity_id"] == str(missed)


async def test_a_reconnect_to_a_restarted_console_is_told_to_read_again(console: Served) -> None:
    async with subscribed(console) as source:
        await console.shop.enqueue()
        seen = await source.next("activity")
    async with (
        served() as restarted,
        listening(restarted, headers={"Last-Event-ID": seen.id}) as again,
    ):
        assert (await again.next("resync", "activity")).data["reason"] == "restart"


async def test_the_numbers_come_by_themselves(console: Served) -> None:
    await console.shop.enqueue()
    async with listening(console) as source:
        wanted = {"stats", "pools", "workers", "decisions", "point"}
        while wanted:
            wanted.discard((await source.next(*wanted)).event)


async def test_stats_follow_what_happens(console: Served) -> None:
    async with subscribed(console) as source:
        await console.shop.enqueue()
        claim = await console.shop.claim()
        await console.shop.end(claim, OutcomeKind.COMPLETED, result=b"1")
        async with asyncio.timeout(15):
            while (await source.next("stats")).data["counts"]["completed"] != 1:
                pass


async def test_a_quiet_stream_is_kept_open_by_comments() -> None:
    async with served(heartbeat_seconds=0.02) as console, listening(console) as source:

        async def quiet() -> bool:
            await source.next()
            return source.comments > 0

        await eventually(quiet)


async def test_a_lost_backend_is_said_on_the_stream(console: Served) -> None:
    async with subscribed(console) as source:
        console.backend.down = True
        while "error" not in (stats := await source.next("stats")).data:
            pass
        assert stats.data["error"]["code"] == "backend_unavailable"
        assert "counts" not in stats.data


async def test_many_clients_cost_one_subscription_and_one_reading() -> None:
    async with served(sample_seconds=600) as console, subscribed(console):
        streams = [await console.client.get(API + "/stream") for _ in range(20)]
        try:
            sources = [EventSource(stream) for stream in streams]
            await console.shop.enqueue()
            for source in sources:
                await source.next("activity")
            text = (await console.get("/metrics")).text
            assert "runnerq_console_sse_clients 21.0" in text
            assert console.backend.asked.count("stats") <= 2
        finally:
            for stream in streams:
                stream.close()


async def test_a_client_that_left_is_forgotten(console: Served) -> None:
    async with listening(console) as source:
        await source.next("hello")

    async def gone() -> bool:
        return "runnerq_console_sse_clients 0.0" in (await console.get("/metrics")).text

    await eventually(gone)


async def test_a_session_cookie_opens_a_stream_and_its_end_closes_it() -> None:
    now = 1_000_000_000.0
    auth = TokenAuth("operator-token", clock=lambda: now)
    async with served(auth=auth) as console:
        session = auth.open_session("operator-token")
        cookie = {"Cookie": f"{auth.cookie}={session}"}
        # By the wall clock that session ended long ago: the stream opens, and ends at once.
        async with console.client.get(API + "/stream", headers=cookie) as response:
            assert response.status == 200
            async with asyncio.timeout(5):
                await response.read()


async def test_stopping_the_console_ends_its_streams() -> None:
    async with served() as console:
        response = await console.client.get(API + "/stream")
        source = EventSource(response)
        await source.next("hello")
        async with asyncio.timeout(5):
            await console.client.server.close()
            await response.read()
        assert response.content.at_eof()
