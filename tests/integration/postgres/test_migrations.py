"""The schema: brought up to date by many at once, told apart when it is not ours."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import asyncpg
import pytest
from tests.integration.postgres.desk import QUEUE, Desk, eventually
from tests.servers.postgres import schema_of_its_own

from runnerq.errors import ConfigurationError, SchemaMismatch
from runnerq.storage.postgres import PostgresBackend

if TYPE_CHECKING:
    from asyncpg.connection import Connection


async def test_many_processes_that_migrate_at_once_apply_each_step_once(
    postgres_url: str, fresh_schema: str
) -> None:
    backends = [PostgresBackend(postgres_url, schema=fresh_schema) for _ in range(6)]
    applied = await asyncio.gather(*(backend.migrate() for backend in backends))
    names = [status.name for status in await backends[0].migration_status()]
    assert sorted(name for steps in applied for name in steps) == names
    assert await backends[0].validate() == []


async def test_migrating_again_changes_nothing(backend: PostgresBackend) -> None:
    before = await backend.migration_status()
    assert await backend.migrate() == []
    assert await backend.migration_status() == before
    assert all(status.applied_at is not None for status in before)


async def test_while_another_process_migrates_we_poll_and_never_wait_inside_the_server(
    postgres_url: str, fresh_schema: str
) -> None:
    holder = await asyncpg.connect(postgres_url)
    watcher = await asyncpg.connect(postgres_url)
    try:
        await holder.execute(
            f"BEGIN; SELECT pg_advisory_xact_lock(hashtextextended('runnerq {fresh_schema}', 0))"
        )
        migrating = asyncio.create_task(
            PostgresBackend(postgres_url, schema=fresh_schema).migrate()
        )

        async def polled() -> bool:
            return await watcher.fetchval(
                "SELECT count(*) > 0 FROM pg_stat_activity "
                "WHERE pid <> pg_backend_pid() AND query LIKE '%pg_try_advisory_xact_lock%'"
            )

        await eventually(polled)
        waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        assert await watcher.fetchval(waiting) == 0
        assert not migrating.done()
        await holder.execute("COMMIT")
        assert len(await migrating) > 0
    finally:
        await holder.close()
        await watcher.close()


async def test_a_schema_without_our_tables_is_refused_with_the_command_that_makes_them(
    postgres_url: str, fresh_schema: str
) -> None:
    backend = PostgresBackend(postgres_url, schema=fresh_schema)
    with pytest.raises(SchemaMismatch, match=r"has no RunnerQ tables.*runnerq migrate up"):
        await backend.open()


async def test_code_runs_on_the_next_schema_but_on_no_later_one(
    raw: Connection[asyncpg.Record],
    backend: PostgresBackend,
    postgres_url: str,
    fresh_schema: str,
) -> None:
    newest = (await backend.migration_status())[-1].version
    add = "INSERT INTO runnerq_migrations (version, name, checksum) VALUES ($1, 'later', '')"
    await raw.execute(add, newest + 1)
    other = PostgresBackend(postgres_url, schema=fresh_schema)
    await other.open()
    await other.close()
    assert (await other.migration_status())[-1].name == "later"
    await raw.execute(add, newest + 2)
    with pytest.raises(SchemaMismatch, match="upgrade runnerq"):
        await other.open()


async def test_a_half_migrated_schema_is_refused(
    raw: Connection[asyncpg.Record], backend: PostgresBackend, postgres_url: str, fresh_schema: str
) -> None:
    newest = (await backend.migration_status())[-1].version
    await raw.execute("DELETE FROM runnerq_migrations WHERE version = $1", newest)
    with pytest.raises(SchemaMismatch, match=rf"is at version {newest - 1}"):
        await PostgresBackend(postgres_url, schema=fresh_schema).open()


async def test_validate_names_what_is_missing_and_what_was_changed(
    raw: Connection[asyncpg.Record], backend: PostgresBackend
) -> None:
    await raw.execute("DROP INDEX runnerq_activities_lane")
    await raw.execute("UPDATE runnerq_migrations SET checksum = 'other' WHERE version = 1")
    problems = await backend.validate()
    assert any("runnerq_activities_lane is missing" in problem for problem in problems)
    assert any("0001" in problem and "another text" in problem for problem in problems)


async def test_the_printed_script_makes_the_same_schema(
    raw: Connection[asyncpg.Record], postgres_url: str, fresh_schema: str
) -> None:
    backend = PostgresBackend(postgres_url, schema=fresh_schema)
    await raw.execute(backend.migration_sql())
    assert await backend.validate() == []
    assert await backend.migrate() == []
    await backend.open()
    await backend.close()


@pytest.mark.parametrize("name", ["We\"ird 'schema'", "ünïcode", "x" * 63, "select"])
async def test_any_name_may_be_a_schema(postgres_url: str, name: str) -> None:
    async with schema_of_its_own(postgres_url, name) as schema:
        backend = PostgresBackend(postgres_url, QUEUE, schema=schema)
        await backend.migrate()
        await backend.open()
        desk = Desk(backend)
        await desk.register()
        await desk.enqueue()
        claim = await desk.claim_one()
        await desk.complete(claim)
        assert await backend.get_result(QUEUE, claim.id) is not None
        assert await backend.validate() == []
        await backend.close()


@pytest.mark.parametrize("name", ["", "x" * 64, "ü" * 32, "a\x00b"])
def test_what_cannot_name_a_schema_is_refused_at_once(name: str) -> None:
    with pytest.raises(ConfigurationError, match="schema"):
        PostgresBackend("postgresql://localhost/x", schema=name)


async def test_the_views_show_people_what_is_stored(
    raw: Connection[asyncpg.Record], desk: Desk
) -> None:
    await desk.enqueue()
    [claim] = await desk.claim()
    seen = await raw.fetchrow("SELECT * FROM runnerq_readable_activities WHERE id = $1", claim.id)
    assert seen is not None
    assert (seen["status"], seen["queue"], seen["payload"]) == ("processing", QUEUE, "{}")
    await desk.complete(claim)
    ended = await raw.fetchrow("SELECT * FROM runnerq_results WHERE activity_id = $1", claim.id)
    assert ended is not None
    assert (ended["status"], ended["result"]) == ("completed", "null")
