"""A console over a real backend, and the verbs in which its tests speak.

The backend is the memory one, wrapped so that a test can take it away or slow it down.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from uuid import UUID, uuid4

from aiohttp.test_utils import TestClient, TestServer

from runnerq.console import OpenAuth, create_app
from runnerq.errors import BackendUnavailable
from runnerq.ids import IdSource
from runnerq.storage.memory import MemoryBackend
from runnerq.storage.records import (
    Acknowledgement,
    ActivitySpec,
    Claim,
    ClaimRequest,
    EngineInfo,
    ErrorInfo,
    ErrorKind,
    OutcomeKind,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from aiohttp import ClientResponse, web

    from runnerq.console import Auth
    from runnerq.storage.ports import Storage

QUEUE = "shop"
API = "/api/observability"
BOOM = ErrorInfo(kind=ErrorKind.HANDLER, type="Boom", message="it broke", traceback="Traceback: it")


class Interposed:
    """A backend that a test can take away (`down`, or single calls: `failing`) or make slow (`delay`,
    seconds)."""

    def __init__(self, inner: Storage) -> None:
        self._inner = inner
        self.down = False
        self.failing: set[str] = set()
        self.delay = 0.0
        self.cancelled = 0
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Any:
        target = getattr(self._inner, name)
        if not inspect.iscoroutinefunction(target):
            if name == "event_stream" and self.down:
                raise BackendUnavailable("postgres://app:s3cret@db/shop did not answer")
            return target

        async def asked(*arguments: Any, **others: Any) -> Any:
            self.asked.append(name)
            if self.down or name in self.failing:
                raise BackendUnavailable("postgres://app:s3cret@db/shop did not answer")
            try:
                await asyncio.sleep(self.delay)
                return await target(*arguments, **others)
            except asyncio.CancelledError:
                self.cancelled += 1
                raise

        return asked


class Shop:
    """Work in every state, without an engine: what a test puts there stays there."""

    def __init__(self, backend: Storage, queue: str = QUEUE) -> None:
        self.backend = backend
        self.queue = queue
        self.engine = uuid4()
        self._ids = IdSource()

    async def open(self, **info: Any) -> None:
        values: dict[str, Any] = {"host": "node", "pid": 7, "slots": 4, "types": ("send",), **info}
        await self.backend.register_engine(self.queue, EngineInfo(engine_id=self.engine, **values))

    async def enqueue(
        self, activity_type: str = "send", payload: bytes = b"{}", **fields: Any
    ) -> UUID:
        spec = ActivitySpec(id=self._ids.next(), type=activity_type, payload=payload, **fields)
        [stored] = await self.backend.enqueue(self.queue, [spec])
        return stored.id

    async def claim(self, activity_type: str = "send") -> Claim:
        request = ClaimRequest(
            queue=self.queue, engine_id=self.engine, types=(activity_type,), limit=1
        )
        [claim] = await self.backend.claim(request)
        return claim

    async def end(self, claim: Claim, kind: OutcomeKind, **fields: Any) -> None:
        await self.backend.acknowledge(
            self.queue, [Acknowledgement(id=claim.id, token=claim.token, kind=kind, **fields)]
        )

    async def processing(self, **fields: Any) -> UUID:
        await self.enqueue(**fields)
        return (await self.claim(fields.get("activity_type", "send"))).id

    async def completed(self, result: bytes = b'"done"', **fields: Any) -> UUID:
        await self.enqueue(**fields)
        claim = await self.claim(fields.get("activity_type", "send"))
        await self.end(claim, OutcomeKind.COMPLETED, result=result)
        return claim.id

    async def failed(self, error: ErrorInfo = BOOM) -> UUID:
        await self.enqueue()
        claim = await self.claim()
        await self.end(claim, OutcomeKind.FAILED, error=error)
        return claim.id

    async def dead(self, error: ErrorInfo = BOOM, **fields: Any) -> UUID:
        await self.enqueue(max_attempts=1, **fields)
        claim = await self.claim(fields.get("activity_type", "send"))
        await self.end(claim, OutcomeKind.RETRIED, error=error)
        return claim.id


class Answer(NamedTuple):
    status: int
    text: str
    headers: Mapping[str, str]

    @property
    def json(self) -> Any:
        return json.loads(self.text)

    @property
    def error(self) -> Any:
        return self.json["error"]


class Served:
    """A running console and a client of it."""

    def __init__(self, client: TestClient[Any, Any], backend: Interposed, shop: Shop) -> None:
        self.client = client
        self.backend = backend
        self.shop = shop

    async def get(self, path: str, **options: Any) -> Answer:
        return await self.ask("GET", path, **options)

    async def api(self, path: str, **options: Any) -> Answer:
        return await self.ask("GET", API + path, **options)

    async def act(self, path: str, body: object, **options: Any) -> Answer:
        return await self.ask("POST", API + path, json=body, **options)

    async def ask(self, method: str, path: str, **options: Any) -> Answer:
        options.setdefault("allow_redirects", False)
        async with self.client.request(method, path, **options) as response:
            return await answer_of(response)


async def answer_of(response: ClientResponse) -> Answer:
    return Answer(response.status, await response.text(), response.headers)


@asynccontextmanager
async def served(*, auth: Auth | None = None, **options: Any) -> AsyncGenerator[Served]:
    """A console of its own over an empty queue; `options` are those of create_app."""
    backend = Interposed(MemoryBackend(QUEUE))
    storage = cast("Storage", backend)
    shop = Shop(storage)
    await shop.open()
    options.setdefault("sample_seconds", 0.05)
    app = create_app(storage, auth=auth or OpenAuth(), **options)
    async with running(app) as client:
        yield Served(client, backend, shop)


@asynccontextmanager
async def running(app: web.Application) -> AsyncGenerator[TestClient[Any, Any]]:
    async with AsyncExitStack() as stack:
        server = TestServer(app, handler_cancellation=True)
        yield await stack.enter_async_context(TestClient(server))
