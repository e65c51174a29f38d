"""Results: futures of this process, resolved by a push where one comes and by polling where none does.

Who waits says so to other processes, and they answer with the id when it has ended. One statement asks
for all ids that are due, so ten thousand futures cost a few statements a second and not ten thousand.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from runnerq.errors import ActivityNotFound, BackendUnavailable, StorageError
from runnerq.storage.postgres import values
from runnerq.storage.postgres.background import Background
from runnerq.storage.postgres.connections import Purpose
from runnerq.storage.postgres.sql import days_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from asyncpg import Record

    from runnerq.storage.postgres.connections import Database
    from runnerq.storage.postgres.names import Names
    from runnerq.storage.postgres.signals import Signals
    from runnerq.storage.records import ActivityResult

_log = logging.getLogger(__name__)

_FIRST_POLL = 0.02
_SLOWEST_POLL = 2.0
_ANNOUNCE_EVERY = 10.0
_AT_ONCE = 2_000
"""Ids asked for in one statement."""


@dataclass(slots=True, eq=False)
class _Waiter:
    queue: str
    activity_id: UUID
    done: asyncio.Future[ActivityResult]
    poll_at: float
    pause: float = _FIRST_POLL
    announced_at: float = float("-inf")


class Results:
    def __init__(self, database: Database, names: Names, signals: Signals) -> None:
        self._database = database
        self._names = names
        self._signals = signals
        self._waiters: dict[UUID, set[_Waiter]] = {}
        self._changed = asyncio.Event()
        self._background = Background("runnerq-results", self._poll)
        signals.on_ended(self._ended)

    async def stop(self) -> None:
        await self._background.stop()

    async def get(self, queue: str, activity_id: UUID) -> ActivityResult | None:
        queue_id = await self._names.known_queue(queue)
        if queue_id is None:
            raise ActivityNotFound(queue, activity_id)
        statement = self._database.statements.within("get_result", *days_of((activity_id,)))
        rows = await self._database.fetch(statement, queue_id, activity_id, purpose=Purpose.READ)
        if not rows:
            raise ActivityNotFound(queue, activity_id)
        return None if rows[0]["state"] is None else values.result(rows[0])

    async def wait(self, queue: str, activity_id: UUID, timeout: float) -> ActivityResult | None:
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout
        try:
            known = await self.get(queue, activity_id)
        except BackendUnavailable as error:
            # Who has time to wait waits for the server as well; the last look tells the truth.
            if timeout <= 0:
                raise
            _log.debug("waiting for %s: %s", activity_id, error)
        else:
            if known is not None or timeout <= 0:
                return known
        waiter = _Waiter(
            queue=queue,
            activity_id=activity_id,
            done=loop.create_future(),
            poll_at=loop.time() + _FIRST_POLL,
        )
        self._waiters.setdefault(activity_id, set()).add(waiter)
        self._signals.listener.subscribe(self._signals.channels.ended, self)
        self._background.start()
        self._changed.set()
        try:
            await asyncio.wait((waiter.done,), timeout=max(0.0, until - loop.time()))
        finally:
            self._forget(waiter)
        return waiter.done.result() if waiter.done.done() else await self.get(queue, activity_id)

    def heard(self, lines: Sequence[str]) -> None:
        self._ended([UUID(hex=line) for line in lines])

    def listening(self) -> None:
        self.missed()

    def missed(self) -> None:
        self._ended(list(self._waiters))

    def _forget(self, waiter: _Waiter) -> None:
        siblings = self._waiters.get(waiter.activity_id)
        if siblings is not None:
            siblings.discard(waiter)
            if not siblings:
                del self._waiters[waiter.activity_id]

    def _ended(self, ids: Sequence[UUID]) -> None:
        if not self._waiters:
            return
        found = False
        for activity_id in ids:
            for waiter in self._waiters.get(activity_id, ()):
                waiter.poll_at, found = 0.0, True
        if found:
            self._changed.set()

    async def _poll(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self._changed.clear()
            now = loop.time()
            waiters = [waiter for group in self._waiters.values() for waiter in group]
            self._announce(waiters, now)
            due = [waiter for waiter in waiters if waiter.poll_at <= now][:_AT_ONCE]
            if due:
                await self._ask(due)
                continue
            earliest = min((waiter.poll_at for waiter in waiters), default=None)
            try:
                async with asyncio.timeout(None if earliest is None else max(0.0, earliest - now)):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def _announce(self, waiters: list[_Waiter], now: float) -> None:
        stale = [waiter for waiter in waiters if now - waiter.announced_at >= _ANNOUNCE_EVERY]
        for waiter in stale:
            waiter.announced_at = now
        if stale and not self._database.pooled:
            self._signals.notifier.add(
                self._signals.channels.awaited, (waiter.activity_id.hex for waiter in stale)
            )

    async def _ask(self, waiters: list[_Waiter]) -> None:
        now = asyncio.get_running_loop().time()
        for waiter in waiters:
            # Spread, so that futures made together are not asked for together for ever.
            waiter.poll_at = now + waiter.pause * random.uniform(0.8, 1.2)  # noqa: S311 - no secret
            waiter.pause = min(waiter.pause * 2, _SLOWEST_POLL)
        days: defaultdict[int, list[UUID]] = defaultdict(list)
        for activity_id in {waiter.activity_id for waiter in waiters}:
            days[days_of((activity_id,))[0]].append(activity_id)
        rows: list[Record] = []
        try:
            for day, ids in days.items():
                statement = self._database.statements.within("get_results", day, day)
                rows += await self._database.fetch(statement, ids, purpose=Purpose.READ)
        except StorageError as error:
            _log.debug("could not look for results, asking again: %s", error)
        for row in rows:
            answer = values.result(row)
            for waiter in self._waiters.get(row["id"], ()):
                if waiter.queue == row["queue"] and not waiter.done.done():
                    waiter.done.set_result(answer)
