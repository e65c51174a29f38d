"""The keyed work queue: each key once, one worker at a time, nothing missed."""

from __future__ import annotations

import asyncio

import pytest
from tests.conformance.eventually import eventually

from runnerq_operator.control.work_queue import KeyedQueue


async def taken(queue: KeyedQueue[str]) -> str:
    async with queue.take() as key:
        return key


async def nothing_due(queue: KeyedQueue[str]) -> bool:
    """Whether a worker that looks now finds nothing."""
    worker = asyncio.create_task(taken(queue))
    for _ in range(5):
        await asyncio.sleep(0)
    idle = not worker.done()
    worker.cancel()
    await asyncio.gather(worker, return_exceptions=True)
    return idle


class HandClock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


async def test_a_key_that_is_added_twice_comes_once():
    queue: KeyedQueue[str] = KeyedQueue()
    queue.add("a")
    queue.add("a")
    assert await taken(queue) == "a"
    assert await nothing_due(queue)


async def test_keys_come_in_the_order_in_which_they_were_added():
    queue: KeyedQueue[str] = KeyedQueue(HandClock())
    for key in "cab":
        queue.add(key)
    assert [await taken(queue) for _ in range(3)] == ["c", "a", "b"]


async def test_a_key_that_is_held_is_not_handed_to_another_worker_and_comes_again():
    queue: KeyedQueue[str] = KeyedQueue()
    queue.add("a")
    async with queue.take() as key:
        queue.add(key)
        assert await nothing_due(queue)
    assert await taken(queue) == "a"


async def test_a_held_key_does_not_stop_the_others():
    queue: KeyedQueue[str] = KeyedQueue()
    queue.add("a")
    async with queue.take() as key:
        queue.add(key)
        queue.add("b")
        assert await taken(queue) == "b"


async def test_the_earliest_time_that_was_asked_for_counts():
    clock = HandClock()
    queue: KeyedQueue[str] = KeyedQueue(clock)
    queue.add("a", after=10)
    queue.add("a", after=2)
    queue.add("a", after=5)
    assert await nothing_due(queue)
    clock.now = 2.0
    assert await taken(queue) == "a"
    clock.now = 20.0
    assert await nothing_due(queue)


async def test_a_waiting_worker_is_woken_by_an_add():
    queue: KeyedQueue[str] = KeyedQueue()
    async with asyncio.timeout(5), asyncio.TaskGroup() as tasks:
        workers = [tasks.create_task(taken(queue)) for _ in range(3)]
        await asyncio.sleep(0)
        for key in "abc":
            queue.add(key)
    assert sorted(worker.result() for worker in workers) == ["a", "b", "c"]


async def test_a_delayed_key_comes_by_itself():
    queue: KeyedQueue[str] = KeyedQueue()
    queue.add("a", after=0.01)
    async with asyncio.timeout(5):
        assert await taken(queue) == "a"


async def test_pauses_double_until_a_success():
    queue: KeyedQueue[str] = KeyedQueue(HandClock())
    assert [queue.retry("a") for _ in range(4)] == [0.5, 1.0, 2.0, 4.0]
    assert [queue.retry("b")] == [0.5]
    queue.succeeded("a")
    assert queue.retry("a") == 0.5


async def test_pauses_have_an_end():
    queue: KeyedQueue[str] = KeyedQueue(HandClock())
    assert [queue.retry("a") for _ in range(30)][-1] == 60.0


async def test_a_forgotten_key_does_not_come():
    queue: KeyedQueue[str] = KeyedQueue()
    queue.add("a")
    queue.forget("a")
    assert await nothing_due(queue)
    assert len(queue) == 0


async def test_a_worker_that_fails_lets_go_of_its_key():
    queue: KeyedQueue[str] = KeyedQueue()
    queue.add("a")

    async def failing() -> None:
        async with queue.take():
            raise LookupError

    with pytest.raises(LookupError):
        await failing()
    queue.add("a")
    assert await taken(queue) == "a"


async def test_no_addition_is_lost_among_many_workers():
    queue: KeyedQueue[str] = KeyedQueue()
    seen: dict[str, int] = {}
    wanted = dict.fromkeys("abcdefgh", 0)
    overlapping: set[str] = set()

    async def worker() -> None:
        while True:
            async with queue.take() as key:
                assert key not in overlapping
                overlapping.add(key)
                latest = wanted[key]
                await asyncio.sleep(0)
                seen[key] = latest
                overlapping.discard(key)

    async with asyncio.timeout(20), asyncio.TaskGroup() as tasks:
        workers = [tasks.create_task(worker()) for _ in range(3)]
        for number in range(200):
            for key in wanted:
                wanted[key] = number
                queue.add(key)
            if number % 7 == 0:
                await asyncio.sleep(0)
        await eventually(lambda: seen == wanted)
        for task in workers:
            task.cancel()
