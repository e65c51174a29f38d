"""The sync facade: same answers, no event loop, nothing left behind."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest

from runnerq import (
    ActivityExecutor,
    ActivityNotFound,
    ConfigurationError,
    DuplicateActivity,
    activity,
    connect_blocking,
)
from runnerq.ids import IdSource
from runnerq.storage.memory import MemoryBackend
from runnerq.storage.records import EnqueueStatus
from runnerq.testing import drain

if TYPE_CHECKING:
    from collections.abc import Iterator


@activity("double")
async def double(value: int) -> int:
    return value * 2


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Iterator[MemoryBackend]:
    shared = MemoryBackend()

    def open_shared(*_: object, **__: object) -> MemoryBackend:
        return shared

    monkeypatch.setattr("runnerq.connection.open_backend", open_shared)
    before = threading.active_count()
    yield shared
    assert threading.active_count() == before


def test_an_activity_is_enqueued_and_awaited_without_a_loop(backend: MemoryBackend) -> None:
    with connect_blocking("memory://") as executor:
        future = executor.execute(double.payload(4))
        assert future.status is EnqueueStatus.CREATED
        assert not future.done()
        asyncio.run(drain(backend, [double]))
        assert future.get_result(timeout=5) == 8
        assert executor.future(future.id, int).get_result() == 8


def test_a_batch_is_enqueued_in_input_order(backend: MemoryBackend) -> None:
    with connect_blocking("memory://") as executor:
        futures = executor.execute_many([double.payload(number) for number in range(3)])
        asyncio.run(drain(backend, [double]))
        assert [future.get_result() for future in futures] == [0, 2, 4]


@pytest.mark.usefixtures("backend")
def test_errors_are_those_of_the_async_executor() -> None:
    with connect_blocking("memory://") as executor:
        keyed = executor.activity("work").idempotency_key("k", behavior="no_reuse")
        executor.execute(keyed)
        with pytest.raises(DuplicateActivity):
            executor.execute(keyed)
        with pytest.raises(ActivityNotFound):
            executor.future(IdSource().next()).get_result()
        with pytest.raises(TimeoutError):
            executor.execute(executor.activity("nobody")).get_result(timeout=0.01)


@pytest.mark.usefixtures("backend")
def test_many_threads_may_share_one_executor() -> None:
    with connect_blocking("memory://") as executor:
        made: list[object] = []

        def enqueue() -> None:
            made.extend(executor.execute(double.payload(n)).id for n in range(20))

        threads = [threading.Thread(target=enqueue) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(set(made)) == 160


@pytest.mark.usefixtures("backend")
def test_a_closed_executor_says_so_and_may_be_closed_again() -> None:
    executor = connect_blocking("memory://")
    executor.close()
    executor.close()
    with pytest.raises(ConfigurationError, match=r"^executor: "):
        executor.execute(double.payload(1))


@pytest.mark.usefixtures("backend")
def test_the_thread_ends_also_when_connecting_or_closing_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def fail(_: ActivityExecutor) -> None:
        raise RuntimeError("closing failed")

    executor = connect_blocking("memory://")
    monkeypatch.setattr(ActivityExecutor, "close", fail)
    with pytest.raises(RuntimeError, match="closing failed"):
        executor.close()
    monkeypatch.setattr("runnerq.connection.os.environ", {})
    with pytest.raises(ConfigurationError):
        connect_blocking()
