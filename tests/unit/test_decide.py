"""decide(): what a pool gets for what its queue asks."""

from __future__ import annotations

import msgspec
import pytest
from tests.unit.autoscaling import Loop, engine, entry, waiting

from runnerq_operator.autoscale.explanation import REASONS
from runnerq_operator.autoscale.inputs import Connections, Reading, TypeLoad

EMPTY = Reading()
SHORT = {
    "tickSeconds": 1,
    "riseDelaySeconds": 2,
    "scaleDownWindowSeconds": 10,
    "scaleToZeroSeconds": 5,
}


def test_a_pool_at_zero_without_work_stays_at_zero():
    loop = Loop()
    assert loop.step(EMPTY).replicas == 0
    assert loop.step(waiting(0)).reason == "Idle"


def test_one_activity_wakes_one_worker():
    loop = Loop()
    assert loop.step(waiting(1)).replicas == 1


def test_a_burst_is_answered_in_one_step():
    """1000 x 5 s, to be worked off in 0.6 x 60 - 10 - 1 = 25 s: 200 slots, 8 per worker."""
    decision = Loop().step(waiting(1000, age=1.0))
    terms = decision.explanation.terms
    assert terms is not None
    assert terms.slots == pytest.approx(200)
    assert terms.workers == 25
    assert decision.replicas == 20
    assert decision.explanation.clamped_by == "RiseStep"


def test_a_burst_of_what_twenty_workers_can_do_gets_exactly_those_it_needs():
    assert Loop().step(waiting(500)).replicas == 13


def test_there_are_never_more_slots_than_work():
    loop = Loop(entry(expectedSeconds=600, concurrency=1))
    assert loop.step(waiting(7)).replicas == 7


def test_what_is_running_counts_as_demand():
    loop = Loop()
    loop.change(replicas=4)
    loop.through_first_window(waiting(0, running=25))
    assert loop.step(waiting(0, running=25)).replicas == 4
    assert loop.decisions["mail"].reason == "InFlight"


def test_what_has_waited_long_is_worked_off_faster_within_reason():
    fresh, older, ancient = (
        Loop().step(waiting(100, age=age)).explanation.terms for age in (0.0, 13.0, 90_000.0)
    )
    assert fresh is not None
    assert older is not None
    assert ancient is not None
    assert older.drain == pytest.approx(2 * fresh.drain)
    assert ancient.drain == pytest.approx(4 * fresh.drain)


def test_free_slots_take_the_backlog_before_new_workers_are_asked_for():
    loop = Loop()
    loop.change(replicas=4)
    assert loop.step(waiting(20, running=10)).replicas == 4


def test_starting_workers_count_as_capacity():
    """The burst of the tick before must not be answered twice while its pods start."""
    loop = Loop()
    first = loop.step(waiting(500)).replicas
    assert loop.step(waiting(500)).replicas == first


def test_what_becomes_due_gets_workers_before_it_is_due():
    loop = Loop()
    decision = loop.step(waiting(0, due=40))
    assert decision.replicas == 1
    assert decision.reason == "Scheduled"


def test_a_steady_stream_keeps_its_workers_in_a_moment_without_backlog():
    loop = Loop(entry(concurrency=1))
    loop.change(replicas=10)
    started = 0
    for _ in range(80):
        started += 10
        counted = engine("e1", started=started, finished=started, run_seconds=started * 5.0)
        loop.step(msgspec.structs.replace(waiting(0, running=10), engines=(counted,)))
    assert 10 <= loop.step(waiting(0, running=2)).replicas <= 11
    terms = loop.decisions["mail"].explanation.terms
    assert terms is not None
    assert terms.steady == pytest.approx(10, rel=0.2)


