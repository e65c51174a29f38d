"""QueueInspector: reading a queue, for consoles, tools and tests. Never changes anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runnerq.storage.records import ActivityState

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from contextlib import AbstractAsyncContextManager
    from uuid import UUID

    from runnerq.storage.ports import Storage
    from runnerq.storage.records import (
        ActivityEvent,
        ActivityResult,
        ActivitySnapshot,
        Page,
        QueueStats,
        StreamGap,
    )


class QueueInspector:
    """Read-only view of one queue. Lists are newest first, by keyset cursor."""

    def __init__(self, backend: Storage, queue: str | None = None) -> None:
        self.backend = backend
        self.queue = queue if queue is not None else backend.default_queue

    async def stats(self) -> QueueStats:
        return await self.backend.stats(self.queue)

    async def list(
        self,
        state: ActivityState,
        *,
        limit: int = 50,
        cursor: str | None = None,
        activity_type: str | None = None,
    ) -> Page:
        return await self.backend.list_activities(
            self.queue, state, limit=limit, cursor=cursor, activity_type=activity_type
        )

    async def list_pending(self, *, limit: int = 50, cursor: str | None = None) -> Page:
        return await self.list(ActivityState.PENDING, limit=limit, cursor=cursor)

    async def list_processing(self, *, limit: int = 50, cursor: str | None = None) -> Page:
        return await self.list(ActivityState.PROCESSING, limit=limit, cursor=cursor)

    async def list_scheduled(self, *, limit: int = 50, cursor: str | None = None) -> Page:
        return await self.list(ActivityState.SCHEDULED, limit=limit, cursor=cursor)

    async def list_completed(self, *, limit: int = 50, cursor: str | None = None) -> Page:
        return await self.list(ActivityState.COMPLETED, limit=limit, cursor=cursor)

    async def list_dead_letter(self, *, limit: int = 50, cursor: str | None = None) -> Page:
        return await self.list(ActivityState.DEAD_LETTER, limit=limit, cursor=cursor)

    async def get_activity(self, activity_id: UUID) -> ActivitySnapshot:
        """Raises ActivityNotFound."""
        return await self.backend.get_activity(self.queue, activity_id)

    async def get_activity_events(self, activity_id: UUID) -> list[ActivityEvent]:
        """The timeline, oldest first. Raises ActivityNotFound."""
        return await self.backend.get_activity_events(self.queue, activity_id)

    async def get_result(self, activity_id: UUID) -> ActivityResult | None:
        """None while it has not ended. Raises ActivityNotFound."""
        return await self.backend.get_result(self.queue, activity_id)

    def event_stream(
        self,
    ) -> AbstractAsyncContextManager[AsyncIterator[ActivityEvent | StreamGap]]:
        return self.backend.event_stream(self.queue)
