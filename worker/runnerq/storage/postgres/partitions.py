"""Keeps history's daily partitions ahead of the ids that will need them.

An id (UUIDv7) names the day it will be stored under when it ends, so the partition is made sure of when
it is enqueued: an acknowledgement must never fail for want of one. Ids from another day than the
server's neighbourhood are refused, because partitions for arbitrary days would pile up.
"""

from __future__ import annotations

import logging
import time
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

from runnerq.clock import instant, milliseconds
from runnerq.errors import BackendUnavailable, InvalidActivity, StorageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from runnerq.storage.postgres.connections import Database

_log = logging.getLogger(__name__)

DAYS_AHEAD = 7
_DAY_MS = 86_400_000
_MAX_SKEW_MS = _DAY_MS
_LOOK_AGAIN_SECONDS = 60.0
_EPOCH = date(1970, 1, 1)


class Partitions:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._days: frozenset[int] = frozenset()
        """Days since 1970 that have a partition."""
        self._server_ms = 0
        self._looked_at = float("-inf")

    async def ensure(self, ids: Sequence[UUID]) -> None:
        """Make sure that history can take these ids. Raises InvalidActivity naming the clock skew."""
        times_ms = [activity_id.int >> 80 for activity_id in ids]
        earliest, latest = min(times_ms), max(times_ms)
        if time.monotonic() - self._looked_at > _LOOK_AGAIN_SECONDS:
            await self.keep_ahead()
        if not self._near(earliest) or not self._near(latest):
            await (
                self._look()
            )  # before blaming the caller: our idea of the server's time may be off
            for activity_id, time_ms in zip(ids, times_ms, strict=True):
                if not self._near(time_ms):
                    raise self._refusal(activity_id, time_ms)
        missing = set(range(earliest // _DAY_MS, latest // _DAY_MS + 1)) - self._days
        if missing:
            await self._add(missing)

    async def keep_ahead(self) -> None:
        """Make the partitions of the coming days. A failure is logged: `ensure` makes what is needed."""
        await self._look()
        today = self.now_ms() // _DAY_MS
        missing = set(range(today, today + DAYS_AHEAD + 1)) - self._days
        if missing:
            try:
                await self._add(missing)
            except BackendUnavailable:
                raise
            except StorageError:
                _log.exception("could not make partitions of runnerq_history ahead")

    def now_ms(self) -> int:
        """The server's time, as far as we know it."""
        return self._server_ms + int((time.monotonic() - self._looked_at) * 1000)

    def _near(self, time_ms: int) -> bool:
        return abs(time_ms - self.now_ms()) <= _MAX_SKEW_MS

    def _refusal(self, activity_id: UUID, time_ms: int) -> InvalidActivity:
        if activity_id.version != 7:
            return InvalidActivity(
                "id",
                f"{activity_id} is not a UUIDv7; leave the id to RunnerQ, or make one of version 7",
            )
        apart = timedelta(milliseconds=abs(time_ms - self.now_ms()))
        return InvalidActivity(
            "id",
            f"{activity_id} was made {apart} away from the database's clock "
            f"({instant(self.now_ms()).isoformat(timespec='seconds')}): clock skew; at most one day is "
            "allowed. Set the clock of the machine that enqueues",
        )

    async def _look(self) -> None:
        rows = await self._database.fetch("read_clock")
        self._looked_at = time.monotonic()
        self._server_ms = milliseconds(rows[0]["now"])
        self._days = frozenset(
            (datetime.strptime(day, "%Y%m%d").replace(tzinfo=UTC).date() - _EPOCH).days
            for day in rows[0]["days"]
        )

    async def _add(self, days: set[int]) -> None:
        for day in sorted(days):
            await self._database.fetch("add_partition", _EPOCH + timedelta(days=day))
        self._days |= days
