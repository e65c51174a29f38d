"""Endings: calls `on_failure` and `on_dead_letter` once an activity has ended so.

After the end is stored, at most once: a callback that raises is logged and changes nothing. Callbacks
run beside the attempts, and `stop` waits for them within its grace.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from typing import TYPE_CHECKING, Any

from runnerq.context import ActivityContext
from runnerq.payload import PayloadMismatch, decode_untyped
from runnerq.storage.records import ActivityState, Claim

if TYPE_CHECKING:
    from runnerq.activity import ActivityDefinition, EndCallback
    from runnerq.context import LeaseKeeper
    from runnerq.engine.threads import ThreadSlots
    from runnerq.executor import ActivityExecutor
    from runnerq.registry import ActivityHandlerRegistry
    from runnerq.storage.records import ErrorInfo

log = logging.getLogger(__name__)


class Endings:
    def __init__(
        self,
        *,
        registry: ActivityHandlerRegistry,
        executor: ActivityExecutor,
        keeper: LeaseKeeper,
        threads: ThreadSlots,
    ) -> None:
        self._registry = registry
        self._executor = executor
        self._keeper = keeper
        self._threads = threads
        self._running: set[asyncio.Task[None]] = set()

    def ended(self, claim: Claim, state: ActivityState | None, error: ErrorInfo | None) -> None:
        """An activity has reached a state; calls back if that is a failure somebody listens for."""
        definition = self._registry.get(claim.type)
        if definition is None or error is None:
            return
        callback = (
            {
                ActivityState.FAILED: definition.on_failure,
                ActivityState.DEAD_LETTER: definition.on_dead_letter,
            }.get(state)
            if state is not None
            else None
        )
        if callback is None:
            return
        task = asyncio.create_task(
            self._call(callback, definition, claim, error), name=f"runnerq-ending-{claim.id}"
        )
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def wait(self) -> None:
        """Until the callbacks begun so far have ended."""
        await asyncio.gather(*self._running, return_exceptions=True)

    def cancel(self) -> None:
        for task in self._running:
            task.cancel()

    async def _call(
        self,
        callback: EndCallback,
        definition: ActivityDefinition[Any, Any],
        claim: Claim,
        error: ErrorInfo,
    ) -> None:
        context = ActivityContext(claim, self._executor, self._keeper)
        try:
            payload = definition.payload_decoder.decode(claim.payload, field="payload")
        except PayloadMismatch:
            payload = decode_untyped(claim.payload)
        try:
            if inspect.iscoroutinefunction(callback):
                await callback(payload, context, error)
            else:
                await self._threads.run(lambda: callback(payload, context, error))
        except Exception:
            log.exception("the end callback of %s failed for activity %s", claim.type, claim.id)
