"""A handler in a runner's task: as good as in a task of its own."""

from __future__ import annotations

import asyncio
import contextvars
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.engine.rig import Rig

from runnerq import activity
from runnerq.engine.isolation import Isolated

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Generator

variable = contextvars.ContextVar("variable", default="untouched")


async def isolated(coroutine: Coroutine[Any, Any, Any]) -> Any:
    return await Isolated(coroutine, lambda: False)


async def test_context_variables_of_one_attempt_are_not_seen_by_the_next(rig: Rig) -> None:
    @activity("work")
    async def work(value: str) -> list[str]:
        before = variable.get()
        token = variable.set(value)
        await asyncio.sleep(0)
        inside = variable.get()
        task = await asyncio.create_task(asyncio.to_thread(variable.get))
        if value == "reset":
            variable.reset(token)
        return [before, inside, task]

    await rig.start(work, max_workers=1)
    for value in ("a", "reset", "b"):
        assert await rig.result(await rig.enqueue("work", value)) == ["untouched", value, value]
    assert variable.get() == "untouched"
    # The default executor of this test's loop is the test's own.
    await asyncio.get_running_loop().shutdown_default_executor()


async def test_context_variables_of_a_sync_handler_stay_in_its_attempt(rig: Rig) -> None:
    @activity("work")
    def work(value: str) -> str:
        before = variable.get()
        variable.set(value)
        return before

    await rig.start(work, max_workers=1)
    for value in ("a", "b"):
        assert await rig.result(await rig.enqueue("work", value)) == "untouched"


async def test_timeouts_groups_and_waits_inside_a_handler_work(rig: Rig) -> None:
    @activity("work", timeout=30)
    async def work() -> list[str]:
        seen: list[str] = []
        try:
            async with asyncio.timeout(0.01):
                await asyncio.sleep(60)
        except TimeoutError:
            seen.append("timeout")
        try:
            await asyncio.wait_for(asyncio.sleep(60), 0.01)
        except TimeoutError:
            seen.append("wait_for")
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(asyncio.sleep(60))
                group.create_task(fail())
        except* ValueError:
            seen.append("group")
        async with asyncio.timeout(10):
            async with asyncio.TaskGroup() as group:
                done = group.create_task(asyncio.sleep(0, "inner"))
            seen.append(done.result())
        lock = asyncio.Lock()
        async with lock:
            seen.append("lock")
        async with scope() as value:
            seen.append(value)
        seen.append(",".join([part async for part in parts()]))
        return seen

    async def fail() -> None:
        raise ValueError("x")

    @asynccontextmanager
    async def scope() -> AsyncGenerator[str]:
        await asyncio.sleep(0)
        yield "scope"

    async def parts() -> AsyncIterator[str]:
        for part in "ab":
            await asyncio.sleep(0)
            yield part

    await rig.start(work, max_workers=1)
    expected = ["timeout", "wait_for", "group", "inner", "lock", "scope", "a,b"]
    for _ in range(2):
        assert await rig.result(await rig.enqueue("work")) == expected


async def test_a_value_and_an_exception_come_through() -> None:
    async def value() -> int:
        await asyncio.sleep(0)
        return 5

    async def error() -> int:
        await asyncio.sleep(0)
        raise KeyError("x")

    assert await isolated(value()) == 5
    with pytest.raises(KeyError):
        await isolated(error())


async def test_an_exception_of_what_is_awaited_is_thrown_in_at_the_await() -> None:
    future = asyncio.get_running_loop().create_future()

    async def handler() -> str:
        try:
            await future
        except OSError as error:
            return f"caught {error}"
        return "nothing"

    asyncio.get_running_loop().call_soon(future.set_exception, OSError("x"))
    assert await isolated(handler()) == "caught x"


@pytest.mark.parametrize("error", [StopIteration(1), GeneratorExit()])
async def test_exceptions_that_mean_something_to_coroutines_become_errors(
    error: BaseException,
) -> None:
    async def handler() -> None:
        await asyncio.sleep(0)
        raise error

    with pytest.raises(RuntimeError, match=f"raised {type(error).__name__}"):
        await isolated(handler())


async def test_a_cancellation_is_thrown_in_and_may_be_swallowed() -> None:
    async def handler() -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return "stayed"
        return "slept"

    task = asyncio.ensure_future(isolated(handler()))
    await asyncio.sleep(0)
    task.cancel()
    assert await task == "stayed"


async def test_a_coroutine_that_was_given_up_is_closed_instead_of_asked() -> None:
    seen: list[str] = []

    async def handler() -> None:
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                seen.append("asked")
            finally:
                seen.append("finally")

    given_up = False

    async def run() -> None:
        await Isolated(handler(), lambda: given_up)

    task = asyncio.create_task(run())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.sleep(0)
    assert seen == ["asked", "finally"]
    given_up = True
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == ["asked", "finally", "finally"]


async def test_a_coroutine_that_even_ignores_its_end_is_left_to_itself(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def handler() -> None:
        while True:
            try:
                await asyncio.sleep(60)
            except BaseException:
                if len(ignored) > 3:
                    raise
                ignored.append(1)
                continue

    async def run() -> None:
        await Isolated(handler(), lambda: True)

    ignored: list[int] = []
    task = asyncio.create_task(run())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert "did not go quietly" in caplog.text


def test_a_loop_that_is_closed_ends_its_handlers() -> None:
    seen: list[str] = []

    class Forever:
        def __await__(self) -> Generator[None, None, None]:
            yield

    async def handler() -> None:
        try:
            await Forever()
        finally:
            seen.append("ended")

    async def run() -> None:
        await Isolated(handler(), lambda: False)

    coroutine = run()
    coroutine.send(None)
    coroutine.close()
    assert seen == ["ended"]
