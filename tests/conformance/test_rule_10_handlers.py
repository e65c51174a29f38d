"""Rule 10: the ends of an attempt, never confused with one another, and their callbacks."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from tests.conformance.engines import Starts
from tests.conformance.eventually import WITHIN, eventually

from runnerq import (
    ActivityContext,
    ActivityFailed,
    ActivityTimedOut,
    NonRetryable,
    Retry,
    RetryPolicy,
    Snooze,
    activity,
)
from runnerq.storage.records import ActivityState, ErrorInfo, ErrorKind, EventKind

if TYPE_CHECKING:
    from uuid import UUID

    from tests.conformance.engines import Engines
    from tests.conformance.station import Station

    from runnerq.storage.records import ActivityEvent

AT_ONCE = RetryPolicy(base=timedelta(0))


async def error_of(station: Station, activity_id: UUID) -> ErrorInfo:
    ended = await station.backend.wait_for_result(station.queue, activity_id, WITHIN)
    assert ended is not None
    assert ended.error is not None
    return ended.error


async def events_of_kind(
    station: Station, activity_id: UUID, kind: EventKind
) -> list[ActivityEvent]:
    events = await station.backend.get_activity_events(station.queue, activity_id)
    return [event for event in events if event.kind is kind]


async def test_a_timeout_is_a_retryable_failure_of_its_own_kind(
    station: Station, engines: Engines
) -> None:
    starts = Starts()

    @activity("slow", timeout=0.2, max_attempts=2, retry=AT_ONCE)
    async def slow() -> None:
        starts("slow")
        await asyncio.sleep(60)

    await engines.start(slow)
    future = await slow.payload(None).on(engines.executor).execute()
    with pytest.raises(ActivityTimedOut) as ended:
        await future.get_result(WITHIN)
    assert ended.value.activity_id == future.id
    assert starts.of["slow"] == 2
    assert (await error_of(station, future.id)).kind is ErrorKind.TIMEOUT
    assert await station.state(future.id) is ActivityState.DEAD_LETTER


async def test_a_handler_that_swallows_its_cancellation_has_still_timed_out(
    station: Station, engines: Engines
) -> None:
    @activity("stubborn", timeout=0.2, max_attempts=1)
    async def stubborn() -> str:
        for _ in range(2):
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                continue
        return "too late"

    engine = await engines.start(stubborn)
    future = await stubborn.payload(None).on(engines.executor).execute()
    with pytest.raises(ActivityTimedOut):
        await future.get_result(WITHIN)
    await eventually(lambda: engine.busy == 0)


async def test_a_handlers_own_timeout_error_is_the_handlers_failure(
    station: Station, engines: Engines
) -> None:
    @activity("inner", timeout=30, max_attempts=1)
    async def inner() -> None:
        async with asyncio.timeout(0.01):
            await asyncio.sleep(30)

    await engines.start(inner)
    future = await inner.payload(None).on(engines.executor).execute()
    error = await error_of(station, future.id)
    assert (error.kind, error.type) == (ErrorKind.HANDLER, "TimeoutError")


async def test_a_handlers_own_cancelled_error_is_the_handlers_failure(
    station: Station, engines: Engines
) -> None:
    @activity("odd", max_attempts=1)
    async def odd() -> None:
        raise asyncio.CancelledError("my own")

    @activity("work")
    async def work() -> str:
        return "still here"

    await engines.start(odd, work, max_workers=1)
    future = await odd.payload(None).on(engines.executor).execute()
    error = await error_of(station, future.id)
    assert error.kind is ErrorKind.HANDLER
    assert "CancelledError" in error.type
    again = await work.payload(None).on(engines.executor).execute()
    assert await again.get_result(WITHIN) == "still here"


async def test_a_plain_handler_that_sleeps_past_its_timeout_frees_its_slot(
    engines: Engines,
) -> None:
    release = threading.Event()

    @activity("stuck", timeout=0.2, max_attempts=1)
    def stuck() -> None:
        release.wait(30)

    @activity("work")
    def work() -> str:
        return "done"

    await engines.start(stuck, work, max_workers=1, sync_threads=1)
    first = await stuck.payload(None).on(engines.executor).execute()
    with pytest.raises(ActivityTimedOut):
        await first.get_result(WITHIN)
    second = await work.payload(None).on(engines.executor).execute()
    assert await second.get_result(WITHIN) == "done"
    release.set()


async def test_a_plain_handler_can_see_that_its_attempt_has_ended(engines: Engines) -> None:
    seen = threading.Event()

    @activity("polite")
    def polite(ctx: ActivityContext) -> None:
        until = time.monotonic() + 10
        while not ctx.cancelled and time.monotonic() < until:
            time.sleep(0.01)
        if ctx.cancelled:
            seen.set()

    await engines.start(polite)
    future = await engines.executor.activity("polite").timeout(0.2).max_attempts(1).execute()
    with pytest.raises(ActivityTimedOut):
        await future.get_result(WITHIN)
    await eventually(seen.is_set)


async def test_an_ordinary_exception_is_retried_until_it_works(engines: Engines) -> None:
    starts = Starts()

    @activity("flaky", retry=AT_ONCE)
    async def flaky() -> str:
        if starts("flaky") < 3:
            raise ConnectionError("not yet")
        return "at last"

    await engines.start(flaky)
    future = await flaky.payload(None).on(engines.executor).execute()
    assert await future.get_result(WITHIN) == "at last"
    assert starts.of["flaky"] == 3


async def test_non_retryable_ends_it_at_once(station: Station, engines: Engines) -> None:
    starts = Starts()

    @activity("broken", max_attempts=0, retry=AT_ONCE)
    async def broken() -> None:
        starts("broken")
        raise NonRetryable("no such account")

    await engines.start(broken)
    future = await broken.payload(None).on(engines.executor).execute()
    with pytest.raises(ActivityFailed, match="no such account"):
        await future.get_result(WITHIN)
    assert starts.of["broken"] == 1
    assert await station.state(future.id) is ActivityState.FAILED


async def test_a_snooze_costs_no_attempt(station: Station, engines: Engines) -> None:
    starts = Starts()

    @activity("snoozing")
    async def snoozing(ctx: ActivityContext) -> int:
        if starts("snoozing") < 4:
            raise Snooze(0.01)
        return ctx.attempt

    await engines.start(snoozing)
    future = await engines.executor.activity("snoozing").max_attempts(1).execute()
    assert await future.get_result(WITHIN) == 1
    assert len(await events_of_kind(station, future.id, EventKind.SNOOZED)) == 3


async def test_retry_after_sets_the_wait_and_counts_the_attempt(
    station: Station, engines: Engines
) -> None:
    @activity("later", max_attempts=2)
    async def later() -> None:
        raise Retry("busy", after=0.01)

    await engines.start(later)
    future = await later.payload(None).on(engines.executor).execute()
    with pytest.raises(ActivityFailed, match="busy"):
        await future.get_result(WITHIN)
    assert (await station.look(future.id)).attempt == 2


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even this")

    __repr__ = __str__


class Unpicklable(Exception):
    def __init__(self) -> None:
        super().__init__("holds a lock")
        self.lock = threading.Lock()


def with_a_long_chain() -> Exception:
    error: Exception = ValueError("0")
    for number in range(1, 40):
        outer = ValueError(str(number))
        outer.__cause__ = error
        error = outer
    return error


def with_itself_as_cause() -> Exception:
    error = ValueError("circular")
    error.__context__ = ValueError("other")
    error.__context__.__context__ = error
    return error


STRANGE = [
    pytest.param(Unspeakable(), "Unspeakable", id="its-str-raises"),
    pytest.param(Unpicklable(), "Unpicklable", id="holds-a-lock"),
    pytest.param(ValueError("nul \x00 here"), "ValueError", id="nul"),
    pytest.param(ValueError("lone \ud800 surrogate"), "ValueError", id="surrogate"),
    pytest.param(ValueError("x" * 1_000_000), "ValueError", id="a-megabyte"),
    pytest.param(ValueError(b"\xff\x00"), "ValueError", id="bytes"),
    pytest.param(with_a_long_chain(), "ValueError", id="a-long-chain"),
    pytest.param(with_itself_as_cause(), "ValueError", id="circular"),
    pytest.param(
        ExceptionGroup("several", [ValueError(1), KeyError("k")]), "ExceptionGroup", id="group"
    ),
    pytest.param(KeyboardInterrupt(), "KeyboardInterrupt", id="keyboard-interrupt"),
    pytest.param(SystemExit(3), "SystemExit", id="system-exit"),
    pytest.param(GeneratorExit(), "RuntimeError", id="generator-exit"),
    pytest.param(StopIteration(1), "RuntimeError", id="stop-iteration"),
]


@pytest.mark.parametrize(("error", "named"), STRANGE)
async def test_whatever_a_handler_raises_the_worker_lives_and_the_error_is_stored(
    station: Station, engines: Engines, error: BaseException, named: str
) -> None:
    @activity("strange", max_attempts=1)
    async def strange() -> None:
        raise error

    @activity("work")
    async def work() -> str:
        return "still here"

    await engines.start(strange, work, max_workers=1)
    future = await strange.payload(None).on(engines.executor).execute()
    stored = await error_of(station, future.id)
    assert named in stored.type
    assert stored.kind is ErrorKind.HANDLER
    assert len(stored.message) + len(stored.traceback) + sum(map(len, stored.causes)) < 100_000
    again = await work.payload(None).on(engines.executor).execute()
    assert await again.get_result(WITHIN) == "still here"


async def test_an_error_is_stored_with_type_message_traceback_and_causes(
    station: Station, engines: Engines
) -> None:
    @activity("broken", max_attempts=1)
    async def broken() -> None:
        try:
            {}["the root"]
        except KeyError as root:
            raise ValueError("the surface") from root

    await engines.start(broken)
    future = await broken.payload(None).on(engines.executor).execute()
    error = await error_of(station, future.id)
    assert (error.type, error.message) == ("ValueError", "the surface")
    assert error.causes == ("KeyError: 'the root'",)
    assert "in broken" in error.traceback


async def test_on_failure_is_called_once_with_payload_and_error(engines: Engines) -> None:
    calls: list[tuple[Any, UUID, str]] = []

    async def note(payload: Any, ctx: ActivityContext, error: ErrorInfo) -> None:
        calls.append((payload, ctx.activity_id, error.message))

    @activity("broken", on_failure=note)
    async def broken(payload: dict[str, int]) -> None:
        raise NonRetryable("no")

    await engines.start(broken)
    future = await broken.payload({"order": 7}).on(engines.executor).execute()
    with pytest.raises(ActivityFailed):
        await future.get_result(WITHIN)
    await eventually(lambda: calls)
    assert calls == [({"order": 7}, future.id, "no")]


async def test_on_dead_letter_is_called_once_when_attempts_are_used_up(
    engines: Engines,
) -> None:
    calls: list[tuple[Any, int]] = []
    wrong: list[str] = []

    def note(payload: Any, ctx: ActivityContext, error: ErrorInfo) -> None:
        calls.append((payload, ctx.attempt))

    def never(payload: Any, ctx: ActivityContext, error: ErrorInfo) -> None:
        wrong.append(error.message)

    @activity("broken", max_attempts=2, retry=AT_ONCE, on_dead_letter=note, on_failure=never)
    async def broken(payload: int) -> None:
        raise ValueError("no")

    await engines.start(broken)
    future = await broken.payload(7).on(engines.executor).execute()
    with pytest.raises(ActivityFailed):
        await future.get_result(WITHIN)
    await eventually(lambda: calls)
    assert calls == [(7, 2)]
    assert wrong == []


async def test_on_dead_letter_is_called_for_a_worker_that_was_lost_too(
    station: Station, engines: Engines
) -> None:
    calls: list[tuple[Any, ErrorKind]] = []

    async def note(payload: Any, ctx: ActivityContext, error: ErrorInfo) -> None:
        calls.append((payload, error.kind))

    @activity("work", max_attempts=1, on_dead_letter=note)
    async def work(payload: int) -> None: ...

    future = await work.payload(7).on(engines.executor).execute()
    await station.claim_one()
    await station.silence(15)
    await engines.start(work)
    with pytest.raises(ActivityFailed, match="worker lost"):
        await future.get_result(WITHIN)
    await eventually(lambda: calls)
    assert calls == [(7, ErrorKind.WORKER_LOST)]


async def test_a_callback_that_raises_changes_nothing(station: Station, engines: Engines) -> None:
    called = asyncio.Event()

    async def bad(payload: Any, ctx: ActivityContext, error: ErrorInfo) -> None:
        called.set()
        raise RuntimeError("worse")

    @activity("broken", on_failure=bad)
    async def broken() -> None:
        raise NonRetryable("no")

    await engines.start(broken)
    future = await broken.payload(None).on(engines.executor).execute()
    assert (await error_of(station, future.id)).message == "no"
    async with asyncio.timeout(WITHIN):
        await called.wait()
    assert await station.state(future.id) is ActivityState.FAILED
