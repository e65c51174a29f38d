"""Enqueueing: what becomes of each item, and of a backend that does not answer."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from runnerq import (
    ActivityExecutor,
    BackendUnavailable,
    DuplicateActivity,
    InvalidActivity,
    NoopMetrics,
    StorageError,
)
from runnerq.storage.memory import MemoryBackend
from runnerq.storage.records import EnqueueStatus
from runnerq.testing import FaultyBackend

if TYPE_CHECKING:
    from collections.abc import Mapping


class Counting(NoopMetrics):
    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()

    def inc_counter(
        self, name: str, value: float = 1, labels: Mapping[str, str] | None = None
    ) -> None:
        self.counts[name, (labels or {}).get("type", "")] += int(value)


class Broken(NoopMetrics):
    def observe_duration(self, *_: Any, **__: Any) -> None:
        raise ValueError("no measurements today")


@pytest.fixture
def backend() -> FaultyBackend:
    return FaultyBackend(MemoryBackend("orders"))


async def test_the_queue_is_the_backends_unless_another_is_named(backend: FaultyBackend) -> None:
    assert ActivityExecutor(backend).queue == "orders"
    assert ActivityExecutor(backend, "other").queue == "other"


async def test_a_batch_answers_per_item_in_input_order(backend: FaultyBackend) -> None:
    executor = ActivityExecutor(backend)
    work = executor.activity("work")
    held = await work.idempotency_key("held").execute()
    futures = await executor.execute_many(
        [
            work,
            work.idempotency_key("held"),
            work.idempotency_key("held", behavior="no_reuse"),
            work.idempotency_key("free"),
        ]
    )
    assert [future.status for future in futures] == [
        EnqueueStatus.CREATED,
        EnqueueStatus.EXISTING,
        EnqueueStatus.DUPLICATE,
        EnqueueStatus.CREATED,
    ]
    assert [future.id == held.id for future in futures] == [False, True, True, False]
    assert backend.calls["enqueue"] == 2
    with pytest.raises(DuplicateActivity, match="held"):
        await futures[2]


async def test_an_empty_batch_asks_the_backend_nothing(backend: FaultyBackend) -> None:
    assert await ActivityExecutor(backend).execute_many([]) == []
    assert backend.calls["enqueue"] == 0


@pytest.mark.parametrize("wrong", ["send", None, {"type": "send"}])
async def test_what_is_no_builder_is_refused_by_its_place(
    backend: FaultyBackend, wrong: Any
) -> None:
    executor = ActivityExecutor(backend)
    with pytest.raises(InvalidActivity, match=r"^builders\[1\]: "):
        await executor.execute_many([executor.activity("send"), wrong])


async def test_the_text_of_an_id_is_as_good_as_the_id(backend: FaultyBackend) -> None:
    executor = ActivityExecutor(backend)
    future = await executor.activity("send").execute()
    assert executor.future(str(future.id)).id == future.id


@pytest.mark.parametrize("wrong", ["nope", "", None, 7])
def test_what_is_no_id_has_no_future(wrong: Any) -> None:
    with pytest.raises(InvalidActivity, match=r"^activity_id: "):
        ActivityExecutor(FaultyBackend(MemoryBackend())).future(wrong)


async def test_a_batch_may_be_any_iterable(backend: FaultyBackend) -> None:
    executor = ActivityExecutor(backend)
    builders: Any = (executor.activity("work").payload(number) for number in range(3))
    assert len(await executor.execute_many(builders)) == 3


async def test_a_duplicate_is_raised_with_the_id_that_holds_the_key(backend: FaultyBackend) -> None:
    work = ActivityExecutor(backend).activity("work").idempotency_key("k", behavior="no_reuse")
    first = await work.execute()
    with pytest.raises(DuplicateActivity) as caught:
        await work.execute()
    assert (caught.value.existing_id, caught.value.key) == (first.id, "k")


async def test_an_enqueue_whose_answer_is_lost_is_repeated_without_a_second_activity(
    backend: FaultyBackend,
) -> None:
    executor = ActivityExecutor(backend)
    backend.lose_answer("enqueue", times=2)
    await executor.activity("work").execute()
    assert backend.calls["enqueue"] == 3
    stats = await backend.stats("orders")
    assert sum(stats.counts.values()) == 1


async def test_an_enqueue_gives_up_after_its_timeout(backend: FaultyBackend) -> None:
    backend.cut_off()
    with pytest.raises(BackendUnavailable):
        await ActivityExecutor(backend, enqueue_timeout=0.2).activity("work").execute()
    assert backend.calls["enqueue"] >= 2


async def test_a_refusal_of_the_backend_is_not_repeated(backend: FaultyBackend) -> None:
    backend.refuse("enqueue")
    with pytest.raises(StorageError, match="refused"):
        await ActivityExecutor(backend).activity("work").execute()
    assert backend.calls["enqueue"] == 1


async def test_what_is_enqueued_is_counted_by_type(backend: FaultyBackend) -> None:
    metrics = Counting()
    executor = ActivityExecutor(backend, metrics=metrics)
    one, two = executor.activity("one"), executor.activity("two").idempotency_key("k")
    await executor.execute_many([one, one, two, two])
    assert metrics.counts["runnerq_activities_enqueued_total", "one"] == 2
    assert metrics.counts["runnerq_activities_enqueued_total", "two"] == 1
    assert metrics.counts["runnerq_enqueue_deduplicated_total", "two"] == 1


async def test_a_metrics_sink_that_fails_does_not_fail_the_enqueue(
    backend: FaultyBackend, caplog: pytest.LogCaptureFixture
) -> None:
    executor = ActivityExecutor(backend, metrics=Broken())
    await executor.activity("work").execute()
    await executor.activity("work").execute()
    assert caplog.text.count("the metrics sink failed") == 1


async def test_an_executor_closes_only_a_backend_of_its_own(backend: FaultyBackend) -> None:
    async with ActivityExecutor(backend):
        pass
    assert backend.calls["close"] == 0
    async with ActivityExecutor(backend, owns_backend=True):
        pass
    assert backend.calls["close"] == 1
