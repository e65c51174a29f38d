"""Runner: takes one claim after another and turns each into an acknowledgement.

    claim -> decode payload -> call handler -> encode result -> Completed
                 |                 |               |
              Failed       Retried | Failed      Failed
                         Snoozed | Released | (claim lost: nothing is acknowledged)

A runner is resident: one task per slot for the engine's whole life. What the handler raises never
leaves `attempt()`; only the runner's own cancellation does.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from runnerq.context import ActivityContext
from runnerq.engine.attempt import Attempt, Cause
from runnerq.engine.isolation import Isolated
from runnerq.engine.processes import CpuProcessDied
from runnerq.errors import (
    ClaimLost,
    InvalidActivity,
    NonRetryable,
    Retry,
    RunnerQError,
    Snooze,
    StorageError,
)
from runnerq.failure import describe, timed_out
from runnerq.payload import PayloadMismatch, encode
from runnerq.storage.records import Acknowledgement, ErrorKind, OutcomeKind

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from runnerq.activity import ActivityDefinition
    from runnerq.context import LeaseKeeper
    from runnerq.engine.cpu_child import CpuReply
    from runnerq.engine.processes import ProcessSlots
    from runnerq.engine.threads import ThreadSlots
    from runnerq.engine.timers import Timers
    from runnerq.executor import ActivityExecutor
    from runnerq.registry import ActivityHandlerRegistry
    from runnerq.retry import RetryPolicy
    from runnerq.storage.records import ErrorInfo

LONG_WAIT = 1.0
"""Seconds a claim may wait for a thread or process before its lease is counted from anew."""


class _NotBegun(RunnerQError):
    """The lease could not be renewed before the handler began: the claim goes back."""


class Runner:
    """Runs attempts with what an engine shares among its slots."""

    def __init__(
        self,
        *,
        registry: ActivityHandlerRegistry,
        executor: ActivityExecutor,
        keeper: LeaseKeeper,
        timers: Timers,
        threads: ThreadSlots,
        processes: ProcessSlots,
        abandoned: Callable[[], bool],
    ) -> None:
        self._registry = registry
        self._executor = executor
        self._keeper = keeper
        self._timers = timers
        self._threads = threads
        self._processes = processes
        self._abandoned = abandoned
        self._closing = False

    @property
    def closing(self) -> bool:
        """The runner tasks themselves are ended: by `close`, or with the event loop that an engine was
        left running on. Any other cancellation is aimed at an attempt."""
        return self._closing or self._abandoned()

    def close(self) -> None:
        """To be called before the runner tasks are cancelled."""
        self._closing = True

    async def attempt(self, attempt: Attempt) -> Acknowledgement | None:
        """Run one claim to its end. None when nothing is to be said of it: the claim was lost."""
        definition = self._registry.get(attempt.claim.type)
        if definition is None:  # the registry was narrowed after the claim: somebody else has it
            return attempt.ended(OutcomeKind.RELEASED)
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a coroutine runs in a task
        attempt.task = task
        try:
            outcome = await self._run(attempt, definition)
        except GeneratorExit:
            raise  # the event loop is gone, and this runner with it
        except _NotBegun:
            outcome = attempt.ended(OutcomeKind.RELEASED)
        except asyncio.CancelledError as error:
            if self.closing:
                raise  # the engine is ending this runner, not this attempt
            outcome = _handler_error(attempt, definition.retry, error)
        except BaseException as error:  # noqa: BLE001 - the handler's own end, whatever it raised
            outcome = _handler_error(attempt, definition.retry, error)
        finally:
            attempt.task = None
            self._timers.ended(attempt)
        if task.cancelling():
            await self._go_on(task)
        if attempt.cause is not None:
            outcome = _interrupted(attempt, definition.retry, outcome)
        return outcome

    async def _go_on(self, task: asyncio.Task[Any]) -> None:
        """Cancellations were aimed at this attempt (or made by its handler); the runner goes on."""
        while task.cancelling():
            task.uncancel()
        try:
            # One that is still on its way (the handler cancelled itself and returned) strikes here
            # instead of in the next attempt; before Python 3.13 `uncancel` does not call it off.
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            if self.closing:
                raise

    async def _run(
        self, attempt: Attempt, definition: ActivityDefinition[Any, Any]
    ) -> Acknowledgement:
        if definition.cpu:
            return await self._in_process(attempt, definition)
        try:
            payload = definition.payload_decoder.decode(attempt.claim.payload, field="payload")
        except PayloadMismatch as error:
            return attempt.ended(OutcomeKind.FAILED, error=describe(error, ErrorKind.PAYLOAD))
        context = ActivityContext(attempt.claim, self._executor, self._keeper)
        attempt.context = context
        if definition.is_async:
            self._timers.started(attempt)
            value = await self._isolated(attempt, definition.call(payload, context))
        else:
            value = await self._in_thread(attempt, definition, payload)
        return _completed(attempt, value)

    async def _in_thread(
        self, attempt: Attempt, definition: ActivityDefinition[Any, Any], payload: Any
    ) -> Any:
        context = attempt.context
        thread = await self._threads.acquire()
        try:
            await self._begin(attempt)
            value = await thread.run(lambda: definition.call(payload, context))
        finally:
            self._threads.release(thread)
        if inspect.iscoroutine(value):  # a decorator hid that the handler is async
            value = await self._isolated(attempt, value)
        return value

    async def _in_process(
        self, attempt: Attempt, definition: ActivityDefinition[Any, Any]
    ) -> Acknowledgement:
        child = await self._processes.acquire()
        clean = False
        try:
            await self._begin(attempt)
            reply = await child.run(definition, attempt.claim.payload)
            clean = True
        except CpuProcessDied as error:
            return _retried(attempt, definition.retry, describe(error), None)
        finally:
            self._processes.release(child, reusable=clean)
        return _from_reply(attempt, definition.retry, reply)

    async def _begin(self, attempt: Attempt) -> None:
        """The handler starts now: its timeout runs from here and, if the wait was long, its lease."""
        if time.monotonic() - attempt.received > LONG_WAIT:
            try:
                await self._keeper.extend(attempt.claim, attempt.claim.timeout_ms / 1000)
            except (ClaimLost, StorageError) as error:
                raise _NotBegun(str(error)) from error
        self._timers.started(attempt)

    async def _isolated(self, attempt: Attempt, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return await Isolated(coroutine, lambda: self._closing or attempt.given_up)


def _completed(attempt: Attempt, value: Any) -> Acknowledgement:
    try:
        result = encode(value, field="result")
    except InvalidActivity as error:
        return attempt.ended(OutcomeKind.FAILED, error=describe(error, ErrorKind.RESULT))
    return attempt.ended(OutcomeKind.COMPLETED, result=result)


def _handler_error(attempt: Attempt, policy: RetryPolicy, error: BaseException) -> Acknowledgement:
    match error:
        case Snooze():
            return attempt.ended(OutcomeKind.SNOOZED, delay_ms=_milliseconds(error.after))
        case Retry():
            return _retried(attempt, policy, describe(error), error.after)
        case _ if isinstance(error, NonRetryable) or not policy.retries(error):
            return attempt.ended(OutcomeKind.FAILED, error=describe(error))
        case _:
            return _retried(attempt, policy, describe(error), None)


def _interrupted(
    attempt: Attempt, policy: RetryPolicy, outcome: Acknowledgement
) -> Acknowledgement | None:
    """What an interruption makes of the handler's end. A handler that returned a value after a
    shutdown began has completed; after a timeout it was too late, whatever it returned."""
    match attempt.cause:
        case Cause.TIMEOUT:
            return _retried(attempt, policy, timed_out(attempt.claim.timeout_ms), None)
        case Cause.SHUTDOWN | Cause.CUT_OFF:
            if outcome.kind is OutcomeKind.COMPLETED:
                return outcome
            return attempt.ended(OutcomeKind.RELEASED)
        case _:
            return None


def _from_reply(attempt: Attempt, policy: RetryPolicy, reply: CpuReply) -> Acknowledgement:
    match reply.verdict:
        case "ok":
            return attempt.ended(OutcomeKind.COMPLETED, result=reply.result)
        case "snooze":
            return attempt.ended(OutcomeKind.SNOOZED, delay_ms=reply.after_ms or 0)
        case "payload" | "result" | "non_retryable":
            return attempt.ended(OutcomeKind.FAILED, error=reply.error)
        case "retry" if reply.after_ms is not None:
            return attempt.ended(OutcomeKind.RETRIED, error=reply.error, delay_ms=reply.after_ms)
        case _:
            fatal = {f"{kind.__module__}.{kind.__qualname__}" for kind in policy.non_retryable}
            if fatal.intersection(reply.mro):
                return attempt.ended(OutcomeKind.FAILED, error=reply.error)
            return _retried(attempt, policy, reply.error, None)


def _retried(
    attempt: Attempt, policy: RetryPolicy, error: ErrorInfo | None, after: timedelta | None
) -> Acknowledgement:
    delay = after if after is not None else policy.delay(attempt.claim.attempt - 1)
    return attempt.ended(OutcomeKind.RETRIED, error=error, delay_ms=_milliseconds(delay))


def _milliseconds(delay: timedelta) -> int:
    """Rounded up: nothing is due before it was asked to be."""
    return max(0, -(-delay // timedelta(milliseconds=1)))