def test_the_measured_time_replaces_the_guess_after_twenty_runs():
    loop = Loop(entry(expectedSeconds=100))
    loop.step(msgspec.structs.replace(waiting(0), engines=(engine("e1"),)))
    nineteen = engine("e1", started=19, finished=19, run_seconds=19.0)
    loop.step(msgspec.structs.replace(waiting(10), engines=(nineteen,)))
    terms = loop.decisions["mail"].explanation.terms
    assert terms is not None
    assert terms.service_seconds == pytest.approx(100)
    twenty = engine("e1", started=20, finished=20, run_seconds=20.0)
    loop.step(msgspec.structs.replace(waiting(10), engines=(twenty,)))
    terms = loop.decisions["mail"].explanation.terms
    assert terms is not None
    assert terms.service_seconds == pytest.approx(1.0)


class TestGoingDown:
    def test_nothing_shrinks_in_the_first_window_after_a_start(self):
        loop = Loop()
        loop.change(replicas=10)
        decision = loop.step(waiting(1))
        assert decision.replicas == 10
        assert decision.reason == "Restarted"

    def test_it_goes_down_only_to_the_highest_recommendation_of_the_window(self):
        loop = Loop()
        loop.change(replicas=10)
        loop.through_first_window(waiting(0, running=80))
        loop.step(waiting(0, running=40))
        assert loop.replicas == 10
        for _ in range(50):
            loop.step(waiting(0, running=8))
        assert loop.replicas == 1

    def test_a_small_saving_is_not_worth_a_change(self):
        loop = Loop()
        loop.change(replicas=10)
        loop.through_first_window(waiting(0, running=64))
        decision = loop.step(waiting(0, running=64))
        assert decision.replicas == 10
        assert decision.reason == "ScaleDownTolerance"

    def test_zero_comes_after_its_own_time_whatever_the_window(self):
        loop = Loop()
        loop.change(replicas=10)
        loop.through_first_window(waiting(0, running=80))
        for _ in range(24):
            loop.step(EMPTY)
            assert loop.replicas > 0
        loop.step(EMPTY)
        assert loop.replicas == 0
        assert loop.decisions["mail"].reason == "ScaleToZero"

    def test_work_between_two_reads_keeps_the_last_worker(self):
        """The queue is empty at every read, but the counters tell that it was not in between."""
        loop = Loop(entry(behavior=SHORT), tick=1)
        loop.change(replicas=1)
        for tick in range(60):
            counted = engine("e1", started=tick, finished=tick, run_seconds=tick * 0.01)
            loop.step(Reading(engines=(counted,)))
            assert loop.replicas == 1

    def test_the_minimum_stays(self):
        loop = Loop(entry(minReplicas=2, behavior=SHORT), tick=1)
        for _ in range(60):
            loop.step(EMPTY)
        assert loop.replicas == 2


class TestGoingUp:
    def test_a_small_rise_waits(self):
        loop = Loop(entry(concurrency=1, expectedSeconds=600))
        loop.change(replicas=20)
        assert loop.step(waiting(1, running=20)).reason == "RiseDelay"
        for _ in range(11):
            assert loop.step(waiting(1, running=20)).replicas == 20
        assert loop.step(waiting(1, running=20)).replicas > 20

    def test_a_small_rise_does_not_wait_when_the_age_nears_the_slo(self):
        loop = Loop(entry(concurrency=1, expectedSeconds=600))
        loop.change(replicas=20)
        assert loop.step(waiting(1, running=20, age=30)).replicas > 20

    def test_no_more_are_asked_for_while_workers_cannot_be_placed(self):
        loop = Loop()
        loop.step(waiting(100))
        loop.change(unschedulable=1)
        stuck = loop.replicas
        for _ in range(13):
            loop.step(waiting(100))
        risen = loop.replicas
        for backlog in (2000, 4000, 8000):
            decision = loop.step(waiting(backlog, age=120))
            assert decision.replicas == risen
        assert decision.reason == "Unschedulable"
        assert stuck <= risen

    def test_more_than_double_is_done_in_steps(self):
        loop = Loop(entry(maxReplicas=1000, concurrency=1))
        grown = [loop.step(waiting(9000)).replicas for _ in range(4)]
        assert grown == [20, 40, 80, 160]


