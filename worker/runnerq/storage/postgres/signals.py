"""Signals: who is told what after a commit. Work arrived, activities ended, transitions happened.

In this process at once; in others by the notifier. Nothing here may fail a call whose commit is done:
every listener polls as well, so a signal that is lost costs time, never work.
"""

from __future__ import annotations

import asyncio
import hashlib
import uuid
from collections import defaultdict
from typing import TYPE_CHECKING
from uuid import UUID

import msgspec

from runnerq.storage.postgres.listener import Listener
from runnerq.storage.postgres.notifier import Notifier
from runnerq.storage.wakeup import Wakeup

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from runnerq.storage.postgres.connections import Database

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(str).decode

_ANNOUNCED_SECONDS = 30.0
"""How long a process is believed to wait for an id; it says so again every third of this."""
_MOST_AWAITED = 100_000


class Channels:
    """Names of the channels of one schema: NOTIFY knows only databases."""

    def __init__(self, schema: str) -> None:
        base = "runnerq_" + hashlib.blake2b(schema.encode(), digest_size=6).hexdigest()
        self.work = base + "_work"
        self.awaited = base + "_awaited"
        self.ended = base + "_ended"
        self.transitions = base + "_transitions"


class Signals:
    """Owns the process's ear (`listener`) and mouth (`notifier`)."""

    def __init__(self, database: Database) -> None:
        tag = uuid.uuid4().hex[:12]
        self.channels = Channels(database.statements.schema)
        self.listener = Listener(database, tag)
        self.notifier = Notifier(database, tag)
        self._database = database
        self.work_arrived = WorkSignals(self)
        self._awaited = Awaited()
        self._on_ended: list[Callable[[Sequence[UUID]], None]] = []

    def start(self) -> None:
        self.notifier.start()
        if not self._database.pooled:
            self.listener.start()

    async def stop(self) -> None:
        self.work_arrived.stop()
        await self.listener.stop()
        await self.notifier.stop()

    def work(self, queue: str) -> None:
        """A queue has new work, due or not."""
        self.work_arrived.notify(queue)
        self.notifier.add(self.channels.work, (_encode(queue).decode(),))

    def on_ended(self, callback: Callable[[Sequence[UUID]], None]) -> None:
        """Have `callback` told of ids that ended, here or elsewhere."""
        self._on_ended.append(callback)

    def expect_awaited(self) -> None:
        """This process ends activities: learn which of them others wait for."""
        self.listener.subscribe(self.channels.awaited, self._awaited)

    def ended(self, ids: Sequence[UUID]) -> None:
        for callback in self._on_ended:
            callback(ids)
        elsewhere = self._awaited.among(ids)
        if elsewhere:
            self.notifier.add(self.channels.ended, (one.hex for one in elsewhere))


class WorkSignals:
    """One wake-up per queue: notified by this process, by others, and when known future work is due."""

    def __init__(self, signals: Signals) -> None:
        self._signals = signals
        self._wakeups: defaultdict[str, Wakeup] = defaultdict(Wakeup)
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def of(self, queue: str) -> Wakeup:
        self._signals.listener.subscribe(self._signals.channels.work, self)
        return self._wakeups[queue]

    def notify(self, queue: str) -> None:
        self._wakeups[queue].notify()

    def due_in(self, queue: str, seconds: float) -> None:
        """Wake when work that waits for its time is due; the earliest such time counts."""
        loop = asyncio.get_running_loop()
        at = loop.time() + seconds
        timer = self._timers.get(queue)
        if timer is not None and not timer.cancelled() and loop.time() < timer.when() <= at:
            return
        if timer is not None:
            timer.cancel()
        self._timers[queue] = loop.call_at(at, self._wakeups[queue].notify)

    def stop(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def heard(self, lines: Sequence[str]) -> None:
        for line in lines:
            wakeup = self._wakeups.get(_decode(line))
            if wakeup is not None:
                wakeup.notify()

    def listening(self) -> None:
        self.missed()

    def missed(self) -> None:
        for wakeup in self._wakeups.values():
            wakeup.notify()


class Awaited:
    """Ids that other processes said they wait for. Bounded: who is forgotten here finds out by polling."""

    def __init__(self) -> None:
        self._until: dict[UUID, float] = {}

    def among(self, ids: Iterable[UUID]) -> list[UUID]:
        if not self._until:
            return []
        return [one for one in ids if self._until.pop(one, None) is not None]

    def heard(self, lines: Sequence[str]) -> None:
        now = asyncio.get_running_loop().time()
        if len(self._until) + len(lines) > _MOST_AWAITED:
            self._until = {one: until for one, until in self._until.items() if until > now}
            if len(self._until) + len(lines) > _MOST_AWAITED:
                self._until.clear()
        for line in lines:
            self._until[UUID(hex=line)] = now + _ANNOUNCED_SECONDS

    def listening(self) -> None:
        """Who waits says so again before long."""

    def missed(self) -> None:
        """Who waits says so again before long."""
