"""Runs every case of this folder on every backend; a case's id names its backend.

`--mutant NAME` switches one safeguard off first (see mutants.py): the cases of its rule must then fail.
"""

from __future__ import annotations

import uuid
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from tests.conformance.engines import Engines
from tests.conformance.mutants import MUTANTS
from tests.conformance.station import Station
from tests.conformance.stores import MemoryStore, PostgresStore, SqliteStore, Store
from tests.servers.postgres import EXTERNAL, POSTGRES_PARAMS
from tests.servers.postgres_server import PostgresServer

from runnerq.storage.postgres import PostgresBackend

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
    from pathlib import Path

SHARED = ("sqlite", *POSTGRES_PARAMS)
"""Backends that several processes may use at once."""
ALL = ("memory", *SHARED)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--mutant", choices=sorted(MUTANTS), help="switch one safeguard off")


@pytest.fixture(autouse=True)
def mutant(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    # The option exists only when this folder is named on the command line.
    name = request.config.getoption("--mutant", None)
    if name is not None:
        MUTANTS[name].apply(monkeypatch)


@pytest.fixture(scope="session")
def postgres_schema() -> Iterator[Callable[[str], Awaitable[tuple[str, str]]]]:
    """(url, schema) of a server by its name; started and migrated when first asked for."""
    ready: dict[str, tuple[str, str]] = {}
    with ExitStack() as servers:

        async def prepare(name: str) -> tuple[str, str]:
            if name not in ready:
                url = EXTERNAL or servers.enter_context(PostgresServer(name)).url
                schema = f"conformance_{uuid.uuid4().hex[:8]}"
                await PostgresBackend(url, schema=schema).migrate()
                ready[name] = (url, schema)
            return ready[name]

        yield prepare


@pytest.fixture
def make_store(
    postgres_schema: Callable[[str], Awaitable[tuple[str, str]]], tmp_path: Path
) -> Callable[[str], Awaitable[Store]]:
    async def make(name: str) -> Store:
        queue = f"q-{uuid.uuid4().hex[:10]}"
        match name:
            case "memory":
                return MemoryStore(queue)
            case "sqlite":
                return SqliteStore(queue, tmp_path)
            case _:
                return PostgresStore(name, queue, *await postgres_schema(name))

    return make


@pytest.fixture(params=ALL)
async def store(
    request: pytest.FixtureRequest, make_store: Callable[[str], Awaitable[Store]], mutant: None
) -> AsyncIterator[Store]:
    """A store of each kind, open, with a queue that nobody else uses."""
    made = await make_store(str(request.param))
    await made.open()
    try:
        yield made
    finally:
        await made.close()


@pytest.fixture
async def station(store: Store) -> Station:
    """An engine registered at the store's queue."""
    made = Station(store)
    await made.register(made.engine)
    return made


@pytest.fixture
async def engines(store: Store) -> AsyncIterator[Engines]:
    """Starts real engines at the store's queue and stops them at the end."""
    async with Engines(store) as made:
        yield made


@pytest.fixture(params=SHARED)
async def shared_store(
    request: pytest.FixtureRequest, make_store: Callable[[str], Awaitable[Store]], mutant: None
) -> AsyncIterator[Store]:
    """Like `store`, of the kinds that another process can open."""
    made = await make_store(str(request.param))
    await made.open()
    try:
        yield made
    finally:
        await made.close()


def pytest_make_parametrize_id(config: pytest.Config, val: Any, argname: str) -> str | None:
    """Enumeration members by their value, so that ids read like sentences."""
    return str(val.value) if hasattr(val, "value") and hasattr(val, "name") else None
