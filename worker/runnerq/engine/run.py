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
import time
from typing import TYPE_CHECKING, Any

from runnerq.context import ActivityContext
from runnerq.engine.attempt import Attempt, Cause
from runnerq.engine.isolation import Isolated
from runnerq.engine.processes import CpuProcessDied
from runnerq.errors import InvalidActivity, NonRetryable, Retry, Snooze
from runnerq.failure import describe, timed_out
from runnerq.payload import PayloadMismatch, encode
from runnerq.storage.records import Acknowledgement, ErrorKind, OutcomeKind

if TYPE_CHECKING:
    from datetime import timedelta

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
"""Seconds a claim may wait for a process before its lease is counted from anew."""


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
    ) -> None:
        self._registry = registry
        self._executor = executor
        self._keeper = keeper
        self._timers = timers
        self._threads = threads
        self._processes = processes
        self.closing = False
        """Set by the engine before it ends the runner tasks themselves."""

    async def attempt(self, attempt: Attempt) -> Acknowledgement | None:
        """Run one claim to its end. None when nothing is to be said of it: the claim was lost."""
        claim = attempt.claim
        definition = self._registry.get(claim.type)
        if definition is None:  # the registry was narrowed after the claim: somebody else has it
            return _ack(attempt, OutcomeKind.RELEASED)
        try:
            payload = (
                None
                if definition.cpu
                else definition.payload_decoder.decode(claim.payload, field="payload")
            )
        except PayloadMismatch as error:
            return _ack(attempt, OutcomeKind.FAILED, error=describe(error, ErrorKind.PAYLOAD))
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a coroutine runs in a task
        attempt.task = task
        try:
            if definition.cpu:
                outcome = await self._in_process(attempt, definition)
            else:
                outcome = await self._here(attempt, definition, payload)
        except asyncio.CancelledError as error:
            if self.closing:
                raise  # the engine is ending this runner, not this attempt
            outcome = _handler_error(attempt, definition.retry, error)
        except BaseException as error:  # noqa: BLE001 - the handler's own end, whatever it raised
            outcome = _handler_error(attempt, definition.retry, error)
        finally:
            attempt.task = None
            self._timers.ended(attempt)
        # Cancellations were aimed at this attempt (or made by its handler); the runner goes on.
        while task.cancelling():
            task.uncancel()
        if attempt.cause is not None:
            outcome = _interrupted(attempt, definition.retry, outcome)
        return outcome

    async def _here(
        self, attempt: Attempt, definition: ActivityDefinition[Any, Any], payload: Any
    ) -> Acknowledgement:
        """On the loop (async) or in a thread (plain)."""
        context = ActivityContext(attempt.claim, self._executor, self._keeper)
        attempt.context = context
        self._timers.started(attempt)
        if definition.is_async:
            value = await Isolated(definition.call(payload, context))
        else:
            value = await self._threads.run(lambda: definition.call(payload, context))
        return _completed(attempt, value)

    async def _in_process(
        self, attempt: Attempt, definition: ActivityDefinition[Any, Any]
    ) -> Acknowledgement:
        child = await self._processes.acquire()
        clean = False
        try:
            if time.monotonic() - attempt.received > LONG_WAIT:
                await self._keeper.extend(attempt.claim, attempt.claim.timeout_ms / 1000)
            self._timers.started(attempt)
            reply = await child.run(definition, attempt.claim.payload)
            clean = True
        except CpuProcessDied as error:
            return _ack_retry(attempt, definition.retry, describe(error), None)
        finally:
            self._processes.release(child, reusable=clean)
        return _from_reply(attempt, definition.retry, reply)


def _completed(attempt: Attempt, value: Any) -> Acknowledgement:
    try:
        result = encode(value, field="result")
    except InvalidActivity as error:
        return _ack(attempt, OutcomeKind.FAILED, error=describe(error, ErrorKind.RESULT))
    return _ack(attempt, OutcomeKind.COMPLETED, result=result)


def _handler_error(attempt: Attempt, policy: RetryPolicy, error: BaseException) -> Acknowledgement:
    info = describe(error)
    match error:
        case Snooze():
            return _ack(attempt, OutcomeKind.SNOOZED, delay=error.after)
        case Retry():
            return _ack_retry(attempt, policy, info, error.after)
        case NonRetryable():
            return _ack(attempt, OutcomeKind.FAILED, error=info)
        case _ if not policy.retries(error):
            return _ack(attempt, OutcomeKind.FAILED, error=info)
        case _:
            return _ack_retry(attempt, policy, info, None)


def _interrupted(
    attempt: Attempt, policy: RetryPolicy, outcome: Acknowledgement
) -> Acknowledgement | None:
    """What an interruption makes of the handler's end. A handler that returned a value after a
    shutdown began has completed; after a timeout it was too late, whatever it returned."""
    match attempt.cause:
        case Cause.TIMEOUT:
            return _ack_retry(attempt, policy, timed_out(attempt.claim.timeout_ms), None)
        case Cause.SHUTDOWN:
            if outcome.kind is OutcomeKind.COMPLETED:
                return outcome
            return _ack(attempt, OutcomeKind.RELEASED)
        case _:
            return None


def _from_reply(attempt: Attempt, policy: RetryPolicy, reply: CpuReply) -> Acknowledgement:
    match reply.verdict:
        case "ok":
            return _ack(attempt, OutcomeKind.COMPLETED, result=reply.result)
        case "snooze":
            return _ack(attempt, OutcomeKind.SNOOZED, delay_ms=reply.after_ms or 0)
        case "payload" | "result" | "non_retryable":
            return _ack(attempt, OutcomeKind.FAILED, error=reply.error)
        case "retry" if reply.after_ms is not None:
            return _ack(attempt, OutcomeKind.RETRIED, error=reply.error, delay_ms=reply.after_ms)
        case _:
            fatal = {f"{kind.__module__}.{kind.__qualname__}" for kind in policy.non_retryable}
            if fatal.intersection(reply.mro):
                return _ack(attempt, OutcomeKind.FAILED, error=reply.error)
            return _ack_retry(attempt, policy, reply.error, None)


def _ack_retry(
    attempt: Attempt, policy: RetryPolicy, error: ErrorInfo | None, after: timedelta | None
) -> Acknowledgement:
    delay = after if after is not None else policy.delay(attempt.claim.attempt - 1)
    return _ack(attempt, OutcomeKind.RETRIED, error=error, delay=delay)


def _ack(
    attempt: Attempt,
    kind: OutcomeKind,
    *,
    result: bytes | None = None,
    error: ErrorInfo | None = None,
    delay: timedelta | None = None,
    delay_ms: int = 0,
) -> Acknowledgement:
    ran = 0 if attempt.started is None else time.monotonic() - attempt.started
    return Acknowledgement(
        id=attempt.claim.id,
        token=attempt.claim.token,
        kind=kind,
        result=result,
        error=error,
        delay_ms=delay_ms if delay is None else max(0, round(delay.total_seconds() * 1000)),
        run_ms=round(ran * 1000),
    )
