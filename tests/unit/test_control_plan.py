"""plan(): what a pass does about what it saw. Pure, so every case is a table of its own."""

from __future__ import annotations

from datetime import timedelta

import msgspec
from tests.unit.control_views import (
    POOL,
    at,
    demand,
    desired_queue,
    engine_status,
    mail_pool,
    observed,
    pod,
    view,
)

from runnerq.storage.records import EngineState, QueueDemand, TypeDemand
from runnerq_operator.autoscale.decide import Decision, decide
from runnerq_operator.autoscale.inputs import PoolInputs, QueueInputs
from runnerq_operator.autoscale.memory import QueueMemory
from runnerq_operator.control.actions import (
    Cordon,
    PreferVictims,
    RecordDecision,
    RecordPods,
    RemovePool,
    SetReplicas,
)
from runnerq_operator.control.backends import DemandRead
from runnerq_operator.control.observation import Observation, PoolObservation
from runnerq_operator.control.plan import PlanMemory, plan, target_of, undone
from runnerq_operator.control.reading import engines_of, reading_of, uncovered_types
from runnerq_operator.fleet.port import FleetState


def decision(replicas: int, *, current: int = 0, mode: str = "Auto") -> Decision:
    """A decision for this number, as decide() makes it for a pool scaled by hand."""
    inputs = PoolInputs(
        entry=mail_pool(mode="Disabled"), replicas=current, requested_replicas=replicas
    )
    _, decided = decide(
        QueueMemory(), QueueInputs(now=0.0, reading=reading_of(demand()), pools=(inputs,))
    )
    made = decided["mail"]
    if mode == "Auto":
        explanation = msgspec.structs.replace(made.explanation, steps=(), terms=None)
        return msgspec.structs.replace(made, explanation=explanation)
    return made


def seen(
    pool: PoolObservation,
    decided: Decision | None = None,
    *,
    now: float = 0.0,
    read: QueueDemand | None = None,
    failed: bool = False,
) -> Observation:
    answer = (
        DemandRead(number=1, reason="NoAnswer", message="away")
        if failed
        else DemandRead(number=1, demand=read or demand(seconds=now))
    )
    return Observation(
        desired=desired_queue(),
        now=now,
        at=at(now),
        read=answer,
        backend_ready=True,
        backend_kind="Postgres",
        pools=(pool,),
        decisions={"mail": decided} if decided else {},
    )


def told(*kinds: type, actions: tuple[object, ...]) -> list[object]:
    return [action for action in actions if isinstance(action, kinds)]


def test_a_higher_decision_sets_the_replicas_on_what_was_observed():
    made = plan(seen(observed([pod("a")]), decision(3, current=1)), PlanMemory())
    assert told(SetReplicas, actions=made.actions) == [
        SetReplicas(pool=POOL, replicas=3, current=1, version="7")
    ]


def test_the_same_number_does_nothing_but_record_it_once():
    observation = seen(observed([pod("a")]), decision(1, current=1))
    first = plan(observation, PlanMemory())
    assert [type(action) for action in first.actions] == [RecordDecision, RecordPods]
    assert plan(observation, first.memory).actions == ()


def test_those_who_stay_are_let_in_before_anybody_is_kept_out_and_replicas_come_last():
    pods = [pod("a"), pod("b")]
    engines = [view("a", busy=1, cordoned=True), view("b")]
    memory = plan(seen(observed(pods, engines), decision(1, current=2)), PlanMemory()).memory
    engines = [view("a", busy=1, cordoned=True), view("b", cordoned=True, beat=1)]
    memory = plan(seen(observed(pods, engines), decision(1, current=2), now=1.0), memory).memory
    made = plan(seen(observed(pods, engines), decision(1, current=2), now=2.0), memory)
    engines = [view("a", busy=1), view("b", cordoned=True, beat=3)]
    made = plan(seen(observed(pods, engines), decision(1, current=2), now=4.0), made.memory)
    kinds = [type(action) for action in made.actions if not isinstance(action, RecordPods)]
    assert kinds == [PreferVictims, SetReplicas]
    assert made.draining


def test_a_failed_action_is_not_remembered_as_done():
    pods = [pod("a")]
    engines = [view("a", cordoned=True, beat=-1)]
    before = plan(seen(observed(pods, engines), decision(0, current=1)), PlanMemory()).memory
    engines = [view("a", cordoned=True, beat=1)]
    made = plan(seen(observed(pods, engines), decision(0, current=1), now=1.0), before)
    assert made.memory.drains["mail"].leaving == {"a"}
    failed = [action for action in made.actions if isinstance(action, SetReplicas)]
    after = undone(before, made.memory, iter(failed))
    assert after.drains["mail"].leaving == frozenset()
    assert after.drains["mail"].victims.keys() == {"a"}


def test_a_record_that_failed_is_tried_again():
    observation = seen(observed([pod("a")]), decision(1, current=1))
    first = plan(observation, PlanMemory())
    after = undone(PlanMemory(), first.memory, iter(first.actions))
    assert plan(observation, after).actions == first.actions


