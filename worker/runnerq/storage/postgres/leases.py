"""Leases: moves deadlines, tells which claims are current, and takes back work whose owner is gone."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from runnerq.errors import BackendUnavailable
from runnerq.storage.postgres.codes import STATE_OF
from runnerq.storage.postgres.values import error_of
from runnerq.storage.records import ActivityEvent, ActivityState, EventKind, Reaped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from asyncpg import Record

    from runnerq.storage.postgres.connections import Database
    from runnerq.storage.postgres.names import Names
    from runnerq.storage.postgres.partitions import Partitions
    from runnerq.storage.postgres.signals import Signals
    from runnerq.storage.postgres.stream import Stream
    from runnerq.storage.records import ClaimRef

_UPKEEP_SECONDS = 60.0


class Leases:
    def __init__(
        self,
        database: Database,
        names: Names,
        partitions: Partitions,
        signals: Signals,
        stream: Stream,
    ) -> None:
        self._database = database
        self._names = names
        self._partitions = partitions
        self._signals = signals
        self._stream = stream
        self._upkeep_at = float("-inf")

    async def extend(self, queue: str, claims: Sequence[ClaimRef], by_ms: int) -> list[bool]:
        # Sorted like acknowledgements, so that both lock rows in one order.
        ordered = sorted(range(len(claims)), key=lambda place: claims[place].id.int)
        return await self._held(
            "extend_lease", queue, [claims[place] for place in ordered], ordered, by_ms
        )

    async def held(self, queue: str, claims: Sequence[ClaimRef]) -> list[bool]:
        return await self._held("still_held", queue, claims, range(len(claims)))

    async def _held(
        self,
        statement: str,
        queue: str,
        claims: Sequence[ClaimRef],
        places: Sequence[int],
        *more: object,
    ) -> list[bool]:
        answers = [False] * len(claims)
        if claims:
            ids, tokens = [ref.id for ref in claims], [ref.token for ref in claims]
            queue_id = await self._names.queue(queue)
            for row in await self._database.fetch(statement, ids, tokens, queue_id, *more):
                answers[places[int(row["place"]) - 1]] = True
        return answers

    async def reap(self, queue: str, limit: int, liveness_ms: int) -> list[Reaped]:
        queue_id = await self._names.queue(queue)
        await self._upkeep()
        if limit <= 0:
            return []
        rows = await self._database.fetch("reap", queue_id, limit, liveness_ms)
        if not rows:
            return []
        names = await self._names.names_of(queue_id, [row["type_id"] for row in rows])
        reaped = [_reaped(row, names[row["type_id"]]) for row in rows]
        ended = [one.id for one in reaped if one.state.terminal]
        if ended:
            self._signals.ended(ended)
        if len(reaped) > len(ended):
            self._signals.work(queue)

        async def told() -> list[ActivityEvent]:
            return [
                event for row, one in zip(rows, reaped, strict=True) for event in _told(row, one)
            ]

        await self._stream.publish(queue, queue_id, told)
        return reaped

    async def _upkeep(self) -> None:
        """What must be done now and then by somebody; the reaper runs in every engine."""
        now = asyncio.get_running_loop().time()
        if now - self._upkeep_at >= _UPKEEP_SECONDS:
            self._upkeep_at = now
            try:
                await self._partitions.keep_ahead()
                await self._database.fetch("prune")
            except BackendUnavailable:
                self._upkeep_at = float("-inf")
                raise


def _reaped(row: Record, type_name: str) -> Reaped:
    return Reaped(
        id=row["id"],
        type=type_name,
        attempt=row["attempt"],
        state=STATE_OF[row["state"]],
        payload=row["payload"],
        codec=row["codec"],
        error=error_of(row["error"]),
    )


def _told(row: Record, reaped: Reaped) -> list[ActivityEvent]:
    lost = ActivityEvent(
        activity_id=reaped.id,
        kind=EventKind.CLAIM_LOST,
        at=row["at"],
        type=reaped.type,
        state=reaped.state,
        attempt=reaped.attempt,
        worker_id=row["worker"],
        error=reaped.error,
    )
    if reaped.state is not ActivityState.DEAD_LETTER:
        return [lost]
    return [
        lost,
        ActivityEvent(
            activity_id=reaped.id,
            kind=EventKind.DEAD_LETTERED,
            at=row["at"],
            type=reaped.type,
            state=reaped.state,
            attempt=reaped.attempt,
            worker_id=row["worker"],
            error=reaped.error,
        ),
    ]
