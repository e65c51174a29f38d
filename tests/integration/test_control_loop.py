"""The control loop with a backend and workers that really claim, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from tests.simulated import stage, until
from tests.unit.control_views import desired_queue
from tests.virtual_time import run_in_virtual_time

from runnerq.storage.records import ActivityState, Claim, Priority
from runnerq_operator.control.desired import BackendProblem
from runnerq_operator.fleet.port import PodPhase
from runnerq_operator.model.conditions import CONDITIONS, EVENTS
from runnerq_operator.model.status import ConditionStatus

QUICK = {
    "tickSeconds": 1,
    "riseDelaySeconds": 2,
    "scaleDownWindowSeconds": 5,
    "scaleToZeroSeconds": 5,
}


def lasting(seconds: float, *, urgent: float | None = None) -> Callable[[Claim], float]:
    """How long an activity runs; those of the highest priority may take another time."""

    def seconds_of(claim: Claim) -> float:
        return seconds if urgent is None or claim.priority is not Priority.CRITICAL else urgent

    return seconds_of


def played(play: Callable[[], Awaitable[None]]) -> None:
    """Run the play in virtual time, with an end."""

    async def bounded() -> None:
        async with asyncio.timeout(100_000):
            await play()

    run_in_virtual_time(bounded())


def test_from_nothing_to_many_and_back_to_nothing():
    async def play() -> None:
        async with stage(desired_queue({"pools.0.scaling": {"behavior": QUICK}})) as on:
            await until(lambda: on.sink.says("Ready", "True"), within=5)
            assert on.fleet.made == 0
            await on.enqueue(300)
            await until(lambda: on.fleet.ready() >= 3, within=10)
            await until(lambda: not on.fleet.workers(), within=120)
            assert await on.count(ActivityState.COMPLETED) == 300
            assert on.fleet.stopped_busy == []
            assert on.sink.events[0] == "ActivatedFromZero"
            assert on.sink.events[-1] == "ScaledToZero"

    played(play)


def test_the_first_worker_is_not_kept_waiting_for_a_tick():
    slow = {"tickSeconds": 300}

    async def play() -> None:
        async with stage(desired_queue({"pools.0.scaling": {"behavior": slow}})) as on:
            await until(lambda: on.sink.passed, within=5)
            await asyncio.sleep(2)
            await on.enqueue(1)
            assert await until(on.fleet.workers, within=1) < 0.5

    played(play)


def test_a_busy_worker_is_kept_while_idle_ones_leave():
    """One activity of ten minutes among short ones, and then the queue is empty."""

    async def play() -> None:
        async with stage(
            desired_queue({"pools.0.concurrency": 1, "pools.0.scaling": {"behavior": QUICK}}),
            seconds=lasting(5, urgent=600),
        ) as on:
            await on.enqueue(1, priority=Priority.CRITICAL)
            await on.enqueue(30)
            await until(lambda: on.fleet.ready() >= 4, within=60)
            [busy] = [w for w in on.fleet.workers() if w.running][:1]
            await until(lambda: len(on.fleet.workers()) == 0, within=900)
            assert busy.name not in on.fleet.stopped_busy
            assert on.fleet.stopped_busy == []
            assert await on.count(ActivityState.COMPLETED) == 31

    played(play)


def test_a_long_activity_holds_exactly_its_worker():
    async def play() -> None:
        async with stage(
            desired_queue(
                {
                    "pools.0.concurrency": 1,
                    "pools.0.scaling": {"behavior": QUICK},
                    "pools.0.drain": {"timeoutSeconds": 3600},
                }
            ),
            seconds=lasting(2, urgent=600),
        ) as on:
            await on.enqueue(1, priority=Priority.CRITICAL)
            await on.enqueue(20)
            await until(lambda: on.fleet.ready() >= 4, within=60)
            await until(lambda: len(on.fleet.workers()) == 1, within=120)
            (last,) = on.fleet.workers()
            assert len(last.running) == 1
            await asyncio.sleep(300)
            assert on.fleet.workers() == [last]
            await until(lambda: not on.fleet.workers(), within=400)
            assert on.fleet.stopped_busy == []

    played(play)


def test_an_outage_of_the_backend_changes_no_replicas_and_is_said_once():
    async def play() -> None:
        async with stage(
            desired_queue({"pools.0.scaling": {"expectedSeconds": 30, "behavior": QUICK}}),
            seconds=lasting(30),
        ) as on:
            await on.enqueue(50)
            await until(lambda: on.fleet.ready() == 5, within=30)
            on.backend.cut_off()
            before = len(on.fleet.calls)
            await asyncio.sleep(600)
            assert len(on.fleet.calls) == before
            assert on.sink.condition("BackendReachable").status == "False"
            assert on.sink.condition("BackendReachable").reason == "NoAnswer"
            assert on.sink.condition("ScalingActive").reason == "DemandUnknown"
            assert on.sink.condition("Ready").status == "False"
            assert on.sink.events.count("ScalingHeld") == 1
            on.backend.heal()
            await until(lambda: on.sink.says("BackendReachable", "True"), within=5)
            await until(lambda: not on.fleet.workers(), within=120)

    played(play)


def test_the_fallback_holds_workers_through_an_outage_also_from_zero():
    fallback = {"behavior": QUICK, "fallback": {"replicas": 2, "afterFailures": 3}}

    async def play() -> None:
        async with stage(desired_queue({"pools.0.scaling": fallback})) as on:
            await until(lambda: on.sink.says("Ready", "True"), within=5)
            on.backend.cut_off()
            await until(lambda: on.fleet.ready() == 2, within=20)
            assert on.sink.condition("FallbackActive").status == "True"
            assert on.sink.events.count("FallbackEntered") == 1
            on.backend.heal()
            await until(lambda: not on.fleet.workers(), within=60)
            assert "FallbackLeft" in on.sink.events

    played(play)


def test_a_backend_that_was_never_there_starts_nobody():
    async def play() -> None:
        scaling = {"minReplicas": 2, "behavior": QUICK}
        async with stage(desired_queue({"pools.0.scaling": scaling})) as on:
            on.backend.cut_off()
            await asyncio.sleep(60)
            assert on.fleet.made == 0
            assert on.sink.condition("SchemaCompatible").status == "Unknown"
            on.backend.heal()
            await until(lambda: on.fleet.ready() == 2, within=70)
            assert on.backend.calls["migrate"] >= 2

    played(play)


def test_the_schema_is_migrated_before_the_first_worker():
    async def play() -> None:
        async with stage(desired_queue({"pools.0.scaling": {"minReplicas": 1}})) as on:
            await until(lambda: on.fleet.made == 1, within=5)
            assert on.backend.calls["migrate"] == 1

    played(play)


def test_scaling_by_hand_works_in_mode_disabled():
    async def play() -> None:
        async with stage(
            desired_queue({"pools.0.scaling": {"mode": "Disabled", "behavior": QUICK}})
        ) as on:
            await until(lambda: on.fleet.by_key, within=5)
            on.fleet.request(3)
            await until(lambda: on.fleet.ready() == 3, within=10)
            on.fleet.request(1)
            await until(lambda: len(on.fleet.workers()) == 1, within=60)
            assert "ManualScaleIgnored" not in on.sink.events
            assert on.sink.condition("ScalingActive").reason == "Disabled"

    played(play)


def test_scaling_by_hand_is_ignored_and_said_so_while_it_is_automatic():
    async def play() -> None:
        async with stage(desired_queue({"pools.0.scaling": {"behavior": QUICK}})) as on:
            await until(lambda: on.fleet.by_key, within=5)
            on.fleet.request(3)
            await asyncio.sleep(30)
            assert on.fleet.made == 0
            assert on.sink.events.count("ManualScaleIgnored") == 1

    played(play)


def test_a_pause_freezes_and_its_end_goes_on():
    async def play() -> None:
        edits = {"pools.0.scaling": {"behavior": QUICK}}
        async with stage(desired_queue({**edits, "paused": "Scaling"})) as on:
            await on.enqueue(100)
            await asyncio.sleep(60)
            assert on.fleet.made == 0
            assert on.sink.condition("Paused").status == "True"
            on.apply(desired_queue(edits))
            await until(lambda: on.fleet.ready() > 0, within=10)
            assert on.sink.condition("Paused").status == "False"

    played(play)


def test_a_pool_that_left_the_spec_is_drained_and_removed():
    two = {
        "pools.0.scaling": {"minReplicas": 1, "behavior": QUICK},
        "pools.1": {
            "name": "old",
            "activityTypes": ["old_mail"],
            "app": "shop.old",
            "scaling": {"minReplicas": 2, "behavior": QUICK},
        },
    }

    async def play() -> None:
        async with stage(
            desired_queue(two), handled=("send_mail", "old_mail"), seconds=lasting(8)
        ) as on:
            await until(lambda: on.fleet.ready("old") == 2, within=10)
            await on.enqueue(1, "old_mail")
            await until(lambda: any(w.running for w in on.fleet.workers("old")), within=5)
            one = {"pools.0.scaling": two["pools.0.scaling"]}
            on.apply(desired_queue(one))
            await until(lambda: len(on.fleet.by_key) == 1, within=60)
            assert on.fleet.stopped_busy == []
            assert on.fleet.ready() == 1

    played(play)


def test_a_refused_template_is_said_in_the_apis_own_words_and_others_work_on():
    async def play() -> None:
        async with stage(desired_queue({"pools.0.scaling": {"behavior": QUICK}})) as on:
            on.fleet.refusals["mail"] = "spec.containers[0].image: Required value"
            await asyncio.sleep(5)
            assert on.sink.condition("TemplateValid").message.endswith("image: Required value")
            assert on.sink.condition("Ready").reason == "TemplateNotValid"
            assert on.sink.condition("Stalled").status == "True"
            assert on.sink.events.count("TemplateInvalid") == 1
            del on.fleet.refusals["mail"]
            await until(lambda: on.sink.says("Ready", "True"), within=5)

    played(play)


def test_a_fleet_that_does_not_answer_is_asked_again():
    async def play() -> None:
        async with stage(desired_queue({"pools.0.scaling": {"behavior": QUICK}})) as on:
            await until(lambda: on.sink.says("Ready", "True"), within=5)
            on.fleet.unavailable = True
            await on.enqueue(10)
            await asyncio.sleep(200)
            on.fleet.unavailable = False
            await until(lambda: on.fleet.ready() > 0, within=70)

    played(play)


def test_workers_that_find_no_place_stop_the_rise():
    async def play() -> None:
        async with stage(
            desired_queue({"pools.0.scaling": {"expectedSeconds": 60, "behavior": QUICK}}),
            seconds=lasting(60),
        ) as on:
            on.fleet.unschedulable_above = 3
            await on.enqueue(60)
            await asyncio.sleep(70)
            asked = on.fleet.by_key[next(iter(on.fleet.by_key))].replicas
            await on.enqueue(2000)
            await asyncio.sleep(60)
            assert on.fleet.by_key[next(iter(on.fleet.by_key))].replicas == asked
            assert on.sink.condition("ScalingLimited").reason == "Unschedulable"
            assert on.sink.condition("Stalled").reason == "PodsUnschedulable"
            assert any(w.phase is PodPhase.UNSCHEDULABLE for w in on.fleet.workers())

    played(play)


def test_an_idle_queue_is_written_once_and_then_left_alone():
    async def play() -> None:
        async with stage(desired_queue({"pools.0.scaling": {"behavior": QUICK}})) as on:
            await asyncio.sleep(30)
            written = len(on.sink.reports)
            await asyncio.sleep(3600)
            assert len(on.sink.reports) == written
            assert written <= 4

    played(play)


def test_a_busy_queue_is_written_at_most_every_five_seconds():
    async def play() -> None:
        async with stage(
            desired_queue({"pools.0.scaling": {"maxReplicas": 1, "behavior": QUICK}})
        ) as on:
            await on.enqueue(5000)
            await asyncio.sleep(60)
            written = len(on.sink.reports)
            await asyncio.sleep(300)
            assert 30 <= len(on.sink.reports) - written <= 62

    played(play)


def test_what_the_sink_did_not_take_comes_again_with_its_events():
    async def play() -> None:
        async with stage(desired_queue({"pools.0.scaling": {"behavior": QUICK}})) as on:
            await until(lambda: on.sink.says("Ready", "True"), within=5)
            on.sink.failing = True
            await on.enqueue(20)
            await asyncio.sleep(10)
            assert "ActivatedFromZero" not in on.sink.events
            on.sink.failing = False
            await until(lambda: "ActivatedFromZero" in on.sink.events, within=70)
            assert on.sink.events.count("ActivatedFromZero") == 1

    played(play)


def test_queues_of_one_backend_share_one_read_per_tick():
    names = [f"q{number}" for number in range(20)]

    async def play() -> None:
        queues = [desired_queue({"queueName": name}) for name in names]
        keyed = [
            type(queue)(
                key=type(queue.key)("", name), spec=queue.spec, backend=queue.backend, generation=1
            )
            for name, queue in zip(names, queues, strict=True)
        ]
        async with stage(*keyed) as on:
            await asyncio.sleep(30)
            before = on.backend.calls["demand"]
            await asyncio.sleep(300)
            assert on.opened == ["memory://"]
            # A tick is 5 s: 60 reads in 300 s, and some where the queues' ticks drift apart.
            assert on.backend.calls["demand"] - before <= 130

    played(play)


def test_a_pool_at_zero_beside_a_busy_one_does_not_make_the_loop_read_at_every_enqueue():
    edits = {
        "pools.0.scaling": {"minReplicas": 1, "maxReplicas": 1},
        "pools.1": {"name": "rare", "activityTypes": ["report"], "app": "shop.reports"},
    }

    async def play() -> None:
        async with stage(
            desired_queue(edits), handled=("send_mail", "report"), seconds=lasting(0.1)
        ) as on:
            await until(lambda: on.fleet.ready() == 1, within=10)
            before = on.backend.calls["demand"]
            for _ in range(3000):
                await on.enqueue(1)
                await asyncio.sleep(0.02)
            # 60 s of 50 enqueues a second; a tick is 5 s, and each change of a pool is a pass.
            assert on.backend.calls["demand"] - before <= 25
            await on.enqueue(1, "report")
            assert await until(lambda: on.fleet.workers("rare"), within=10) <= 5.1

    played(play)


def test_decisions_and_pods_are_recorded_for_the_console_on_change_only():
    async def play() -> None:
        async with stage(desired_queue({"pools.0.scaling": {"behavior": QUICK}})) as on:
            await on.enqueue(100)
            await until(lambda: on.fleet.ready() > 0, within=20)
            await asyncio.sleep(2)
            pods = await on.backend.pods("shop")
            assert {pod.phase for pod in pods} <= {"ready", "starting"}
            assert {pod.name for pod in pods} == {w.name for w in on.fleet.workers()}
            await until(lambda: not on.fleet.workers(), within=120)
            await asyncio.sleep(5)
            decisions = await on.backend.decisions("shop")
            assert decisions[-1].detail["min"] == 0
            assert decisions[-1].detail["max"] == 10
            assert decisions[0].to_replicas == 0
            assert decisions[0].from_replicas > 0
            assert await on.backend.pods("shop") == []
            recorded = on.backend.calls["record_decision"]
            await asyncio.sleep(600)
            assert on.backend.calls["record_decision"] == recorded
            changes = [(one.from_replicas, one.to_replicas) for one in reversed(decisions)]
            assert all(a != b for a, b in changes[1:])

    played(play)


def test_no_condition_and_no_event_is_outside_the_documented_ones():
    async def play() -> None:
        async with stage(
            desired_queue({"pools.0.scaling": {"behavior": QUICK}}), seconds=lasting(30)
        ) as on:
            await on.enqueue(900)
            await on.enqueue(3, "unheard_of")
            await asyncio.sleep(60)
            on.backend.cut_off()
            await asyncio.sleep(60)
            on.backend.heal()
            on.fleet.refusals["mail"] = "no"
            await asyncio.sleep(300)
            for report in on.sink.reports:
                for status in (report.status, *report.pools.values()):
                    for condition in status.conditions:
                        assert condition.reason in CONDITIONS[condition.type]
            assert set(on.sink.events) <= EVENTS.keys()
            assert {"SLOBreached", "SLORecovered", "CoverageLost"} <= set(on.sink.events)

    played(play)


def test_a_type_without_a_pool_is_named_and_counts_in_the_queues_backlog():
    async def play() -> None:
        async with stage(desired_queue({"pools.0.scaling": {"behavior": QUICK}})) as on:
            await on.enqueue(3, "unheard_of")
            await until(
                lambda: on.sink.reports and on.sink.reports[-1].status.coverage.startswith("Miss"),
                within=10,
            )
            status = on.sink.reports[-1].status
            assert status.coverage == "Missing: unheard_of"
            assert status.backlog == 3
            assert on.sink.condition("CoverageComplete").reason == "TypesWithoutWorkers"
            assert on.fleet.made == 0

    played(play)


def test_an_address_that_cannot_be_used_is_said_and_stops_nobody_else():
    async def play() -> None:
        problem = BackendProblem(reason="SecretNotFound", message="Secret shop-postgres: not found")
        async with stage(desired_queue(backend=problem)) as on:
            await until(lambda: on.sink.passed, within=5)
            condition = on.sink.condition("BackendReachable")
            assert condition.reason == "SecretNotFound"
            assert condition.message == "Secret shop-postgres: not found"
            assert on.fleet.by_key == {}
            on.apply(desired_queue())
            await until(lambda: on.sink.says("Ready", "True"), within=10)

    played(play)


def test_conditions_keep_their_time_while_they_do_not_change():
    async def play() -> None:
        async with stage(desired_queue({"pools.0.scaling": {"behavior": QUICK}})) as on:
            await until(lambda: on.sink.says("Ready", "True"), within=5)
            since = on.sink.condition("Ready").last_transition_time
            await on.enqueue(500)
            await until(lambda: on.sink.says("Ready", "False"), within=10)
            assert on.sink.condition("Ready").last_transition_time > since
            assert on.sink.condition("BackendReachable").last_transition_time == since

    played(play)


def test_a_restarted_loop_takes_over_what_it_finds_and_shrinks_nothing_at_first():
    async def play() -> None:
        quick = {**QUICK, "scaleDownWindowSeconds": 60}
        scaling = {"expectedSeconds": 30, "behavior": quick}
        desired = desired_queue({"pools.0.scaling": scaling})
        async with stage(desired, seconds=lasting(30)) as on:
            await on.enqueue(50)
            await until(lambda: on.fleet.ready() == 5, within=30)
            on.controller.forget(desired.key)
            await asyncio.sleep(1)
            on.apply(desired)
            await asyncio.sleep(50)
            assert len(on.fleet.workers()) == 5
            await until(lambda: not on.fleet.workers(), within=120)
            assert on.fleet.stopped_busy == []

    played(play)


def test_a_new_queue_shows_everything_as_unknown_first():
    async def play() -> None:
        async with stage() as on:
            await until(lambda: len(on.sink.reports) >= 2, within=5)
            first = on.sink.reports[0]
            assert {one.status for one in first.status.conditions} == {ConditionStatus.UNKNOWN}
            assert {one.reason for one in first.status.conditions} == {"NotObservedYet"}

    played(play)
