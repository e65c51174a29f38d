"""Behind PgBouncer in transaction mode: noticed, worked with, and nothing left on its connections."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import asyncpg
import pytest
from tests.integration.postgres.desk import QUEUE, WITHIN, Desk, new_spec
from tests.servers.pgbouncer import PgBouncer

from runnerq.storage.postgres import PostgresBackend
from runnerq.storage.records import (
    AckStatus,
    EngineState,
    EnqueueStatus,
    Heartbeat,
    Idempotency,
    StreamGap,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from asyncpg.connection import Connection


@pytest.fixture
def pooler_url(postgres_url: str) -> Iterator[str]:
    with PgBouncer(postgres_url, pool_mode="transaction") as pooler:
        yield pooler.url


@pytest.fixture
async def pooled(
    backend: PostgresBackend, pooler_url: str, fresh_schema: str
) -> AsyncIterator[PostgresBackend]:
    made = PostgresBackend(pooler_url, QUEUE, schema=fresh_schema)
    await made.open()
    try:
        yield made
    finally:
        await made.close()


async def test_a_transaction_mode_pooler_is_noticed(pooled: PostgresBackend) -> None:
    assert not pooled.pushes


async def test_a_session_mode_pooler_is_as_good_as_none(
    backend: PostgresBackend, postgres_url: str, fresh_schema: str
) -> None:
    with PgBouncer(postgres_url, pool_mode="session", pool_size=20) as pooler:
        made = PostgresBackend(pooler.url, QUEUE, schema=fresh_schema)
        await made.open()
        assert made.pushes
        await made.close()


async def test_everything_works_through_the_pooler(pooled: PostgresBackend) -> None:
    desk = Desk(pooled)
    await desk.register()
    key = Idempotency(key="k")
    answers = await asyncio.gather(*(desk.enqueue(new_spec(idempotency=key)) for _ in range(20)))
    assert len({answer.id for [answer] in answers}) == 1
    await desk.enqueue(*(new_spec() for _ in range(600)))
    claims = await desk.claim(601)
    assert len(claims) == 601
    beat = Heartbeat(engine_id=desk.engine_id, state=EngineState.RUNNING, busy=601)
    assert (await pooled.heartbeat(QUEUE, beat)).known
    assert (await asyncio.to_thread(pooled.heartbeat_blocking, QUEUE, beat)).known
    waiting = asyncio.create_task(pooled.wait_for_result(QUEUE, claims[0].id, WITHIN))
    for start in range(0, 601, 100):
        done = await desk.complete(*claims[start : start + 100])
        assert {answer.status for answer in done} == {AckStatus.ACCEPTED}
    result = await waiting
    assert result is not None
    assert result.result == b"null"
    assert (await pooled.stats(QUEUE)).counts["completed"] == 601  # pyright: ignore[reportArgumentType]


async def test_migrating_through_the_pooler_works(pooler_url: str, fresh_schema: str) -> None:
    backends = [PostgresBackend(pooler_url, schema=fresh_schema) for _ in range(3)]
    await asyncio.gather(*(backend.migrate() for backend in backends))
    assert await backends[0].validate() == []


async def test_nothing_is_left_on_the_poolers_connections(
    pooled: PostgresBackend, pooler_url: str
) -> None:
    desk = Desk(pooled)
    await desk.register()
    for _ in range(20):
        await desk.enqueue()
        await desk.complete(*await desk.claim())
    stranger: Connection[asyncpg.Record] = await asyncpg.connect(pooler_url, statement_cache_size=0)
    try:
        # In one transaction: outside of it, two statements may see two sessions.
        async with stranger.transaction():
            assert await stranger.fetchval("SHOW statement_timeout") == "0"
            assert await stranger.fetchval("SHOW enable_seqscan") == "on"
            named = await stranger.fetchval(
                "SELECT count(*) FROM pg_prepared_statements WHERE name <> ''"
            )
            assert named == 0
    finally:
        await stranger.close()


async def test_a_watcher_behind_the_pooler_is_told_to_read_again(pooled: PostgresBackend) -> None:
    async with pooled.event_stream(QUEUE) as events, asyncio.timeout(WITHIN):
        assert isinstance(await anext(events), StreamGap)


async def test_work_enqueued_through_the_pooler_wakes_engines_that_are_not(
    pooled: PostgresBackend, backend: PostgresBackend
) -> None:
    signal = backend.work_signal(QUEUE)
    seen = await signal.wait(signal.version(), timeout=WITHIN)  # in place from now on
    [answer] = await Desk(pooled).enqueue()
    assert answer.status is EnqueueStatus.CREATED
    async with asyncio.timeout(WITHIN):
        assert await signal.wait(seen, timeout=WITHIN) != seen
