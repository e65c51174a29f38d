"""The connection dies after the server has committed and before its answer has come."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import asyncpg
import pytest
from tests.integration.postgres.desk import QUEUE, Desk, eventually, new_spec
from tests.servers.proxy import Proxy

from runnerq.errors import BackendUnavailable
from runnerq.storage.postgres import PostgresBackend
from runnerq.storage.records import AckStatus, ActivityState, EnqueueStatus, EventKind

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from asyncpg.connection import Connection

    from runnerq.storage.records import Claim


@pytest.fixture
async def proxy(postgres_url: str) -> AsyncIterator[Proxy]:
    async with Proxy(postgres_url) as made:
        yield made


@pytest.fixture
async def far(backend: PostgresBackend, proxy: Proxy, fresh_schema: str) -> AsyncIterator[Desk]:
    """A desk whose backend reaches the server through the proxy."""
    made = PostgresBackend(proxy.url, QUEUE, schema=fresh_schema)
    await made.open()
    desk = Desk(made)
    await desk.register()
    try:
        yield desk
    finally:
        await made.close()


async def lose_the_answer_to_a_claim(
    raw: Connection[asyncpg.Record], far: Desk, proxy: Proxy
) -> asyncio.Task[list[Claim]]:
    """A claim that takes all there is, commits, and whose answer will never come."""
    available = await raw.fetchval("SELECT count(*) FROM runnerq_activities WHERE state = 1")
    async with raw.transaction():
        # The claim waits for the engine's row, so that the answers before it still come through.
        await raw.execute(
            "SELECT FROM runnerq_engines WHERE engine_id = $1 FOR UPDATE", far.engine_id
        )
        claiming = asyncio.create_task(far.claim())
        await eventually(lambda: _waits_for_a_lock(raw))
        proxy.deaf = True
    await eventually(lambda: _taken(raw, available))
    return claiming


async def _waits_for_a_lock(raw: Connection[asyncpg.Record]) -> bool:
    return await raw.fetchval(
        "SELECT count(*) > 0 FROM pg_stat_activity "
        "WHERE wait_event_type = 'Lock' AND pg_backend_pid() = ANY (pg_blocking_pids(pid))"
    )


async def count(raw: Connection[asyncpg.Record], table: str, state: int) -> int:
    return await raw.fetchval(f"SELECT count(*) FROM {table} WHERE state = $1", state)  # noqa: S608


async def test_claims_whose_answer_was_lost_are_given_back_uncounted(
    raw: Connection[asyncpg.Record], far: Desk, proxy: Proxy
) -> None:
    await far.enqueue(*(new_spec() for _ in range(5)))
    claiming = await lose_the_answer_to_a_claim(raw, far, proxy)
    proxy.deaf = False
    proxy.cut()
    with pytest.raises(BackendUnavailable):
        await claiming
    claims = await far.claim()
    assert sorted(claim.attempt for claim in claims) == [1] * 5


async def test_a_cancelled_claim_is_given_back_uncounted(
    raw: Connection[asyncpg.Record], far: Desk, proxy: Proxy
) -> None:
    await far.enqueue(new_spec())
    claiming = await lose_the_answer_to_a_claim(raw, far, proxy)
    claiming.cancel()
    proxy.deaf = False
    proxy.cut()
    with pytest.raises(asyncio.CancelledError):
        await claiming
    [claim] = await far.claim()
    assert claim.attempt == 1


async def test_an_engine_that_retires_gives_back_what_it_never_heard_of(
    raw: Connection[asyncpg.Record], far: Desk, desk: Desk, proxy: Proxy
) -> None:
    await far.enqueue(new_spec())
    claiming = await lose_the_answer_to_a_claim(raw, far, proxy)
    proxy.deaf = False
    proxy.cut()
    with pytest.raises(BackendUnavailable):
        await claiming
    await far.backend.retire_engine(QUEUE, far.engine_id)
    [claim] = await desk.claim()
    assert claim.attempt == 1


async def test_an_enqueue_whose_answer_was_lost_stores_its_activity_once(
    raw: Connection[asyncpg.Record], far: Desk, proxy: Proxy
) -> None:
    await far.enqueue()  # so that names and partitions are known
    proxy.deaf = True
    spec = new_spec()
    enqueueing = asyncio.create_task(far.enqueue(spec))
    await eventually(lambda: _stored(raw, 2))
    proxy.deaf = False
    proxy.cut()
    [answer] = await enqueueing
    assert (answer.id, answer.status) == (spec.id, EnqueueStatus.EXISTING)
    assert await _stored(raw, 2)


async def test_an_acknowledgement_whose_answer_was_lost_is_accepted_once(
    raw: Connection[asyncpg.Record], far: Desk, proxy: Proxy
) -> None:
    await far.enqueue(new_spec(), new_spec())
    first, *claims = await far.claim()
    await far.complete(first)  # so that the statement is prepared
    proxy.deaf = True
    completing = asyncio.create_task(far.complete(*claims))
    await eventually(lambda: _ended(raw, 2))
    proxy.deaf = False
    proxy.cut()
    [answer] = await completing
    assert (answer.status, answer.state) == (AckStatus.ACCEPTED, ActivityState.COMPLETED)
    steps = await far.backend.get_activity_events(QUEUE, answer.id)
    assert [step.kind for step in steps] == [
        EventKind.ENQUEUED,
        EventKind.CLAIMED,
        EventKind.COMPLETED,
    ]


async def _taken(raw: Connection[asyncpg.Record], number: int) -> bool:
    return await count(raw, "runnerq_activities", 4) == number


async def _ended(raw: Connection[asyncpg.Record], number: int) -> bool:
    return await count(raw, "runnerq_history", 6) == number


async def _stored(raw: Connection[asyncpg.Record], number: int) -> bool:
    return await raw.fetchval("SELECT count(*) FROM runnerq_activities") == number
