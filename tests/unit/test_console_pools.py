"""What a pool is said to have, joined from decisions, pods and engines."""

from __future__ import annotations

from tests.unit.console_records import decision, demand, engine, pod, wanted

from runnerq.console.pools import is_stale, pools_of
from runnerq.storage.records import EngineState


def test_a_pool_is_what_anybody_reported_on() -> None:
    pools = pools_of(
        demand(engine("from-engine")), [pod("from-pod")], [decision("from-decision", to=0)]
    )
    assert [found.pool for found in pools] == ["from-decision", "from-engine", "from-pod"]


def test_engines_started_by_hand_come_last() -> None:
    pools = pools_of(demand(engine(""), engine("zebra")), [], [])
    assert [found.pool for found in pools] == ["zebra", ""]


def test_the_newest_decision_says_what_is_desired() -> None:
    [found] = pools_of(demand(), [], [decision(to=5, summary="newest"), decision(to=1)])
    assert found.desired == 5
    assert found.decision is not None
    assert found.decision["summary"] == "newest"


def test_without_a_decision_the_desired_size_is_unknown_and_not_zero() -> None:
    [found] = pools_of(demand(engine()), [], [])
    assert found.desired is None
    assert found.decision is None


def test_pods_that_are_gone_are_not_shown() -> None:
    [found] = pools_of(demand(), [pod(), pod(phase="gone", name="pod-2")], [])
    assert found.ready == 1
    assert [shown["name"] for shown in found.pods] == ["pod-1"]


def test_phases_are_counted_by_name() -> None:
    pods = [pod(phase="ready"), pod(phase="starting"), pod(phase="starting")]
    [found] = pools_of(demand(), pods, [])
    assert dict(found.phases) == {"ready": 1, "starting": 2}


def test_a_silent_engine_counts_for_nothing() -> None:
    silent = engine(age_ms=15_000, busy=4)
    assert is_stale(silent)
    [found] = pools_of(demand(silent, engine(busy=1)), [], [])
    assert (found.engines, found.busy, found.slots) == (1, 1, 8)


def test_a_stopped_engine_is_neither_live_nor_stale() -> None:
    stopped = engine(state=EngineState.STOPPED, age_ms=99_000)
    assert not is_stale(stopped)
    assert pools_of(demand(stopped), [], []) == []


def test_the_backlog_is_that_of_the_types_the_pool_serves() -> None:
    types = (wanted("send", 3, oldest_claimable_age_ms=50), wanted("other", 100))
    [found] = pools_of(demand(engine(), types=types), [], [])
    assert found.backlog == 3
    assert found.oldest_claimable_age_ms == 50


def test_the_backlog_of_a_pool_without_engines_is_unknown_and_not_zero() -> None:
    [found] = pools_of(demand(types=(wanted(),)), [], [decision(to=0)])
    assert found.backlog is None


def test_a_pool_at_zero_has_the_backlog_of_the_types_it_served_last() -> None:
    left = engine(state=EngineState.STOPPED)
    [found] = pools_of(demand(left, types=(wanted("send", 7),)), [], [decision(to=0)])
    assert (found.engines, found.backlog, found.types) == (0, 7, ("send",))


def test_where_nothing_is_claimable_every_pool_has_nothing_waiting() -> None:
    [found] = pools_of(demand(types=(wanted(claimable=0),)), [], [decision(to=0)])
    assert found.backlog == 0


def test_a_lower_bound_stays_one() -> None:
    [found] = pools_of(demand(engine(), types=(wanted(claimable_capped=True),)), [], [])
    assert found.backlog_capped


def test_limits_are_read_from_the_explanation_when_it_has_them() -> None:
    [found] = pools_of(demand(), [], [decision(detail={"min": 0, "max": 20})])
    assert (found.min, found.max) == (0, 20)
    [odd] = pools_of(demand(), [], [decision(detail={"min": "no", "max": True})])
    assert (odd.min, odd.max) == (None, None)


def test_draining_and_cordoned_engines_are_told_apart() -> None:
    engines = (engine(state=EngineState.DRAINING), engine(cordoned=True), engine())
    [found] = pools_of(demand(*engines), [], [])
    assert (found.draining, found.cordoned, found.engines) == (1, 1, 3)
