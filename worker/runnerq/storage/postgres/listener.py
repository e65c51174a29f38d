"""Listener: the process's one connection that hears NOTIFY, outside the pool, and never gives up on it.

        connecting --LISTEN on all channels--> listening --connection lost--> connecting (backoff)

Who subscribes is told when the connection was away, because what was sent meanwhile is lost. What is
heard is a hint: everybody who listens polls as well.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

import asyncpg

from runnerq.storage.postgres.background import Background
from runnerq.storage.postgres.connections import BROKEN
from runnerq.storage.postgres.notifier import lines_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from asyncpg.connection import Connection
    from asyncpg.pool import PoolConnectionProxy

    from runnerq.storage.postgres.connections import Database

_log = logging.getLogger(__name__)

_SELF_TEST_SECONDS = 2.0
"""A direct connection hears itself within milliseconds, also on a busy machine."""
_BACKOFF_SECONDS = (0.05, 0.2, 0.5, 1.0, 2.0)
_PROBE_SECONDS = 15.0
"""How often an idle connection is asked whether it still lives: a cut cable tells nobody."""


class Subscriber(Protocol):
    def heard(self, lines: Sequence[str]) -> None:
        """A message of another process."""
        ...

    def listening(self) -> None:
        """Messages come from now on; what was sent before this was not heard."""
        ...

    def missed(self) -> None:
        """Messages come again; the connection was away, and what was sent meanwhile is lost."""
        ...


class Listener:
    def __init__(self, database: Database, own_tag: str) -> None:
        self._database = database
        self._own_tag = own_tag
        self._subscribers: dict[str, Subscriber] = {}
        self._changed = asyncio.Event()
        self._listening: dict[str, asyncio.Event] = {}
        self._background = Background("runnerq-listen", self._supervise)

    def subscribe(self, channel: str, subscriber: Subscriber) -> None:
        """Hear a channel from soon on. Idempotent."""
        if channel not in self._subscribers:
            self._subscribers[channel] = subscriber
            self._listening[channel] = asyncio.Event()
            self._changed.set()

    async def ready(self, channel: str, timeout: float) -> bool:
        """Whether messages of a subscribed channel come, waiting for it up to `timeout` seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._listening[channel].wait()
        return self._listening[channel].is_set()

    def start(self) -> None:
        self._background.start()

    async def stop(self) -> None:
        await self._background.stop()

    async def _supervise(self) -> None:
        failures = 0
        while True:
            if not self._subscribers:
                # Nobody listens: an app that only enqueues needs no connection for it.
                await self._changed.wait()
            try:
                connection = await self._database.connect()
            except (*BROKEN, asyncpg.PostgresError) as error:
                _log.log(
                    logging.WARNING if failures == 0 else logging.DEBUG,
                    "cannot listen for notifications, polling instead: %s",
                    error,
                )
            else:
                try:
                    await self._listen(connection, back=failures > 0)
                    failures = 0
                except (*BROKEN, asyncpg.PostgresError) as error:
                    _log.warning("the connection that listens was lost: %s", error)
                finally:
                    for listening in self._listening.values():
                        listening.clear()
                    connection.terminate()
            await asyncio.sleep(_BACKOFF_SECONDS[min(failures, len(_BACKOFF_SECONDS) - 1)])
            failures += 1

    async def _listen(self, connection: Connection[asyncpg.Record], *, back: bool) -> None:
        """Until the connection is lost."""
        lost = asyncio.Event()
        connection.add_termination_listener(lambda _: lost.set())
        known = set(self._subscribers) if back else set[str]()
        while not lost.is_set():
            self._changed.clear()
            for channel, subscriber in list(self._subscribers.items()):
                if not self._listening[channel].is_set():
                    await connection.add_listener(channel, self._heard)
                    self._listening[channel].set()
                    if channel in known:
                        subscriber.missed()
                    else:
                        subscriber.listening()
            await _first(lost, self._changed, timeout=_PROBE_SECONDS)
            if not lost.is_set():
                await connection.execute("SELECT 1")

    def _heard(
        self,
        _connection: Connection[asyncpg.Record] | PoolConnectionProxy[asyncpg.Record],
        _pid: int,
        channel: str,
        payload: object,
    ) -> None:
        tag, lines = lines_of(str(payload))
        if tag != self._own_tag:
            self._subscribers[channel].heard(lines)


async def _first(*events: asyncio.Event, timeout: float) -> None:
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()


async def notifications_arrive(database: Database) -> bool:
    """Whether LISTEN works on this address. It does not through a transaction-mode pooler, which gives
    each transaction another session; the notification comes from a second connection, because a session
    hears itself even there."""
    channel = f"runnerq_test_{uuid.uuid4().hex}"
    arrived = asyncio.Event()
    ear = await database.connect(session=False)
    try:
        mouth = await database.connect(session=False)
        try:

            def heard(*_: object) -> None:
                arrived.set()

            await ear.add_listener(channel, heard)
            await mouth.execute(f"NOTIFY {channel}")
            with suppress(TimeoutError):
                async with asyncio.timeout(_SELF_TEST_SECONDS):
                    await arrived.wait()
        finally:
            mouth.terminate()
    finally:
        ear.terminate()
    return arrived.is_set()
