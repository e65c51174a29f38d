"""A durable queue that several processes share: on Postgres of each version, and on SQLite."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.chaos.field import QUEUE, Field
from tests.servers.postgres import EXTERNAL, POSTGRES_PARAMS, schema_of_its_own
from tests.servers.postgres_server import PostgresServer

from runnerq import open_backend

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path


@pytest.fixture(scope="session", params=("sqlite", *POSTGRES_PARAMS))
def server(request: pytest.FixtureRequest) -> Iterator[str]:
    """The url of a server, or "" for SQLite, which needs none."""
    name = str(request.param)
    if name == "sqlite" or EXTERNAL:
        yield "" if name == "sqlite" else EXTERNAL
        return
    with PostgresServer(name) as running:
        yield running.url


@pytest.fixture
async def field(server: str, tmp_path: Path) -> AsyncIterator[Field]:
    """An empty queue on the server."""
    if not server:
        async for made in _opened(f"sqlite:///{tmp_path}/queue.db", None):
            yield made
        return
    async with schema_of_its_own(server) as schema:
        async for made in _opened(server, schema):
            yield made


@pytest.fixture
async def postgres_field(postgres_url: str, fresh_schema: str) -> AsyncIterator[Field]:
    async for made in _opened(postgres_url, fresh_schema):
        yield made


async def _opened(url: str, schema: str | None) -> AsyncIterator[Field]:
    backend = open_backend(url, queue=QUEUE, schema=schema)
    await backend.migrate()
    await backend.open()
    environment = {"RUNNERQ_BACKEND_URL": url, "RUNNERQ_QUEUE": QUEUE}
    if schema is not None:
        environment["RUNNERQ_SCHEMA"] = schema
    try:
        yield Field(backend, environment)
    finally:
        await backend.close()
