"""Claims: hands out due work, best first.

The order of lanes is decided in Python from their heads (`walk.py`); one statement then walks them. Heads
are remembered for a moment, but never for a single claim, whose order is exact.
"""

from __future__ import annotations

import asyncio
import os
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from runnerq.clock import milliseconds
from runnerq.storage.lanes import RETRIED_CAP, LaneHead
from runnerq.storage.postgres.codes import PRIORITY_OF
from runnerq.storage.postgres.values import headers_of
from runnerq.storage.postgres.walk import Walk, plan_walk, unshared
from runnerq.storage.records import ActivityEvent, ActivityState, Claim, EventKind

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from uuid import UUID

    from asyncpg import Record

    from runnerq.storage.postgres.connections import Database
    from runnerq.storage.postgres.names import Names
    from runnerq.storage.postgres.signals import Signals
    from runnerq.storage.postgres.stream import Stream
    from runnerq.storage.records import ClaimRequest

_REMEMBERED_SECONDS = 0.1
"""How long batches believe what was read about lanes: a lane that is missed waits that long at most."""
_REMEMBERED_TIMES = 10
"""Or this many times what reading took: it walks what is dead and not vacuumed, which may be much."""
_REMEMBERED_MOST_SECONDS = 1.0
_UNANSWERED_SECONDS = 30.0
"""How long a claim without an answer may still take effect: twice the server's limit."""
_BY_DUE = itemgetter("due", "id")


class _Lane(NamedTuple):
    type: str
    priority: int
    retried: int


class _Head(NamedTuple):
    """Nothing that may be claimed lies before it, as far as we know."""

    due: datetime
    id: UUID


class _Heads(NamedTuple):
    due: dict[_Lane, _Head]
    now_ms: int
    good_until: float
    version: int
    """Of the queue's work signal: new work makes the heads old."""


class _Attempt(NamedTuple):
    """One run of the claim statement, whose tokens come from `secret`."""

    queue_id: int
    engine_id: UUID
    secret: bytes
    until: float


class _Request(NamedTuple):
    """A claim request with the numbers of its queue and types."""

    asked: ClaimRequest
    queue_id: int
    type_ids: Mapping[str, int]
    names: Mapping[int, str]
    attempts: list[_Attempt]