class TestWhenTheDemandIsUnknown:
    def test_the_replicas_are_held(self):
        loop = Loop()
        loop.step(waiting(500))
        held = [loop.step(None) for _ in range(100)]
        assert {decision.replicas for decision in held} == {13}
        assert held[-1].reason == "DemandUnknown"
        assert held[-1].explanation.failures == 100

    def test_zero_is_held_too(self):
        loop = Loop()
        assert loop.step(None).replicas == 0

    def test_the_fallback_is_used_after_its_number_of_failures_also_from_zero(self):
        loop = Loop(entry(fallback={"replicas": 3, "afterFailures": 2}))
        assert loop.step(None).replicas == 0
        decision = loop.step(None)
        assert decision.replicas == 3
        assert decision.reason == "Fallback"
        assert decision.fallback

    def test_the_fallback_never_lowers(self):
        loop = Loop(entry(fallback={"replicas": 3, "afterFailures": 1}))
        loop.change(replicas=7)
        assert loop.step(None).replicas == 7

    def test_one_good_read_ends_the_count(self):
        loop = Loop(entry(fallback={"replicas": 3, "afterFailures": 2}))
        loop.step(None)
        loop.step(EMPTY)
        assert loop.step(None).replicas == 0

    def test_a_budget_takes_nothing_from_one_pool_for_the_fallback_of_another(self):
        loop = Loop(
            entry("a", "a"),
            entry("b", "b", fallback={"replicas": 8, "afterFailures": 1}),
            max_replicas=10,
        )
        loop.change("a", replicas=8)
        loop.step(None)
        assert loop.decisions["a"].replicas == 8
        assert loop.decisions["b"].replicas == 2


class TestTheUsersLimits:
    def test_a_lowered_maximum_is_followed_at_once(self):
        loop = Loop(entry(maxReplicas=3))
        loop.change(replicas=10)
        decision = loop.step(waiting(0, running=80))
        assert decision.replicas == 3
        assert decision.reason == "MaxReplicas"

    def test_a_raised_minimum_is_followed_at_once(self):
        loop = Loop(entry(minReplicas=4))
        loop.change(replicas=0)
        decision = loop.step(EMPTY)
        assert decision.replicas == 4
        assert decision.reason == "MinReplicas"

    def test_the_budget_is_shared_by_weight(self):
        loop = Loop(entry("a", "a", weight=3), entry("b", "b", weight=1), max_replicas=8)
        both = Reading(
            types=(TypeLoad(type="a", claimable=5000), TypeLoad(type="b", claimable=5000))
        )
        loop.step(both)
        assert loop.decisions["a"].replicas == 6
        assert loop.decisions["b"].replicas == 2
        assert loop.decisions["b"].reason == "QueueBudget"

    def test_what_one_pool_does_not_use_the_other_may(self):
        loop = Loop(entry("a", "a", weight=3), entry("b", "b", weight=1), max_replicas=8)
        loop.step(
            Reading(types=(TypeLoad(type="a", claimable=1), TypeLoad(type="b", claimable=5000)))
        )
        assert (loop.decisions["a"].replicas, loop.decisions["b"].replicas) == (1, 7)

    def test_the_backends_connections_limit_the_workers(self):
        loop = Loop(connections=Connections(most=20, per_worker=3))
        decision = loop.step(waiting(5000))
        assert decision.replicas == 6
        assert decision.reason == "BackendConnections"

    def test_paused_leaves_the_replicas_and_says_what_would_be(self):
        loop = Loop(paused=True)
        loop.change(replicas=3)
        decision = loop.step(waiting(1000))
        assert decision.replicas == 3
        assert decision.recommended > 3
        assert decision.reason == "Paused"

    def test_a_dry_run_leaves_the_replicas_and_says_what_would_be(self):
        loop = Loop(entry(mode="DryRun"))
        decision = loop.step(waiting(1000))
        assert (decision.replicas, decision.recommended) == (0, 20)

    def test_disabled_does_what_a_person_asked_for_whatever_the_limits(self):
        loop = Loop(entry(mode="Disabled", minReplicas=2, maxReplicas=5))
        loop.change(replicas=1, requested_replicas=7)
        assert loop.step(waiting(1000)).replicas == 7

    def test_disabled_without_a_request_leaves_the_replicas(self):
        loop = Loop(entry(mode="Disabled"))
        loop.change(replicas=3)
        assert loop.step(EMPTY).replicas == 3

    def test_a_request_by_hand_is_ignored_while_scaling_is_automatic(self):
        loop = Loop()
        loop.change(requested_replicas=9)
        assert loop.step(waiting(1)).replicas == 1


