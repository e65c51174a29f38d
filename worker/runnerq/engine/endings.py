"""Endings: calls `on_failure` and `on_dead_letter` once an activity has ended so.

After the end is stored, at most once: a callback that raises is logged and changes nothing. Callbacks
run beside the attempts, within the activity's own timeout, and `wait` lets a stopping engine wait for
them. When too many are waiting, the engine claims no more until they have caught up.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from typing import TYPE_CHECKING, Any

import msgspec

from runnerq.context import ActivityContext
from runnerq.engine.gate import Closed
from runnerq.payload import PayloadMismatch, decode_untyped
from runnerq.storage.records import ActivityState, Claim

if TYPE_CHECKING:
    from runnerq.activity import ActivityDefinition, EndCallback
    from runnerq.context import LeaseKeeper
    from runnerq.engine.gate import Gate
    from runnerq.engine.threads import ThreadSlots
    from runnerq.executor import ActivityExecutor
    from runnerq.registry import ActivityHandlerRegistry
    from runnerq.storage.records import ErrorInfo

log = logging.getLogger(__name__)

AT_ONCE = 50
"""Callbacks that run at the same time."""
MOST_WAITING = 1000
"""Callbacks, running or not, from which on the gate is closed."""
CANCEL_PATIENCE = 2.0
"""Seconds a cancelled callback has to end."""


class Endings:
    def __init__(
        self,
        *,
        registry: ActivityHandlerRegistry,
        executor: ActivityExecutor,
        keeper: LeaseKeeper,
        threads: ThreadSlots,
        gate: Gate,
    ) -> None:
        self._registry = registry
        self._executor = executor
        self._keeper = keeper
        self._threads = threads
        self._gate = gate
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._running: set[asyncio.Task[None]] = set()

    def ended(self, claim: Claim, state: ActivityState | None, error: ErrorInfo | None) -> None:
        """An activity has reached a state; calls back if that is a failure somebody listens for."""
        definition = self._registry.get(claim.type)
        if definition is None or error is None:
            return
        match state:
            case ActivityState.FAILED:
                callback = definition.on_failure
            case ActivityState.DEAD_LETTER:
                callback = definition.on_dead_letter
            case _:
                return
        if callback is None:
            return
        task = asyncio.create_task(
            self._call(callback, definition, claim, error), name=f"runnerq-ending-{claim.id}"
        )
        self._running.add(task)
        task.add_done_callback(self._done)
        self._set_gate()

    async def wait(self) -> None:
        """Until the callbacks begun so far have ended."""
        if self._running:
            await asyncio.wait(set(self._running))

    async def cancel(self) -> None:
        """End those that still run."""
        running = set(self._running)
        for task in running:
            task.cancel()
        if running:
            log.warning("%d end callbacks are cut off", len(running))
            await asyncio.wait(running, timeout=CANCEL_PATIENCE)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._set_gate()

    def _set_gate(self) -> None:
        self._gate.set(Closed.CALLBACKS, closed=len(self._running) >= MOST_WAITING)

    async def _call(
        self,
        callback: EndCallback,
        definition: ActivityDefinition[Any, Any],
        claim: Claim,
        error: ErrorInfo,
    ) -> None:
        context = ActivityContext(claim, self._executor, self._keeper)
        try:
            async with self._turns, asyncio.timeout(definition.options.timeout_ms / 1000):
                answer = await self._begin(callback, _payload(definition, claim), context, error)
                if inspect.isawaitable(answer):  # a plain callable that hands out an awaitable
                    await answer
        except asyncio.CancelledError:
            raise
        except BaseException:
            # Also SystemExit: out of a task it would end the event loop, and every handler with it.
            log.exception("the end callback of %s failed for activity %s", claim.type, claim.id)

    async def _begin(
        self, callback: EndCallback, payload: Any, context: ActivityContext, error: ErrorInfo
    ) -> object:
        if inspect.iscoroutinefunction(callback):
            return await callback(payload, context, error)
        thread = await self._threads.acquire()
        try:
            return await thread.run(lambda: callback(payload, context, error))
        finally:
            self._threads.release(thread)


def _payload(definition: ActivityDefinition[Any, Any], claim: Claim) -> Any:
    try:
        return definition.payload_decoder.decode(claim.payload, field="payload")
    except PayloadMismatch:
        pass
    try:
        return decode_untyped(claim.payload)
    except msgspec.MsgspecError:
        return claim.payload
