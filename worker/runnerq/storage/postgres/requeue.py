"""Brings dead letters back to life, and tells who asked for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runnerq.storage.records import ActivityEvent, ActivityState, EventKind

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from runnerq.storage.postgres.connections import Database
    from runnerq.storage.postgres.names import Names
    from runnerq.storage.postgres.signals import Signals
    from runnerq.storage.postgres.stream import Stream


class Requeuer:
    def __init__(self, database: Database, names: Names, signals: Signals, stream: Stream) -> None:
        self._database = database
        self._names = names
        self._signals = signals
        self._stream = stream

    async def requeue(self, queue: str, activity_ids: Sequence[UUID], actor: str) -> list[bool]:
        if not activity_ids:
            return []
        queue_id = await self._names.queue(queue)
        rows = await self._database.fetch(
            "requeue", queue_id, list(dict.fromkeys(activity_ids)), actor
        )
        if rows:
            self._signals.work(queue)
            names = await self._names.names_of(queue_id, [row["type_id"] for row in rows])

            async def told() -> list[ActivityEvent]:
                return [
                    ActivityEvent(
                        activity_id=row["id"],
                        kind=EventKind.REQUEUED,
                        at=row["at"],
                        type=names[row["type_id"]],
                        state=ActivityState.PENDING,
                        worker_id=row["worker"],
                        detail={"actor": actor},
                    )
                    for row in rows
                ]

            await self._stream.publish(queue, queue_id, told)
        risen = {row["id"] for row in rows}
        # An id named twice rises once.
        return [
            activity_id in risen and not risen.discard(activity_id) for activity_id in activity_ids
        ]
