"""Claiming: in batches, woken when there is work, patient when there is none or no backend."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.conformance.eventually import eventually
from tests.unit.engine.rig import Rig

from runnerq import ActivityState, CapabilityMissing, ConfigurationError, NoopMetrics, activity
from runnerq.engine.service import Service
from runnerq.storage.ports import Capabilities
from runnerq.storage.records import EventKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runnerq.storage.records import ClaimRequest


@activity("work")
async def work(value: int) -> int:
    return value


@activity("other", priority="high")
async def other() -> None: ...


async def test_an_idle_engine_is_woken_by_new_work(rig: Rig) -> None:
    await rig.start(work, shortest_poll=3.0, longest_poll=30.0)
    await eventually(lambda: rig.backend.calls["claim"] >= 1)
    began = time.monotonic()
    assert await rig.result(await rig.enqueue("work", 5)) == 5
    assert time.monotonic() - began < 2.0


async def test_an_idle_engine_polls_more_and_more_rarely(rig: Rig) -> None:
    engine = await rig.start(work, shortest_poll=0.01, longest_poll=60.0)
    await eventually(lambda: rig.backend.calls["claim"] >= 5)
    claims = rig.backend.calls["claim"]
    beats = rig.backend.calls["heartbeat_blocking"]
    # Five further heartbeats are 0.25 s: at the first pace that would be 25 polls.
    await eventually(lambda: rig.backend.calls["heartbeat_blocking"] >= beats + 5)
    assert rig.backend.calls["claim"] - claims <= 5
    assert engine.busy == 0


async def test_delayed_work_is_found_without_a_wake_up(rig: Rig) -> None:
    await rig.start(work, longest_poll=0.05)
    assert await rig.result(await rig.enqueue("work", 5, delay=0.1)) == 5


async def test_claims_come_in_batches_within_the_limit(rig: Rig) -> None:
    requests: list[ClaimRequest] = []

    def note(request: ClaimRequest) -> bool:
        requests.append(request)
        return False

    rig.backend.fail("claim", when=note)
    futures = [await rig.enqueue("work", number) for number in range(40)]
    await rig.start(work, max_workers=20, claim_batch=8)
    for future in futures:
        await rig.result(future)
    assert max(request.limit for request in requests) == 8
    assert all(request.types == ("work",) for request in requests)
    assert len(requests) < 30


async def test_an_outage_is_waited_through(rig: Rig) -> None:
    rig.backend.fail("claim", times=5)
    await rig.start(work)
    assert await rig.result(await rig.enqueue("work", 5)) == 5
    assert rig.backend.calls["claim"] >= 6


async def test_a_claim_that_raises_something_else_is_tried_again(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    rig.backend.fail("claim", error=ZeroDivisionError("a bug"))
    await rig.start(work)
    assert await rig.result(await rig.enqueue("work", 5)) == 5
    assert "service claimer failed" in caplog.text


async def test_what_a_claim_has_brought_is_handed_back_when_the_engine_stops_meanwhile(
    rig: Rig,
) -> None:
    engine = await rig.start(work, drain_timeout=60)
    stall = rig.backend.stall("claim")
    futures = [await rig.enqueue("work", number) for number in range(3)]
    await eventually(lambda: stall.waiting == 1)
    stopping = asyncio.ensure_future(engine.stop())
    await eventually(lambda: engine.phase == "stopping")
    stall.release()
    # At once: nobody waits the grace out for a handler that never began.
    async with asyncio.timeout(20):
        await stopping
    for future in futures:
        snapshot = await rig.look(future.id)
        assert (snapshot.status, snapshot.attempt) == (ActivityState.PENDING, 0)
        assert EventKind.RELEASED in await rig.events(future)


class Broken(NoopMetrics):
    """A sink of a user, which raises from the hot path."""

    def inc_counter(
        self, name: str, value: float = 1, labels: Mapping[str, str] | None = None
    ) -> None:
        raise ValueError(name)

    def observe_size(
        self, name: str, value: float, labels: Mapping[str, str] | None = None
    ) -> None:
        raise ValueError(name)


async def test_a_metrics_sink_that_fails_costs_no_claim_and_no_outcome(rig: Rig) -> None:
    await rig.start(work, metrics=Broken())
    for number in range(5):
        assert await rig.result(await rig.enqueue("work", number)) == number


async def test_an_engine_claims_only_what_its_patterns_select(rig: Rig) -> None:
    engine = await rig.start(work, other, activity_types=["wor*"])
    assert engine.types == ("work",)
    foreign = await rig.enqueue("other")
    assert await rig.result(await rig.enqueue("work", 5)) == 5
    assert (await rig.look(foreign.id)).status is ActivityState.PENDING


@pytest.mark.parametrize(
    ("types", "field"),
    [
        (["work", "absent"], "activity_types[1]"),
        (["absent_*"], "activity_types[0]"),
        ([], "activity_types"),
    ],
)
async def test_types_without_a_handler_are_an_error_at_start(
    rig: Rig, types: Any, field: str
) -> None:
    engine = rig.make(work, activity_types=types)
    with pytest.raises(ConfigurationError) as caught:
        await engine.start()
    assert caught.value.field == field


async def test_an_engine_without_handlers_is_an_error_at_start(rig: Rig) -> None:
    with pytest.raises(ConfigurationError, match=r"^activities: there is no handler"):
        await rig.make().start()


@pytest.mark.parametrize(
    ("lacking", "settings"),
    [("type_filter", {"activity_types": ["work"]}), ("priorities", {})],
)
async def test_what_a_backend_cannot_do_is_an_error_at_start(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, lacking: str, settings: dict[str, Any]
) -> None:
    without = Capabilities(
        name="poor",
        type_filter=lacking != "type_filter",
        priorities=lacking != "priorities",
    )
    monkeypatch.setattr(type(rig.backend), "capabilities", without)
    with pytest.raises(CapabilityMissing, match=f"backend 'poor' has no capability '{lacking}'"):
        await rig.make(work, other, **settings).start()


async def test_due_work_is_promoted_for_a_backend_that_does_not_schedule(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        type(rig.backend), "capabilities", Capabilities(name="plain", native_schedule=False)
    )
    rig.backend.fail("process_scheduled")
    await rig.start(work, schedule_poll_interval=0.01)
    await eventually(lambda: rig.backend.calls["process_scheduled"] >= 3)


class Loop(Service):
    def __init__(self) -> None:
        super().__init__("loop")
        self.runs = 0

    async def run(self) -> None:
        self.runs += 1
        if self.runs < 3:
            raise ValueError("x")
        await asyncio.sleep(3600)


async def test_a_service_that_fails_is_started_again_and_stops_once() -> None:
    loop = Loop()
    await loop.stop()
    loop.start()
    loop.start()
    await eventually(lambda: loop.runs == 3)
    await loop.stop()
    await loop.stop()
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "runnerq-loop"]
