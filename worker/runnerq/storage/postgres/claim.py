"""Claims: hands out due work, best first.

The order of lanes is decided in Python from their heads (`walk.py`); one statement then walks them. Heads
are remembered for a moment, but never for a single claim, whose order is exact.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, NamedTuple

from runnerq.clock import milliseconds
from runnerq.storage.lanes import RETRIED_CAP, LaneHead
from runnerq.storage.postgres.codes import PRIORITY_OF
from runnerq.storage.postgres.values import headers_of
from runnerq.storage.postgres.walk import Walk, plan_walk, unshared
from runnerq.storage.records import ActivityEvent, ActivityState, Claim, EventKind

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from asyncpg import Record

    from runnerq.storage.postgres.connections import Database
    from runnerq.storage.postgres.names import Names
    from runnerq.storage.postgres.signals import Signals
    from runnerq.storage.postgres.stream import Stream
    from runnerq.storage.records import ClaimRequest

_HEADS_SECONDS = 0.1
"""How long batches believe what was read about lanes: a lane that is missed waits that long at most."""
_UNANSWERED_SECONDS = 30.0
"""How long a claim without an answer may still take effect: twice the server's limit."""


class _Heads(NamedTuple):
    due: list[LaneHead]
    now_ms: int
    read_at: float
    version: int
    """Of the queue's work signal: new work makes the heads old."""


class _Attempt(NamedTuple):
    """One run of the claim statement, whose tokens come from `secret`."""

    queue_id: int
    engine_id: UUID
    secret: bytes
    until: float


class _Lane(NamedTuple):
    type_id: int
    priority: int
    retried: int


