"""A SQLite backend on a file of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.conformance.station import Station
from tests.conformance.stores import SqliteStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from runnerq.storage.sqlite import SqliteBackend


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "queue.db"


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    made = SqliteStore("q", tmp_path)
    await made.open()
    try:
        yield made
    finally:
        await made.close()


@pytest.fixture
async def station(store: SqliteStore) -> Station:
    made = Station(store)
    await made.register(made.engine)
    return made


@pytest.fixture
def backend(store: SqliteStore) -> SqliteBackend:
    return store.sqlite
