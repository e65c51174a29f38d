"""The console over the durable backends: the same answers, and a stream that crosses processes."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.console.served import API, QUEUE, Shop, answer_of, running
from tests.integration.console.test_live import EventSource
from tests.servers.postgres import schema_of_its_own

from runnerq.console import OpenAuth, create_app
from runnerq.storage.postgres import PostgresBackend
from runnerq.storage.sqlite import SqliteBackend

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from aiohttp.test_utils import TestClient

    from runnerq.storage.ports import Storage


@asynccontextmanager
async def postgres(url: str) -> AsyncGenerator[Callable[[], Storage]]:
    async with schema_of_its_own(url) as schema:
        yield lambda: PostgresBackend(url, QUEUE, schema=schema, max_connections=3)


@asynccontextmanager
async def sqlite(folder: Path) -> AsyncGenerator[Callable[[], Storage]]:
    yield lambda: SqliteBackend(str(folder / "queue.db"), QUEUE)


@asynccontextmanager
async def opened(connect: Callable[[], Storage]) -> AsyncGenerator[Storage]:
    backend = connect()
    await backend.open()
    try:
        yield backend
    finally:
        await backend.close()


async def get(client: TestClient[Any, Any], path: str) -> Any:
    async with client.get(API + path) as response:
        assert response.status == 200, path
        return (await answer_of(response)).json


async def tell_the_same(kept: AbstractAsyncContextManager[Callable[[], Storage]]) -> None:
    async with kept as connect:
        await connect().migrate()
        # Two backends on one store: the console's, and that of another process.
        async with (
            opened(connect) as shown,
            opened(connect) as other,
            running(create_app(shown, auth=OpenAuth(), sample_seconds=0.1)) as client,
        ):
            shop = Shop(other)
            await shop.open(pool="bulk", pod="bulk-1")
            async with client.get(API + "/stream") as response:
                source = EventSource(response)
                assert (await source.next("backend")).data == {"up": True}
                pending = await shop.enqueue(payload=b'{"n":9007199254740993}')
                event = await source.next("activity")
                assert event.data["activity_id"] == str(pending)
                dead = await _dead(shop)
                async with asyncio.timeout(20):
                    while (await source.next("stats")).data["counts"]["dead_letter"] != 1:
                        pass
            assert [item["id"] for item in (await get(client, "/dead-letter"))["items"]] == [dead]
            detail = await get(client, f"/activities/{dead}")
            assert (detail["status"], detail["error"]["type"]) == ("dead_letter", "Boom")
            kinds = [
                one["kind"] for one in (await get(client, f"/activities/{dead}/events"))["events"]
            ]
            assert kinds[-1] == "dead_lettered"
            assert (await get(client, f"/activities/{dead}/result"))["finished"] is True
            [worker] = (await get(client, "/workers"))["workers"]
            assert (worker["pool"], worker["pod"]) == ("bulk", "bulk-1")
            [pool] = (await get(client, "/pools"))["pools"]
            assert pool["ready"] == 1
            body = {"ids": [dead]}
            async with client.post(API + "/dead-letter/requeue", json=body) as response:
                assert (await answer_of(response)).json["requeued"] == 1
            assert (await get(client, f"/activities/{dead}"))["status"] == "pending"


async def _dead(shop: Shop) -> str:
    await shop.open(types=("send", "fragile"), pool="bulk", pod="bulk-1")
    return str(await shop.dead(activity_type="fragile"))


@pytest.mark.timeout(180)
async def test_on_postgres(postgres_url: str) -> None:
    await tell_the_same(postgres(postgres_url))


async def test_on_sqlite(tmp_path: Path) -> None:
    await tell_the_same(sqlite(tmp_path))
