"""An open backend on a schema of its own, and a raw connection that looks behind its back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import asyncpg
import pytest
from tests.integration.postgres.desk import QUEUE, Desk

from runnerq.storage.postgres import PostgresBackend

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from asyncpg.connection import Connection


@pytest.fixture
async def backend(postgres_url: str, fresh_schema: str) -> AsyncIterator[PostgresBackend]:
    made = PostgresBackend(postgres_url, QUEUE, schema=fresh_schema)
    await made.migrate()
    await made.open()
    try:
        yield made
    finally:
        await made.close()


@pytest.fixture
async def desk(backend: PostgresBackend) -> Desk:
    made = Desk(backend)
    await made.register()
    return made


@pytest.fixture
async def raw(postgres_url: str, fresh_schema: str) -> AsyncIterator[Connection[asyncpg.Record]]:
    """A connection with the schema on its search path."""
    connection = await asyncpg.connect(postgres_url)
    await connection.execute(f'SET search_path TO "{fresh_schema}"')
    try:
        yield connection
    finally:
        await connection.close()