class TestTypesOfPools:
    def test_a_type_of_two_pools_is_counted_once(self):
        loop = Loop(entry("a", "send"), entry("b", "send"))
        loop.step(waiting(1))
        assert sum(decision.replicas for decision in loop.decisions.values()) == 1

    def test_a_type_of_no_pool_wakes_nobody(self):
        loop = Loop(entry("a", "other"))
        assert loop.step(waiting(100)).replicas == 0

    def test_a_type_that_the_workers_do_not_register_is_not_their_demand(self):
        loop = Loop(entry("mail", "send*"))
        loop.change(replicas=1)
        here = engine("e1", types=("send",))
        reading = Reading(types=(TypeLoad(type="send_later", claimable=500),), engines=(here,))
        decision = loop.step(reading)
        assert decision.load == ()
        assert decision.replicas == 1

    def test_a_pool_at_zero_is_judged_by_what_was_registered_last(self):
        loop = Loop(entry("mail", "send*", behavior=SHORT), tick=1)
        loop.change(replicas=1)
        reading = Reading(engines=(engine("e1", types=("send",)),))
        for _ in range(20):
            loop.step(reading)
        assert loop.replicas == 0
        unknown = Reading(types=(TypeLoad(type="send_later", claimable=5),))
        assert loop.step(unknown).replicas == 0
        assert loop.step(waiting(5)).replicas == 1

    def test_a_new_build_may_register_more(self):
        loop = Loop(entry("mail", "send*"))
        loop.change(replicas=0, build="one")
        loop.step(Reading(engines=(engine("e1", types=("send",)),)))
        unknown = Reading(types=(TypeLoad(type="send_later", claimable=5),))
        assert loop.step(unknown).replicas == 0
        loop.change(build="two")
        assert loop.step(unknown).replicas == 1

    def test_code_replaced_under_the_same_name_gets_a_chance_in_the_end(self):
        loop = Loop(entry("mail", "send*"))
        loop.step(Reading(engines=(engine("e1", types=("send",)),)))
        unknown = Reading(types=(TypeLoad(type="send_later", claimable=5),))
        assert loop.step(unknown).replicas == 0
        assert loop.step(unknown, passing=601).replicas == 1


def test_the_explanation_survives_json_and_still_gives_the_number():
    decision = Loop().step(waiting(1000))
    text = msgspec.json.encode(decision.explanation)
    again = msgspec.json.decode(text, type=type(decision.explanation))
    assert again.recompute() == decision.replicas
    assert again.summary() == decision.summary


def test_the_summary_says_what_why_and_what_limited_it():
    decision = Loop(entry(maxReplicas=5)).step(waiting(1500))
    assert decision.summary == (
        "0 -> 5 workers: 1,500 waiting; 300.0 slots to work off what waits before the SLO breaks, "
        "8 each; at most scaling.maxReplicas"
    )


def test_the_summary_of_a_number_that_stays_says_so():
    loop = Loop()
    assert loop.step(EMPTY).summary == "stays at 0 workers: nothing waiting"
    loop.change(replicas=2)
    assert loop.step(None).summary == f"stays at 2 workers: {REASONS['DemandUnknown']}"
