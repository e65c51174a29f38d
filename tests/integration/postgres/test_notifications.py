"""What is sent between processes: little, packed, and only to those who asked for it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import asyncpg
from tests.integration.postgres.desk import QUEUE, WITHIN, Desk, eventually, new_spec

from runnerq.storage.postgres import PostgresBackend
from runnerq.storage.postgres.signals import Channels

if TYPE_CHECKING:
    from asyncpg.connection import Connection


class Ear:
    """Hears all channels of a schema."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str]] = []

    async def open(self, raw: Connection[asyncpg.Record], schema: str) -> Channels:
        channels = Channels(schema)
        for channel in (channels.work, channels.awaited, channels.ended, channels.transitions):
            await raw.add_listener(channel, self._hear)
        return channels

    def _hear(self, _connection: object, _pid: int, channel: str, payload: object) -> None:
        self.heard.append((channel, str(payload)))

    async def on(self, channel: str) -> bool:
        return any(where == channel for where, _ in self.heard)


async def test_many_enqueues_at_once_send_few_notifications(
    raw: Connection[asyncpg.Record], desk: Desk, fresh_schema: str
) -> None:
    ear = Ear()
    channels = await ear.open(raw, fresh_schema)
    for _ in range(10):
        await asyncio.gather(*(desk.enqueue() for _ in range(20)))
    await eventually(lambda: ear.on(channels.work))
    # One per 20 ms: two hundred enqueues take a second or so, and would have sent as many.
    assert len(ear.heard) < 100


async def test_nobody_waiting_and_nobody_watching_means_no_word_of_what_ended(
    raw: Connection[asyncpg.Record], desk: Desk, fresh_schema: str
) -> None:
    ear = Ear()
    channels = await ear.open(raw, fresh_schema)
    await desk.enqueue(*(new_spec() for _ in range(10)))
    await desk.complete(*await desk.claim())
    await desk.enqueue()
    await eventually(lambda: ear.on(channels.work))
    assert {channel for channel, _ in ear.heard} == {channels.work}


async def test_only_the_ids_somebody_waits_for_are_sent(
    raw: Connection[asyncpg.Record],
    desk: Desk,
    backend: PostgresBackend,
    postgres_url: str,
    fresh_schema: str,
) -> None:
    caller = PostgresBackend(postgres_url, QUEUE, schema=fresh_schema)
    await caller.open()
    ear = Ear()
    channels = await ear.open(raw, fresh_schema)
    answers = await desk.enqueue(*(new_spec() for _ in range(10)))
    claims = await desk.claim()
    waiting = asyncio.create_task(caller.wait_for_result(QUEUE, answers[3].id, WITHIN))
    try:
        await eventually(lambda: ear.on(channels.awaited))
        await desk.complete(*claims)
        await eventually(lambda: ear.on(channels.ended))
        assert await waiting is not None
    finally:
        await caller.close()
    sent = [payload for channel, payload in ear.heard if channel == channels.ended]
    assert [line for payload in sent for line in payload.split("\n")[1:]] == [answers[3].id.hex]


async def test_thousands_of_awaited_ids_fit_into_payloads(
    raw: Connection[asyncpg.Record], backend: PostgresBackend, fresh_schema: str
) -> None:
    ear = Ear()
    channels = await ear.open(raw, fresh_schema)
    desk = Desk(backend)
    answers = await desk.enqueue(*(new_spec() for _ in range(3000)))
    async with asyncio.TaskGroup() as waits:
        tasks = [
            waits.create_task(backend.wait_for_result(QUEUE, answer.id, WITHIN))
            for answer in answers
        ]

        async def all_announced() -> bool:
            lines = [
                line
                for channel, payload in ear.heard
                if channel == channels.awaited
                for line in payload.split("\n")[1:]
            ]
            return len(set(lines)) == 3000

        await eventually(all_announced)
        for task in tasks:
            task.cancel()
    assert max(len(payload.encode()) for _, payload in ear.heard) < 8000
