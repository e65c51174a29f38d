"""Background: a task with an owner, that is started, restarted when it fails, and stopped."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

_log = logging.getLogger(__name__)

_RESTART_SECONDS = 1.0


class Background:
    def __init__(self, name: str, work: Callable[[], Coroutine[None, None, None]]) -> None:
        """`work` runs until it is cancelled; if it returns or fails, it is started again."""
        self._name = name
        self._work = work
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Idempotent, so that a service may start with its first customer."""
        if self._task is None:
            self._task = asyncio.create_task(self._supervise(), name=self._name)

    async def stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait((task,))

    async def _supervise(self) -> None:
        while True:
            try:
                await self._work()
            except Exception:  # noqa: BLE001 - whatever it was, the service must go on
                _log.exception("%s failed; starting it again", self._name)
            await asyncio.sleep(_RESTART_SECONDS)
