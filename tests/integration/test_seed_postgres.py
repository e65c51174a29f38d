"""What the RunnerQ architecture says of its Postgres backend, seen from another connection."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import asyncpg
import pytest

from runnerq.ids import IdSource
from runnerq.storage.postgres import PostgresBackend
from runnerq.storage.records import (
    Acknowledgement,
    ActivitySpec,
    ActivityState,
    Claim,
    ClaimRequest,
    EngineInfo,
    ErrorInfo,
    ErrorKind,
    Idempotency,
    OutcomeKind,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator
    from uuid import UUID

QUEUE = "my_app"


class Bench:
    """A migrated schema with an engine at its queue, and a connection that is none of ours."""

    def __init__(self, backend: PostgresBackend, outside: Any) -> None:
        self.backend = backend
        self.outside: Any = outside
        self.engine = uuid4()
        self._ids = IdSource()

    async def enqueue(self, **fields: Any) -> UUID:
        spec = ActivitySpec(id=self._ids.next(), type="work", payload=b"{}", **fields)
        [stored] = await self.backend.enqueue(QUEUE, [spec])
        return stored.id

    async def claim(self, limit: int = 1) -> list[Claim]:
        return await self.backend.claim(
            ClaimRequest(queue=QUEUE, engine_id=self.engine, types=("work",), limit=limit)
        )

    async def end(self, claim: Claim, kind: OutcomeKind, **fields: Any) -> None:
        end = Acknowledgement(id=claim.id, token=claim.token, kind=kind, **fields)
        await self.backend.acknowledge(QUEUE, [end])


@pytest.fixture
async def bench(postgres_url: str, fresh_schema: str) -> AsyncIterator[Bench]:
    backend = PostgresBackend(postgres_url, QUEUE, schema=fresh_schema, max_connections=3)
    async with _outside(postgres_url, fresh_schema) as outside:
        await backend.migrate()
        await backend.open()
        try:
            made = Bench(backend, outside)
            info = EngineInfo(engine_id=made.engine, host="node", pid=7, slots=4, types=("work",))
            await backend.register_engine(QUEUE, info)
            yield made
        finally:
            await backend.close()


@asynccontextmanager
async def _outside(url: str, schema: str) -> AsyncGenerator[Any]:
    connection: Any = await asyncpg.connect(url)
    try:
        await connection.execute(f'SET search_path TO "{schema}"')
        yield connection
    finally:
        await connection.close()


async def test_the_relations_of_the_seed_answer_by_their_names(bench: Bench) -> None:
    for question in (
        "TABLE runnerq_activities",
        "TABLE runnerq_events",
        "TABLE runnerq_results",
        "TABLE runnerq_idempotency",
    ):
        assert await bench.outside.fetch(question) == []


async def test_results_of_every_ending_are_read_by_their_old_name(bench: Bench) -> None:
    done, failed = await bench.enqueue(), await bench.enqueue()
    first, second = await bench.claim(2)
    assert (first.id, second.id) == (done, failed)
    await bench.end(first, OutcomeKind.COMPLETED, result=b'{"sum": 3}')
    error = ErrorInfo(kind=ErrorKind.HANDLER, type="Boom", message="it broke")
    await bench.end(second, OutcomeKind.FAILED, error=error)
    rows = await bench.outside.fetch("SELECT * FROM runnerq_results ORDER BY activity_id")
    assert [(row["activity_id"], row["status"]) for row in rows] == [
        (done, "completed"),
        (failed, "failed"),
    ]
    assert json.loads(rows[0]["result"]) == {"sum": 3}
    assert json.loads(rows[1]["error"])["message"] == "it broke"


async def test_work_in_every_state_is_read_in_one_place(bench: Bench) -> None:
    """Live and ended work are two tables; people at psql see one."""
    await bench.enqueue()
    [claim] = await bench.claim()
    await bench.end(claim, OutcomeKind.COMPLETED, result=b"1")
    await bench.enqueue(delay_ms=60_000)
    await bench.enqueue()
    rows = await bench.outside.fetch("SELECT status FROM runnerq_readable_activities")
    assert sorted(row["status"] for row in rows) == ["completed", "pending", "scheduled"]


async def test_a_row_that_another_holds_is_skipped_and_not_waited_for(bench: Bench) -> None:
    locked, free = await bench.enqueue(), await bench.enqueue()
    async with bench.outside.transaction():
        await bench.outside.execute(
            "SELECT 1 FROM runnerq_activities WHERE id = $1 FOR UPDATE", locked
        )
        async with asyncio.timeout(5):
            claims = await bench.claim(2)
    assert [claim.id for claim in claims] == [free]
    assert [claim.id for claim in await bench.claim(2)] == [locked]


async def test_an_idempotency_key_is_one_row_with_its_holder(bench: Bench) -> None:
    holder = await bench.enqueue(idempotency=Idempotency(key="order-42"))
    assert await bench.enqueue(idempotency=Idempotency(key="order-42")) == holder
    rows = await bench.outside.fetch("SELECT activity_id, expires_at FROM runnerq_idempotency")
    assert [(row["activity_id"], row["expires_at"]) for row in rows] == [(holder, None)]


async def test_the_claims_order_is_an_index_with_type_priority_retries_and_due_time(
    bench: Bench,
) -> None:
    definition = await bench.outside.fetchval(
        "SELECT indexdef FROM pg_indexes WHERE indexname = 'runnerq_activities_lane' "
        "AND schemaname = current_schema()"
    )
    assert "(type_id, priority, retried, due, id)" in definition


async def test_another_process_is_told_of_work_by_notify(
    bench: Bench, postgres_url: str, fresh_schema: str
) -> None:
    """Through the server alone: the second process polls nothing here."""
    other = PostgresBackend(postgres_url, QUEUE, schema=fresh_schema, max_connections=2)
    await other.open()
    try:
        # Its ear is open once it has heard a first message, whichever that was.
        signal = other.work_signal(QUEUE)
        await other.stats(QUEUE)
        seen = signal.version()
        async with asyncio.timeout(15):
            while signal.version() == seen:
                await bench.enqueue()
                await signal.wait(seen, timeout=0.2)
    finally:
        await other.close()


async def test_a_failed_attempt_stays_in_the_table_of_events(bench: Bench) -> None:
    activity_id = await bench.enqueue()
    [claim] = await bench.claim()
    error = ErrorInfo(kind=ErrorKind.HANDLER, type="Boom", message="it broke")
    await bench.end(claim, OutcomeKind.RETRIED, error=error)
    rows = await bench.outside.fetch("SELECT * FROM runnerq_events")
    assert [(row["activity_id"], row["attempt"]) for row in rows] == [(activity_id, 1)]
    assert json.loads(bytes(rows[0]["error"]))["message"] == "it broke"


async def test_scheduling_needs_no_call_of_ours(bench: Bench) -> None:
    due = await bench.enqueue(delay_ms=3_600_000)
    assert await bench.backend.process_scheduled(QUEUE, limit=100) == 0
    await bench.outside.execute("UPDATE runnerq_activities SET due = due - interval '1 hour'")
    assert (await bench.backend.get_activity(QUEUE, due)).status is ActivityState.SCHEDULED
    assert [claim.id for claim in await bench.claim()] == [due]
