"""Migrations and the check of the schema: what a file must be before anything is done with it."""

from __future__ import annotations

import asyncio
import sqlite3
from typing import TYPE_CHECKING

import pytest

from runnerq import ConfigurationError, SchemaMismatch, StorageError
from runnerq.storage.sqlite import SqliteBackend, schema

if TYPE_CHECKING:
    from pathlib import Path


def run(path: Path, statement: str, *parameters: object) -> None:
    connection = sqlite3.connect(path)
    with connection:
        connection.execute(statement, parameters)
    connection.close()


def newer(path: Path, by: int) -> None:
    """As if a later release had migrated it."""
    version = schema.migrations()[-1].version + by
    run(path, "INSERT INTO runnerq_migrations (version, name) VALUES (?, 'later')", version)


async def test_migrating_makes_the_file_and_its_folder_and_says_what_it_did(tmp_path: Path) -> None:
    path = tmp_path / "some" / "where" / "queue.db"
    backend = SqliteBackend(path)
    assert await backend.migrate() == [migration.name for migration in schema.migrations()]
    assert await backend.migrate() == []
    await backend.open()
    await backend.close()


async def test_many_may_migrate_at_once_and_each_step_is_applied_once(path: Path) -> None:
    applied = await asyncio.gather(*(SqliteBackend(path).migrate() for _ in range(8)))
    names = [name for steps in applied for name in steps]
    assert sorted(names) == sorted(migration.name for migration in schema.migrations())


async def test_a_migration_that_fails_leaves_the_version_before(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = schema.migrations()
    broken = schema.Migration(99, "0099_broken", ("CREATE TABLE half (a)", "CREATE NONSENSE"))
    monkeypatch.setattr(schema, "migrations", lambda: [*good, broken])
    with pytest.raises(StorageError, match="NONSENSE"):
        await SqliteBackend(path).migrate()
    monkeypatch.undo()
    connection = sqlite3.connect(path)
    tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
    connection.close()
    assert "half" not in tables
    await SqliteBackend(path).open()


def test_a_missing_file_is_not_made_but_named_with_the_remedy(path: Path) -> None:
    with pytest.raises(SchemaMismatch, match=r"queue\.db does not exist.*migrate up"):
        asyncio.run(SqliteBackend(path).open())
    assert not path.exists()


async def test_a_file_without_the_schema_is_refused(path: Path) -> None:
    run(path, "CREATE TABLE other (a)")
    with pytest.raises(SchemaMismatch, match="version 0"):
        await SqliteBackend(path).open()


def test_a_file_that_is_no_database_is_an_error_that_names_it(path: Path) -> None:
    path.write_text("not a database, " * 100)
    with pytest.raises(StorageError, match=r"queue\.db"):
        asyncio.run(SqliteBackend(path).open())


async def test_code_runs_on_the_next_version_but_not_on_one_after_it(path: Path) -> None:
    await SqliteBackend(path).migrate()
    newer(path, 1)
    run(path, "ALTER TABLE runnerq_activities ADD COLUMN added_by_the_next TEXT")
    backend = SqliteBackend(path)
    await backend.open()
    await backend.close()
    newer(path, 2)
    with pytest.raises(SchemaMismatch, match="newer runnerq"):
        await backend.open()


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("DROP INDEX runnerq_lanes", "runnerq_lanes"),
        ("DROP TABLE runnerq_events", "runnerq_events"),
        ("ALTER TABLE runnerq_history ADD COLUMN mine TEXT", "runnerq_history"),
    ],
)
async def test_a_schema_changed_by_hand_is_refused_and_the_change_is_named(
    path: Path, change: str, named: str
) -> None:
    await SqliteBackend(path).migrate()
    run(path, change)
    with pytest.raises(SchemaMismatch, match=named):
        await SqliteBackend(path).open()


@pytest.mark.parametrize("path", ["", ":memory:"])
def test_a_database_without_a_file_is_refused(path: str) -> None:
    with pytest.raises(ConfigurationError, match="path"):
        SqliteBackend(path)


def test_a_path_with_any_characters_is_a_path(tmp_path: Path) -> None:
    async def use() -> None:
        backend = SqliteBackend(tmp_path / "a b?c#d%20é&mode=memory.db")
        await backend.migrate()
        await backend.open()
        await backend.close()

    asyncio.run(use())
    assert [entry.name for entry in tmp_path.iterdir()] == ["a b?c#d%20é&mode=memory.db"]
