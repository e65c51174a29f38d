"""Fixtures that give a test a Postgres: one server per version and session, one schema per test.

`postgres_url` is parametrised over the versions ("postgres18", "postgres15"), or is the one server of
RUNNERQ_TEST_POSTGRES_URL. A version that is missing fails the test with the command that installs it.
"""

from __future__ import annotations

import os
import uuid
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import asyncpg
import pytest
from tests.servers.postgres_server import VERSIONS, PostgresServer

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Iterator

EXTERNAL = os.environ.get("RUNNERQ_TEST_POSTGRES_URL", "")
POSTGRES_PARAMS = ("external",) if EXTERNAL else VERSIONS


@pytest.fixture(scope="session", params=POSTGRES_PARAMS)
def postgres_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """URL of a running Postgres, once per version."""
    if EXTERNAL:
        yield EXTERNAL
        return
    with PostgresServer(str(request.param)) as server:
        yield server.url


@asynccontextmanager
async def schema_of_its_own(url: str, name: str = "") -> AsyncGenerator[str]:
    """A schema name nobody else uses; whatever was made in it is dropped at the end."""
    schema = name or f"test_{uuid.uuid4().hex[:12]}"
    try:
        yield schema
    finally:
        connection = await asyncpg.connect(url)
        try:
            quoted = schema.replace('"', '""')
            await connection.execute(f'DROP SCHEMA IF EXISTS "{quoted}" CASCADE')
        finally:
            await connection.close()


@pytest.fixture
async def fresh_schema(postgres_url: str) -> AsyncIterator[str]:
    """`schema_of_its_own` on `postgres_url`."""
    async with schema_of_its_own(postgres_url) as schema:
        yield schema
