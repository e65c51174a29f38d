"""The HTTP side of the live stream: one response per browser, fed by its queue's feed.

Comment lines keep proxies from closing a quiet stream; X-Accel-Buffering keeps nginx from holding it
back. A client whose connection takes nothing for half a minute is dropped.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING

from aiohttp import web

from runnerq.console.access import principal_of, seconds_left

if TYPE_CHECKING:
    from runnerq.console.context import Console
    from runnerq.console.stream import Client

HEARTBEAT_SECONDS = 15.0
STALLED_SECONDS = 30.0
RETRY_MS = 2_000


class LiveStream:
    def __init__(self, console: Console, *, heartbeat_seconds: float = HEARTBEAT_SECONDS) -> None:
        self._console = console
        self._heartbeat_seconds = heartbeat_seconds

    def routes(self, prefix: str = "") -> list[web.RouteDef]:
        return [web.get(f"{prefix}/stream", self.stream, allow_head=False)]

    async def stream(self, request: web.Request) -> web.StreamResponse:
        """GET /stream: Last-Event-ID (or ?last_event_id=) resumes where the client was."""
        queue = await self._console.reads.known_queue(request.query.get("queue"))
        feed = self._console.hub.watch(queue).feed
        last = request.headers.get("Last-Event-ID") or request.query.get("last_event_id")
        response = web.StreamResponse(
            headers={
                "Content-Type": "text/event-stream",
                "Cache-Control": "no-cache, no-transform",
                "X-Accel-Buffering": "no",
            }
        )
        await response.prepare(request)
        left = seconds_left(principal_of(request))
        ends = None if left is None else time.monotonic() + left
        # A browser that left is an ordinary end.
        with feed.attach(last) as client, contextlib.suppress(ConnectionError, TimeoutError):
            await self._pump(response, client, ends)
        return response

    async def _pump(self, response: web.StreamResponse, client: Client, ends: float | None) -> None:
        await response.write(b"retry: %d\n\n" % RETRY_MS)
        while ends is None or time.monotonic() < ends:
            wait = self._heartbeat_seconds
            if ends is not None:
                wait = min(wait, max(0.0, ends - time.monotonic()))
            chunk = await client.take(wait)
            if chunk is None:
                return
            async with asyncio.timeout(STALLED_SECONDS):
                await response.write(chunk or b": quiet\n\n")