class Claims:
    def __init__(self, database: Database, names: Names, signals: Signals, stream: Stream) -> None:
        self._database = database
        self._names = names
        self._signals = signals
        self._stream = stream
        self._heads: dict[tuple[int, tuple[str, ...]], _Heads] = {}
        self._unanswered: list[_Attempt] = []
        self._release_again_at = 0.0

    async def claim(self, asked: ClaimRequest) -> list[Claim]:
        if asked.limit <= 0 or not asked.types:
            return []
        queue_id = await self._names.queue(asked.queue)
        type_ids = await self._names.types(queue_id, asked.types)
        if self._unanswered and asyncio.get_running_loop().time() >= self._release_again_at:
            await self.release_unanswered(asked.queue, asked.engine_id)
        names = {type_id: name for name, type_id in type_ids.items()}
        request = _Request(asked, queue_id, type_ids, names, [])
        try:
            rows = await self._take(request)
            if rows:

                async def told() -> list[ActivityEvent]:
                    return [_claimed(row, names[row["type_id"]]) for row in rows]

                await self._stream.publish(asked.queue, queue_id, told)
                return [_claim(row, asked.queue, names[row["type_id"]]) for row in rows]
        except BaseException:
            # Cancelled or cut off: what these attempts took, nobody will ever hear of.
            self._unanswered += request.attempts
            self._release_again_at = 0.0
            raise
        return []

    async def release_unanswered(self, queue: str, engine_id: UUID) -> None:
        """Give back what claims of this engine took whose answers were lost."""
        now = asyncio.get_running_loop().time()
        mine = [one for one in self._unanswered if one.engine_id == engine_id]
        if mine:
            # Once more each second: the server may still be at it.
            self._release_again_at = now + 1.0
            released = await self._database.fetch(
                "release_unanswered",
                await self._names.queue(queue),
                engine_id,
                [one.secret for one in mine],
            )
            if released:
                self._signals.work(queue)
        self._unanswered = [one for one in self._unanswered if one.until > now]

    async def _take(self, request: _Request) -> list[Record]:
        rows: list[Record] = []
        limit = request.asked.limit

        async def walk(way: Walk, heads: _Heads) -> None:
            rows.extend(await self._walk(request, heads, way, limit - len(rows)))

        remembered = self._remembered(request)
        if remembered is not None:
            await walk(_plan(remembered, request, limit), remembered)
            if len(rows) == limit:
                return rows
            # A short answer may only mean that what we remember is out of date.
        heads = await self._read_heads(request)
        if heads.due:
            way = _plan(heads, request, limit - len(rows))
            await walk(way, heads)
            if way.shared and len(rows) < limit:
                await walk(unshared(way, limit - len(rows)), heads)
        if len(rows) < limit:
            # These lanes are walked to their end: nothing is worth remembering of them.
            self._heads.pop((request.queue_id, request.asked.types), None)
        return rows

    def _remembered(self, request: _Request) -> _Heads | None:
        heads = self._heads.get((request.queue_id, request.asked.types))
        if heads is None or request.asked.limit == 1 or not heads.due:
            return None
        current = self._signals.work_arrived.of(request.asked.queue).version()
        fresh = asyncio.get_running_loop().time() < heads.good_until
        return heads if fresh and heads.version == current else None

    async def _read_heads(self, request: _Request) -> _Heads:
        queue, work = request.asked.queue, self._signals.work_arrived
        version = work.of(queue).version()
        loop = asyncio.get_running_loop()
        asked_at = loop.time()
        rows = await self._database.fetch("lane_heads", list(request.type_ids.values()))
        read_at = loop.time()
        waits = [row["due"] - row["now"] for row in rows if row["due"] > row["now"]]
        if waits:
            work.due_in(queue, min(waits).total_seconds())
        heads = _Heads(
            due={
                _Lane(request.names[row["type_id"]], row["priority"], row["retried"]): _Head(
                    row["due"], row["id"]
                )
                for row in rows
                if row["due"] <= row["now"]
            },
            now_ms=milliseconds(rows[0]["now"]) if rows else 0,
            good_until=read_at
            + min(
                max(_REMEMBERED_SECONDS, _REMEMBERED_TIMES * (read_at - asked_at)),
                _REMEMBERED_MOST_SECONDS,
            ),
            version=version,
        )
        self._heads[request.queue_id, request.asked.types] = heads
        return heads

    async def _walk(self, request: _Request, heads: _Heads, way: Walk, limit: int) -> list[Record]:
        attempt = _Attempt(
            request.queue_id,
            request.asked.engine_id,
            os.urandom(16),
            asyncio.get_running_loop().time() + _UNANSWERED_SECONDS,
        )
        request.attempts.append(attempt)
        lanes = [_Lane(lane.type, lane.priority, lane.retried) for lane in way.lanes]
        rows = await self._database.fetch(
            "claim",
            attempt.engine_id,
            attempt.queue_id,
            [request.type_ids[lane.type] for lane in lanes],
            [lane.priority for lane in lanes],
            [lane.retried for lane in lanes],
            way.groups,
            way.quotas,
            limit,
            attempt.secret,
            request.asked.lease_floor_ms,
            request.asked.lease_margin_ms,
            [heads.due[lane].due for lane in lanes],
            [heads.due[lane].id for lane in lanes],
            repeatable=False,
        )
        # RETURNING has the order of the update, not that of the walk.
        rows.sort(key=_BY_DUE)
        taken = {lanes[0]: rows} if len(lanes) == 1 else _by_lane(rows, request.names)
        for lane, of_lane in taken.items():
            if of_lane:
                # No longer its head: the next batch sees which lane is behind.
                heads.due[lane] = _Head(of_lane[-1]["due"], of_lane[-1]["id"])
        return [row for lane in lanes for row in taken.get(lane, ())]


def _plan(heads: _Heads, request: _Request, limit: int) -> Walk:
    return plan_walk(
        [
            LaneHead(
                type=lane.type,
                priority=lane.priority,
                retried=lane.retried,
                due_ms=milliseconds(head.due),
                id=head.id,
            )
            for lane, head in heads.due.items()
        ],
        now_ms=heads.now_ms,
        ageing_ms=request.asked.ageing_ms,
        limit=limit,
    )


def _by_lane(rows: list[Record], names: Mapping[int, str]) -> dict[_Lane, list[Record]]:
    """Claimed rows by the lane in which they waited: their attempt is counted already."""
    lanes: dict[_Lane, list[Record]] = {}
    for row in rows:
        retried = min(row["attempt"] - 1, RETRIED_CAP)
        lanes.setdefault(_Lane(names[row["type_id"]], row["priority"], retried), []).append(row)
    return lanes


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
