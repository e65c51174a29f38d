"""SQLite and Postgres answer like the in-memory model, whatever happens in whatever order.

Deterministic: the same histories every time. RUNNERQ_TEST_HISTORIES=N plays N random ones instead
and shortens the one that fails.
"""

from __future__ import annotations

import asyncio
import os
import uuid
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from tests.conformance.comparison import TICK, Subject, comparing
from tests.conformance.stores import PostgresStore
from tests.servers.postgres import POSTGRES_PARAMS

from runnerq.storage.sqlite import SqliteBackend
from runnerq.testing.clock import VirtualClock

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterator
    from pathlib import Path

    from runnerq.storage.ports import Storage

HISTORIES = int(os.environ.get("RUNNERQ_TEST_HISTORIES", "0"))


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    with asyncio.Runner() as runner:
        yield runner.get_loop()


def play(
    loop: asyncio.AbstractEventLoop,
    make: Callable[[], Coroutine[Any, Any, Subject]],
    *,
    histories: int,
) -> None:
    run_state_machine_as_test(
        comparing(loop, make),
        settings=settings(
            max_examples=HISTORIES or histories,
            derandomize=HISTORIES == 0,
            database=None,
            # Finding the shortest history takes minutes; that is for the one who looks into it.
            phases=tuple(Phase) if HISTORIES else (Phase.generate,),
            stateful_step_count=60,
            deadline=None,
            suppress_health_check=(HealthCheck.too_slow, HealthCheck.data_too_large),
        ),
    )


def test_sqlite_answers_like_the_model(loop: asyncio.AbstractEventLoop, tmp_path: Path) -> None:
    clock = VirtualClock()
    backend = SqliteBackend(tmp_path / "queue.db", clock=clock)
    loop.run_until_complete(backend.migrate())
    loop.run_until_complete(backend.open())

    async def advance(by: timedelta) -> None:
        clock.advance(by)

    async def make() -> Subject:
        ticking = cast("Storage", Ticking(backend, clock))
        return Subject(ticking, f"q-{uuid.uuid4().hex}", advance)

    try:
        play(loop, make, histories=50)
    finally:
        loop.run_until_complete(backend.close())


class Ticking:
    """A backend whose clock moves by a millisecond before each call, as the model's does."""

    def __init__(self, backend: SqliteBackend, clock: VirtualClock) -> None:
        self._backend = backend
        self._clock = clock

    def __getattr__(self, name: str) -> Any:
        self._clock.advance(TICK)
        return getattr(self._backend, name)


@pytest.mark.parametrize("server", POSTGRES_PARAMS)
def test_postgres_answers_like_the_model(
    loop: asyncio.AbstractEventLoop,
    server: str,
    postgres_schema: Callable[[str], Awaitable[tuple[str, str]]],
) -> None:
    async def schema() -> tuple[str, str]:
        return await postgres_schema(server)

    url, name = loop.run_until_complete(schema())
    store = PostgresStore(server, "unused", url, name)
    loop.run_until_complete(store.open())

    async def make() -> Subject:
        store.queue = f"q-{uuid.uuid4().hex}"
        return Subject(store.backend, store.queue, store.advance)

    try:
        play(loop, make, histories=20)
    finally:
        loop.run_until_complete(store.close())