def test_nothing_is_recorded_while_the_backend_does_not_answer():
    made = plan(seen(observed([pod("a")]), decision(1, current=1), failed=True), PlanMemory())
    assert made.actions == ()


def test_without_a_decision_the_replicas_stay():
    pool = observed([pod("a"), pod("b")])
    assert target_of(pool, {}) == 2
    assert told(SetReplicas, Cordon, actions=plan(seen(pool), PlanMemory()).actions) == []


def test_a_pool_that_left_the_spec_goes_to_nothing_and_is_then_removed():
    gone = msgspec.structs.replace(observed([], replicas=0), entry=None)
    assert told(RemovePool, actions=plan(seen(gone), PlanMemory()).actions) == [
        RemovePool(pool=POOL)
    ]
    busy = msgspec.structs.replace(observed([pod("a")], [view("a", busy=1)]), entry=None)
    made = plan(seen(busy), PlanMemory())
    assert told(RemovePool, SetReplicas, actions=made.actions) == []
    assert told(Cordon, actions=made.actions)


def test_a_pool_that_does_not_exist_yet_is_left_alone():
    absent = PoolObservation(key=POOL, entry=mail_pool(), fleet=None)
    assert told(SetReplicas, actions=plan(seen(absent, decision(2)), PlanMemory()).actions) == []


def test_a_decision_record_carries_limits_mode_and_explanation():
    made = plan(seen(observed([]), decision(2, mode="Disabled")), PlanMemory())
    (record,) = told(RecordDecision, actions=made.actions)
    assert isinstance(record, RecordDecision)
    assert (record.record.from_replicas, record.record.to_replicas) == (0, 2)
    assert record.record.reason == "Disabled"
    detail = record.record.detail
    assert (detail["min"], detail["max"], detail["mode"]) == (0, 10, "Auto")
    assert detail["explanation"]["replicas"] == 2


def test_pods_are_recorded_with_their_phase_when_one_changed():
    state = FleetState(pool=POOL, replicas=1, pods=(pod("a", detail="pulling"),), version="1")
    pool = msgspec.structs.replace(observed([]), fleet=state)
    made = plan(seen(pool, decision(1, current=1)), PlanMemory())
    (records,) = told(RecordPods, actions=made.actions)
    assert isinstance(records, RecordPods)
    assert [(one.name, one.phase, one.detail) for one in records.pods] == [
        ("a", "ready", "pulling")
    ]


class TestReading:
    """From storage's answer to what decide() and plan() take."""

    def test_milliseconds_become_seconds_and_nothing_stays_nothing(self):
        read = reading_of(
            demand(
                TypeDemand(
                    type="a", claimable=2, oldest_claimable_age_ms=1500, running=1, due_soon=3
                ),
                TypeDemand(type="b", claimable=0),
            )
        )
        first, second = read.types
        assert (first.oldest_seconds, first.running, first.due) == (1.5, 1, 3)
        assert second.oldest_seconds is None

    def test_a_silent_engine_is_not_alive(self):
        quick, silent, stopped = (
            engine_status("a"),
            engine_status("b", silent_ms=15_000),
            engine_status("c", state=EngineState.STOPPED),
        )
        read = reading_of(demand(engines=(quick, silent, stopped)))
        assert [engine.alive for engine in read.engines] == [True, False, False]
        views = engines_of(demand(engines=(quick, silent, stopped)), "mail")
        assert [one.pod for one in views] == ["a"]

    def test_an_engines_report_is_dated_by_the_backends_clock(self):
        (one,) = engines_of(
            demand(engines=(engine_status("a", silent_ms=2000),), seconds=10), "mail"
        )
        assert one.beat_at == at(10) - timedelta(seconds=2)

    def test_an_engine_holds_nothing_when_nothing_of_its_types_runs(self):
        engines = (
            engine_status("a", types=("send_mail",)),
            engine_status("b", types=("send_mail", "report")),
        )
        read = demand(TypeDemand(type="report", claimable=0, running=1), engines=engines)
        assert [one.nothing_runs for one in engines_of(read, "mail")] == [True, False]

    def test_a_waiting_type_is_covered_by_a_pool_or_by_any_live_engine(self):
        waiting = (
            TypeDemand(type="a", claimable=1),
            TypeDemand(type="b", claimable=1),
            TypeDemand(type="c", claimable=1),
            TypeDemand(type="idle", claimable=0),
        )
        by_hand = engine_status("x", types=("b",), pool="")
        read = demand(*waiting, engines=(by_hand,))
        assert uncovered_types(read, served=["a"], patterns=["a"], required=[]) == ("c",)

    def test_a_required_type_is_covered_by_a_pattern_before_it_is_asked_for(self):
        read = demand()
        assert uncovered_types(read, served=[], patterns=["re*"], required=["report"]) == ()
        assert uncovered_types(read, served=[], patterns=["x"], required=["report"]) == ("report",)
