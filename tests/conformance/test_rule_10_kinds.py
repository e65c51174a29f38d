"""Rule 10: a handler runs on the loop, in a thread or in a process, and what it finds around it."""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from tests.conformance import cpu_handlers
from tests.conformance.eventually import WITHIN, eventually

from runnerq import ActivityContext, ActivityTimedOut, RetryPolicy, activity
from runnerq.storage.records import ActivityState

if TYPE_CHECKING:
    from uuid import UUID

    from tests.conformance.engines import Engines
    from tests.conformance.station import Station

AT_ONCE = RetryPolicy(base=timedelta(0))


async def test_an_async_handler_runs_on_the_loop(engines: Engines) -> None:
    @activity("where")
    async def where() -> int:
        return threading.get_ident()

    await engines.start(where)
    future = await where.payload(None).on(engines.executor).execute()
    assert await future.get_result(WITHIN) == threading.get_ident()


async def test_a_plain_handler_runs_in_a_thread_and_does_not_block_the_loop(
    engines: Engines,
) -> None:
    release = threading.Event()

    @activity("where")
    def where() -> int:
        release.wait(10)
        return threading.get_ident()

    await engines.start(where)
    future = await where.payload(None).on(engines.executor).execute()
    await asyncio.to_thread(release.set)  # only a loop that is free gets here
    assert await future.get_result(WITHIN) != threading.get_ident()


async def test_plain_handlers_run_side_by_side(engines: Engines) -> None:
    together = threading.Barrier(4, timeout=10)

    @activity("meet", max_attempts=1)
    def meet() -> str:
        together.wait()
        return "met"

    await engines.start(meet)
    futures = [await meet.payload(None).on(engines.executor).execute() for _ in range(4)]
    assert [await future.get_result(WITHIN) for future in futures] == ["met"] * 4


async def test_a_cpu_handler_runs_in_another_process(engines: Engines) -> None:
    await engines.start(cpu_handlers.add)
    future = await cpu_handlers.add.payload([1, 2, 3]).on(engines.executor).execute()
    result = await future.get_result(WITHIN)
    assert result["sum"] == 6
    assert result["pid"] != os.getpid()


async def test_a_cpu_handler_that_never_ends_is_ended_by_its_timeout(engines: Engines) -> None:
    await engines.start(cpu_handlers.spin, cpu_workers=1)
    future = await cpu_handlers.spin.payload(None).on(engines.executor).execute()
    with pytest.raises(ActivityTimedOut):
        await future.get_result(WITHIN)


async def test_a_cpu_process_that_dies_is_a_failed_attempt(
    station: Station, engines: Engines
) -> None:
    await engines.start(cpu_handlers.die, cpu_handlers.add, cpu_workers=1)
    future = await cpu_handlers.die.payload(None).on(engines.executor).execute()
    ended = await station.backend.wait_for_result(station.queue, future.id, WITHIN)
    assert ended is not None
    assert ended.error is not None
    assert "ended with code" in ended.error.message
    future = await cpu_handlers.add.payload([1]).on(engines.executor).execute()
    assert (await future.get_result(WITHIN))["sum"] == 1


@pytest.mark.parametrize(
    ("how", "state"),
    [
        ("final", ActivityState.FAILED),
        ("ordinary", ActivityState.DEAD_LETTER),
        ("snooze", ActivityState.SCHEDULED),
        ("retry", ActivityState.DEAD_LETTER),
    ],
)
async def test_what_a_cpu_handler_raises_means_the_same_as_elsewhere(
    station: Station, engines: Engines, how: str, state: ActivityState
) -> None:
    await engines.start(cpu_handlers.raise_as_told)
    future = await cpu_handlers.raise_as_told.payload(how).on(engines.executor).execute()
    await eventually(lambda: reached(station, future.id, state))


async def reached(station: Station, activity_id: UUID, state: ActivityState) -> bool:
    return await station.state(activity_id) is state


async def test_context_variables_do_not_leak_between_attempts(engines: Engines) -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="clean")

    @activity("leaky")
    async def leaky() -> str:
        before = variable.get()
        variable.set("dirty")
        await asyncio.sleep(0)
        return before

    await engines.start(leaky, max_workers=1)
    for _ in range(3):
        future = await leaky.payload(None).on(engines.executor).execute()
        assert await future.get_result(WITHIN) == "clean"


async def test_a_handler_knows_its_attempt(engines: Engines) -> None:
    @activity("curious", retry=AT_ONCE)
    async def curious(ctx: ActivityContext) -> dict[str, Any]:
        if ctx.attempt < 2:
            raise RuntimeError("once more")
        return {
            "id": str(ctx.activity_id),
            "type": ctx.activity_type,
            "queue": ctx.queue,
            "attempt": ctx.attempt,
            "max": ctx.max_attempts,
            "headers": dict(ctx.headers),
        }

    await engines.start(curious)
    builder = engines.executor.activity("curious").max_attempts(5).headers({"trace": "abc"})
    future = await builder.execute()
    assert await future.get_result(WITHIN) == {
        "id": str(future.id),
        "type": "curious",
        "queue": engines.store.queue,
        "attempt": 2,
        "max": 5,
        "headers": {"trace": "abc"},
    }


async def test_a_handler_can_extend_its_lease(station: Station, engines: Engines) -> None:
    proceed = asyncio.Event()

    @activity("long", timeout=120)
    async def long(ctx: ActivityContext) -> str:
        await ctx.extend(timedelta(hours=2))
        proceed.set()
        return "done"

    await engines.start(long)
    future = await engines.executor.activity("long").execute()
    assert await future.get_result(WITHIN) == "done"
    assert proceed.is_set()


async def test_a_handler_can_enqueue_further_work(engines: Engines) -> None:
    @activity("child")
    async def child(number: int) -> int:
        return number * 10

    @activity("parent")
    async def parent(ctx: ActivityContext) -> int:
        future = await ctx.executor.execute(child.payload(4))
        return await future.get_result(WITHIN)

    await engines.start(child, parent)
    future = await engines.executor.activity("parent").execute()
    assert await future.get_result(WITHIN) == 40
