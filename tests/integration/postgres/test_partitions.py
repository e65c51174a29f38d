"""History's daily partitions: made ahead, made on demand, never for a clock that is wrong."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

import asyncpg
import pytest
from tests.integration.postgres.desk import QUEUE, Desk, new_spec

from runnerq.errors import InvalidActivity
from runnerq.storage.postgres import PostgresBackend

if TYPE_CHECKING:
    from asyncpg.connection import Connection


def id_made_at(offset: timedelta) -> UUID:
    """A UUIDv7 of a machine whose clock is off by `offset`."""
    ms = int((time.time() + offset.total_seconds()) * 1000)
    return UUID(int=ms << 80 | 0x7000 << 64 | 0x8000 << 48 | uuid4().int & 0xFFFF_FFFF_FFFF)


def partition_of(activity_id: UUID) -> str:
    made = datetime.fromtimestamp((activity_id.int >> 80) / 1000, tz=UTC)
    return f"runnerq_history_{made:%Y%m%d}"


async def partitions(raw: Connection[asyncpg.Record]) -> set[str]:
    rows = await raw.fetch(
        "SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid "
        "WHERE i.inhparent = 'runnerq_history'::regclass"
    )
    return {row["relname"] for row in rows}


async def finish(desk: Desk, activity_id: UUID) -> None:
    await desk.enqueue(new_spec(id=activity_id))
    [claim] = await desk.claim()
    await desk.complete(claim)


async def test_the_first_enqueue_makes_a_week_of_partitions_ahead(
    raw: Connection[asyncpg.Record], desk: Desk
) -> None:
    await desk.enqueue()
    ahead = {partition_of(id_made_at(timedelta(days=days))) for days in range(8)}
    assert ahead <= await partitions(raw)


@pytest.mark.parametrize(
    "off", [timedelta(hours=-23, minutes=-50), timedelta(hours=23, minutes=50)]
)
async def test_an_id_from_a_clock_less_than_a_day_off_finds_its_partition(
    raw: Connection[asyncpg.Record], desk: Desk, off: timedelta
) -> None:
    activity_id = id_made_at(off)
    await finish(desk, activity_id)
    found = await raw.fetchval(
        "SELECT tableoid::regclass::text FROM runnerq_history WHERE id = $1", activity_id
    )
    assert found == partition_of(activity_id)


@pytest.mark.parametrize("off", [timedelta(hours=-24, minutes=-5), timedelta(days=400)])
async def test_an_id_from_a_clock_more_than_a_day_off_is_refused_by_name(
    raw: Connection[asyncpg.Record], desk: Desk, off: timedelta
) -> None:
    await desk.enqueue()
    before = await partitions(raw)
    with pytest.raises(InvalidActivity, match="clock skew") as caught:
        await desk.enqueue(new_spec(), new_spec(id=id_made_at(off)))
    assert caught.value.field == "id"
    assert await partitions(raw) == before
    assert await raw.fetchval("SELECT count(*) FROM runnerq_activities") == 1


async def test_an_id_of_another_version_is_refused(desk: Desk) -> None:
    with pytest.raises(InvalidActivity, match="not a UUIDv7"):
        await desk.enqueue(new_spec(id=uuid4()))


async def test_many_processes_may_add_the_same_partition_at_once(
    raw: Connection[asyncpg.Record], backend: PostgresBackend, postgres_url: str, fresh_schema: str
) -> None:
    others = [PostgresBackend(postgres_url, QUEUE, schema=fresh_schema) for _ in range(5)]
    for other in others:
        await other.open()
    yesterday = id_made_at(timedelta(hours=-23, minutes=-50))
    specs = [new_spec(id=UUID(int=yesterday.int + number)) for number in range(5)]
    try:
        await asyncio.gather(
            *(other.enqueue(QUEUE, [spec]) for other, spec in zip(others, specs, strict=True))
        )
    finally:
        for other in others:
            await other.close()
    assert partition_of(yesterday) in await partitions(raw)


async def test_a_worker_needs_no_right_to_create_tables(
    raw: Connection[asyncpg.Record], backend: PostgresBackend, postgres_url: str, fresh_schema: str
) -> None:
    role = f"worker_{uuid4().hex[:8]}"
    await raw.execute(
        f'CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA "{fresh_schema}" TO {role};'
        f'GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA "{fresh_schema}" TO {role}'
    )
    url = postgres_url.replace("//postgres@", f"//{role}@")
    worker = PostgresBackend(url, QUEUE, schema=fresh_schema)
    try:
        await worker.open()
        desk = Desk(worker)
        await desk.register()
        await finish(desk, id_made_at(timedelta(hours=-23, minutes=-50)))
    finally:
        await worker.close()
        await raw.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


async def test_looking_up_an_id_touches_one_partition(
    raw: Connection[asyncpg.Record], desk: Desk
) -> None:
    activity_id = new_spec().id
    await finish(desk, activity_id)
    plan = await raw.fetch(
        f"EXPLAIN SELECT * FROM runnerq_history WHERE id = '{activity_id}'"  # noqa: S608 - an id of ours
    )
    touched = [row[0] for row in plan if "runnerq_history_" in row[0]]
    assert len(touched) == 1
    assert partition_of(activity_id) in touched[0]
