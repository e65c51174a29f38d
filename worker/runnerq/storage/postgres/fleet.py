"""Fleet: cordons, scaling decisions and pod states; what operator, workers and console tell each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from runnerq.storage.postgres.connections import Purpose
from runnerq.storage.records import DecisionRecord, PodRecord

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from runnerq.storage.postgres.connections import Database
    from runnerq.storage.postgres.names import Names

_detail = msgspec.json.Decoder(dict[str, Any])


class Fleet:
    def __init__(self, database: Database, names: Names) -> None:
        self._database = database
        self._names = names

    async def cordon(self, queue: str, engine_ids: Sequence[UUID], *, cordoned: bool) -> None:
        await self._database.fetch(
            "cordon", await self._names.queue(queue), list(engine_ids), cordoned
        )

    async def record_decision(self, decision: DecisionRecord) -> None:
        await self._database.fetch(
            "record_decision",
            await self._names.queue(decision.queue),
            decision.pool,
            decision.at,
            decision.from_replicas,
            decision.to_replicas,
            decision.reason,
            decision.summary,
            msgspec.json.encode(decision.detail),
        )

    async def decisions(self, queue: str, pool: str | None, limit: int) -> list[DecisionRecord]:
        queue_id = await self._names.known_queue(queue)
        if queue_id is None:
            return []
        rows = await self._database.fetch(
            "list_decisions", queue_id, pool, max(0, limit), purpose=Purpose.READ
        )
        return [
            DecisionRecord(
                queue=queue,
                pool=row["pool"],
                at=row["at"],
                from_replicas=row["from_replicas"],
                to_replicas=row["to_replicas"],
                reason=row["reason"],
                summary=row["summary"],
                detail=_detail.decode(row["detail"]),
            )
            for row in rows
        ]

    async def record_pods(self, queue: str, pods: Sequence[PodRecord]) -> None:
        # The last word about a pod counts; one statement cannot write a row twice.
        latest = {(pod.pool, pod.name): pod for pod in pods}.values()
        await self._database.fetch(
            "record_pods",
            await self._names.queue(queue),
            [pod.pool for pod in latest],
            [pod.name for pod in latest],
            [pod.phase for pod in latest],
            [pod.detail for pod in latest],
            [pod.since for pod in latest],
        )

    async def pods(self, queue: str) -> list[PodRecord]:
        queue_id = await self._names.known_queue(queue)
        if queue_id is None:
            return []
        return [
            PodRecord(
                queue=queue,
                pool=row["pool"],
                name=row["name"],
                phase=row["phase"],
                detail=row["detail"],
                since=row["since"],
            )
            for row in await self._database.fetch("list_pods", queue_id, purpose=Purpose.READ)
        ]