class Claims:
    def __init__(self, database: Database, names: Names, signals: Signals, stream: Stream) -> None:
        self._database = database
        self._names = names
        self._signals = signals
        self._stream = stream
        self._heads: dict[tuple[int, tuple[str, ...]], _Heads] = {}
        self._unanswered: list[_Attempt] = []

    async def claim(self, request: ClaimRequest) -> list[Claim]:
        if request.limit <= 0 or not request.types:
            return []
        queue_id = await self._names.queue(request.queue)
        type_ids = await self._names.types(queue_id, request.types)
        if self._unanswered:
            await self.release_unanswered(request.queue, request.engine_id)
        attempts: list[_Attempt] = []
        try:
            rows = await self._fill(request, queue_id, type_ids, attempts)
            if rows:
                names = {type_id: name for name, type_id in type_ids.items()}

                async def told() -> list[ActivityEvent]:
                    return [_claimed(row, names[row["type_id"]]) for row in rows]

                await self._stream.publish(request.queue, queue_id, told)
                return [_claim(row, request.queue, names[row["type_id"]]) for row in rows]
        except BaseException:
            # Cancelled or cut off: what these attempts took, nobody will ever hear of.
            self._unanswered += attempts
            raise
        return []

    async def release_unanswered(self, queue: str, engine_id: UUID) -> None:
        """Give back what claims of this engine took whose answers were lost."""
        now = asyncio.get_running_loop().time()
        for attempt in list(self._unanswered):
            if attempt.engine_id == engine_id:
                released = await self._database.fetch(
                    "release_unanswered", attempt.queue_id, engine_id, attempt.secret
                )
                if released:
                    self._signals.work(queue, attempt.queue_id)
            if attempt.until <= now:
                self._unanswered.remove(attempt)

    async def _fill(
        self,
        request: ClaimRequest,
        queue_id: int,
        type_ids: Mapping[str, int],
        attempts: list[_Attempt],
    ) -> list[Record]:
        rows: list[Record] = []

        async def walk(way: Walk) -> None:
            attempt = _Attempt(
                queue_id,
                request.engine_id,
                os.urandom(16),
                asyncio.get_running_loop().time() + _UNANSWERED_SECONDS,
            )
            attempts.append(attempt)
            limit = request.limit - len(rows)
            taken = await self._walk(request, attempt, type_ids, way, limit=limit)
            self._pass(request, queue_id, type_ids, taken)
            rows.extend(taken)

        remembered = self._remembered(request, queue_id)
        if remembered is not None:
            await walk(self._plan(remembered, request, request.limit))
            if len(rows) == request.limit:
                return rows
            # A short answer may only mean that what we remember is out of date.
        heads = await self._read_heads(request, queue_id, type_ids)
        if heads.due:
            way = self._plan(heads, request, request.limit - len(rows))
            await walk(way)
            if way.shared and len(rows) < request.limit:
                await walk(unshared(way, request.limit - len(rows)))
        return rows

    def _plan(self, heads: _Heads, request: ClaimRequest, limit: int) -> Walk:
        return plan_walk(heads.due, now_ms=heads.now_ms, ageing_ms=request.ageing_ms, limit=limit)

    def _remembered(self, request: ClaimRequest, queue_id: int) -> _Heads | None:
        heads = self._heads.get((queue_id, request.types))
        if heads is None or request.limit == 1 or not heads.due:
            return None
        age = asyncio.get_running_loop().time() - heads.read_at
        current = self._signals.work_arrived.of(request.queue).version()
        return heads if age < _HEADS_SECONDS and heads.version == current else None

    def _pass(
        self,
        request: ClaimRequest,
        queue_id: int,
        type_ids: Mapping[str, int],
        taken: list[Record],
    ) -> None:
        """What was taken from a lane is no longer its head: remember the last of it as a lower bound, so
        that the next batch sees which lane is behind."""
        heads = self._heads.get((queue_id, request.types))
        if heads is not None and taken:
            names = {type_id: name for name, type_id in type_ids.items()}
            last = {_lane_of(row): row for row in taken}
            for place, head in enumerate(heads.due):
                row = last.get(_Lane(type_ids[head.type], head.priority, head.retried))
                if row is not None:
                    heads.due[place] = _head(row, names, head.retried)

    async def _read_heads(
        self, request: ClaimRequest, queue_id: int, type_ids: Mapping[str, int]
    ) -> _Heads:
        signal = self._signals.work_arrived.of(request.queue)
        self._signals.work_arrived.know(request.queue, queue_id)
        version = signal.version()
        rows = await self._database.fetch("lane_heads", list(type_ids.values()))
        names = {type_id: name for name, type_id in type_ids.items()}
        due = [_head(row, names, row["retried"]) for row in rows if row["due"] <= row["now"]]
        waits = [row["due"] - row["now"] for row in rows if row["due"] > row["now"]]
        if waits:
            self._signals.work_arrived.due_in(request.queue, min(waits).total_seconds())
        heads = _Heads(
            due=due,
            now_ms=milliseconds(rows[0]["now"]) if rows else 0,
            read_at=asyncio.get_running_loop().time(),
            version=version,
        )
        self._heads[queue_id, request.types] = heads
        return heads

    async def _walk(
        self,
        request: ClaimRequest,
        attempt: _Attempt,
        type_ids: Mapping[str, int],
        way: Walk,
        *,
        limit: int,
    ) -> list[Record]:
        rows = await self._database.fetch(
            "claim",
            request.engine_id,
            attempt.queue_id,
            [type_ids[lane.type] for lane in way.lanes],
            [lane.priority for lane in way.lanes],
            [lane.retried for lane in way.lanes],
            way.groups,
            way.quotas,
            limit,
            attempt.secret,
            request.lease_floor_ms,
            request.lease_margin_ms,
            repeatable=False,
        )
        rank = {
            _Lane(type_ids[lane.type], lane.priority, lane.retried): place
            for place, lane in enumerate(way.lanes)
        }
        # RETURNING has the order of the update, not that of the walk.
        rows.sort(key=lambda row: (rank[_lane_of(row)], row["due"], row["id"]))
        return rows


def _lane_of(row: Record) -> _Lane:
    """Where a claimed row waited: its attempt is counted already."""
    return _Lane(row["type_id"], row["priority"], min(row["attempt"] - 1, RETRIED_CAP))


def _head(row: Record, names: Mapping[int, str], retried: int) -> LaneHead:
    return LaneHead(
        type=names[row["type_id"]],
        priority=row["priority"],
        retried=retried,
        due_ms=milliseconds(row["due"]),
        id=row["id"],
    )


def _claim(row: Record, queue: str, type_name: str) -> Claim:
    return Claim(
        id=row["id"],
        token=row["token"],
        queue=queue,
        type=type_name,
        payload=row["payload"],
        codec=row["codec"],
        priority=PRIORITY_OF[row["priority"]],
        attempt=row["attempt"],
        max_attempts=row["max_attempts"],
        timeout_ms=row["timeout_ms"],
        created_at=row["created_at"],
        ready_at=row["due"],
        claimed_at=row["claimed_at"],
        deadline=row["deadline"],
        headers=headers_of(row["headers"]),
        root_id=row["root_id"],
        parent_id=row["parent_id"],
        depth=row["depth"],
    )


def _claimed(row: Record, type_name: str) -> ActivityEvent:
    return ActivityEvent(
        activity_id=row["id"],
        kind=EventKind.CLAIMED,
        at=row["claimed_at"],
        type=type_name,
        state=ActivityState.PROCESSING,
        attempt=row["attempt"],
        worker_id=row["worker"],
    )
