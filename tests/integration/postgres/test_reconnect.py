"""Connections that are killed, a server that stops: work goes on, and says meanwhile that it cannot."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import asyncpg
import pytest
from tests.integration.postgres.desk import QUEUE, WITHIN, Desk, ended, eventually, new_spec
from tests.servers.postgres import POSTGRES_PARAMS
from tests.servers.postgres_server import VERSIONS, PostgresServer

from runnerq.errors import BackendUnavailable
from runnerq.storage.postgres import PostgresBackend
from runnerq.storage.records import ActivityState, EngineState, Heartbeat, StreamGap

if TYPE_CHECKING:
    from asyncpg.connection import Connection

_KILL = (
    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
    "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND application_name = $1"
)


def named(url: str, name: str) -> str:
    """So that only this test's connections are killed."""
    return f"{url}?application_name={name}"


async def test_work_goes_on_while_every_connection_is_killed_each_second(
    raw: Connection[asyncpg.Record], backend: PostgresBackend, postgres_url: str, fresh_schema: str
) -> None:
    made = PostgresBackend(named(postgres_url, fresh_schema), QUEUE, schema=fresh_schema)
    await made.open()
    desk = Desk(made)
    await desk.register()
    specs = [new_spec() for _ in range(400)]
    killed = 0
    finished: set[str] = set()
    producing_until = time.monotonic() + 6

    async def produce() -> None:
        for number, spec in enumerate(specs):
            while True:
                with suppress(BackendUnavailable):
                    await desk.enqueue(spec)
                    break
            # Spread over the time in which connections are killed.
            share = (number + 1) / len(specs)
            await asyncio.sleep(max(0.0, producing_until - 6 * (1 - share) - time.monotonic()))

    async def work() -> None:
        while len(finished) < len(specs):
            claims = []
            with suppress(BackendUnavailable):
                claims = await desk.claim(20)
            while claims:
                with suppress(BackendUnavailable):
                    for answer in await desk.complete(*claims):
                        assert answer.state is ActivityState.COMPLETED
                        finished.add(str(answer.id))
                    claims = []
            await asyncio.sleep(0.01)

    async def kill() -> None:
        nonlocal killed
        while len(finished) < len(specs):
            await asyncio.sleep(0.9)
            killed += await raw.fetchval(_KILL, fresh_schema)

    try:
        async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
            tasks.create_task(produce())
            tasks.create_task(work())
            tasks.create_task(kill())
    finally:
        await made.close()
    assert killed > 5
    assert finished == {str(spec.id) for spec in specs}
    attempts = await raw.fetchval("SELECT max(attempt) FROM runnerq_history")
    assert attempts == 1


async def test_futures_streams_and_heartbeats_survive_a_killed_connection(
    raw: Connection[asyncpg.Record], backend: PostgresBackend, postgres_url: str, fresh_schema: str
) -> None:
    made = PostgresBackend(named(postgres_url, fresh_schema), QUEUE, schema=fresh_schema)
    await made.open()
    desk = Desk(made)
    await desk.register()
    beat = Heartbeat(engine_id=desk.engine_id, state=EngineState.RUNNING, busy=0)
    other = Desk(backend)
    await other.register()
    try:
        assert (await asyncio.to_thread(made.heartbeat_blocking, QUEUE, beat)).known
        [answer] = await desk.enqueue()
        async with made.event_stream(QUEUE) as events, asyncio.timeout(WITHIN):
            waiting = asyncio.create_task(made.wait_for_result(QUEUE, answer.id, WITHIN))
            assert await raw.fetchval(_KILL, fresh_schema) >= 3
            assert isinstance(await anext(events), StreamGap)
            await other.complete(*await other.claim())
            assert await waiting is not None
            await anext(events)
        await eventually(lambda: _beats(made, beat))
    finally:
        await made.close()


async def _beats(backend: PostgresBackend, beat: Heartbeat) -> bool:
    try:
        return (await asyncio.to_thread(backend.heartbeat_blocking, QUEUE, beat)).known
    except BackendUnavailable:
        return False


@pytest.mark.parametrize("version", [name for name in VERSIONS if name in POSTGRES_PARAMS])
async def test_a_stopped_server_is_unavailable_and_back_again_when_it_is_back(version: str) -> None:
    with PostgresServer(version) as server:
        backend = PostgresBackend(server.url, QUEUE)
        await backend.migrate()
        await backend.open()
        desk = Desk(backend)
        await desk.register()
        [answer] = await desk.enqueue()
        waiting = asyncio.create_task(backend.wait_for_result(QUEUE, answer.id, 60))
        await asyncio.to_thread(server.stop)
        started = time.monotonic()
        with pytest.raises(BackendUnavailable):
            await desk.claim()
        with pytest.raises(BackendUnavailable):
            await backend.demand([QUEUE], horizon_ms=1000)
        with pytest.raises(BackendUnavailable):
            await PostgresBackend(server.url, QUEUE).open()
        assert time.monotonic() - started < 10
        await asyncio.to_thread(server.start)
        await eventually(lambda: _claims_and_completes(desk))
        await eventually(lambda: ended(backend, answer.id))
        async with asyncio.timeout(WITHIN):
            assert await waiting is not None
        await backend.close()


async def _claims_and_completes(desk: Desk) -> bool:
    try:
        return len(await desk.complete(*await desk.claim())) == 1
    except BackendUnavailable:
        return False


async def test_closing_does_not_hang_while_the_server_is_away() -> None:
    with PostgresServer(VERSIONS[0]) as server:
        backend = PostgresBackend(server.url, QUEUE)
        await backend.migrate()
        await backend.open()
        desk = Desk(backend)
        await desk.enqueue()
        await asyncio.to_thread(server.stop)
        async with asyncio.timeout(WITHIN):
            await backend.close()
