"""Conditions, statuses and events: what people are told about a pass."""

from __future__ import annotations

import ast
import inspect
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from tests.refusals import Edits
from tests.unit.control_views import at, demand, desired_queue, observed, pod

from runnerq.storage.records import TypeDemand
from runnerq_operator.autoscale.decide import decide
from runnerq_operator.autoscale.explanation import REASONS
from runnerq_operator.autoscale.inputs import PoolInputs, QueueInputs
from runnerq_operator.autoscale.memory import QueueMemory
from runnerq_operator.control import events as events_module
from runnerq_operator.control import verdicts as verdicts_module
from runnerq_operator.control.backends import DemandRead
from runnerq_operator.control.desired import BackendProblem
from runnerq_operator.control.events import EventMemory, events
from runnerq_operator.control.observation import Observation, PoolObservation
from runnerq_operator.control.reading import reading_of, uncovered_types
from runnerq_operator.control.status import initial_status, pool_status, queue_status, standing
from runnerq_operator.control.verdicts import Verdict, verdicts
from runnerq_operator.fleet.port import PodPhase
from runnerq_operator.model.conditions import CONDITIONS, EVENTS
from runnerq_operator.model.status import RunnerQueueStatus


def seen(
    *types: TypeDemand,
    pool: PoolObservation | None = None,
    edits: Edits | None = None,
    problem: BackendProblem | None = None,
    failed: str = "",
    ready: bool = True,
    startups: tuple[float, ...] = (),
    requested: int | None = None,
    now: float = 0.0,
) -> Observation:
    """An observation with the decision that decide() makes on it."""
    desired = desired_queue(edits, backend=problem)
    entry = desired.spec.pools[0]
    given = pool or observed([pod("a")], entry=entry)
    given = msgspec.structs.replace(given, entry=entry)
    read = (
        DemandRead(number=1, reason=failed, message="it does not answer")
        if failed
        else DemandRead(number=1, demand=demand(*types, seconds=now))
    )
    _, decisions = decide(
        QueueMemory(),
        QueueInputs(
            now=now,
            reading=reading_of(read.demand) if read.demand else None,
            pools=(
                PoolInputs(
                    entry=entry,
                    replicas=given.replicas,
                    requested_replicas=requested,
                    startups=startups,
                ),
            ),
            slo_seconds=float(desired.spec.slo.max_wait_seconds),
        ),
    )
    loads = [load.type for one in decisions.values() for load in one.load]
    return Observation(
        desired=desired,
        now=now,
        at=at(now),
        read=read,
        backend_ready=ready,
        backend_kind="Postgres",
        pools=(given,),
        decisions=decisions if ready else {},
        uncovered=uncovered_types(read.demand, loads, entry.activity_types, ())
        if read.demand
        else (),
    )


def judged(observation: Observation, name: str) -> tuple[str, str]:
    verdict = verdicts(observation)[name]
    return verdict.status.value, verdict.reason


WORK = TypeDemand(type="send_mail", claimable=4, oldest_claimable_age_ms=2000)
LATE = TypeDemand(type="send_mail", claimable=4, oldest_claimable_age_ms=61_000)


class TestConditions:
    def test_all_is_well(self):
        observation = seen()
        assert judged(observation, "Ready") == ("True", "AllReady")
        assert judged(observation, "Reconciling") == ("False", "UpToDate")
        assert judged(observation, "Stalled") == ("False", "Progressing")

    def test_a_queue_at_zero_is_ready(self):
        assert judged(seen(pool=observed([])), "Ready") == ("True", "AllReady")

    def test_a_worker_that_starts_makes_it_not_ready_and_names_the_pool(self):
        observation = seen(WORK, pool=observed([pod("a", PodPhase.STARTING)]))
        verdict = verdicts(observation)["Ready"]
        assert verdict.reason == "WorkersNotReady"
        assert verdict.message == "ready/wanted: mail 0/1"
        assert judged(observation, "Reconciling") == ("True", "PoolsChanging")

    def test_a_worker_that_leaves_is_a_change_but_does_not_unready(self):
        pool = observed([pod("a"), pod("b", PodPhase.DRAINING)], replicas=1)
        assert judged(seen(pool=pool), "Ready") == ("True", "AllReady")
        assert judged(seen(pool=pool), "Reconciling") == ("True", "PoolsChanging")

    def test_a_problem_with_the_address_is_said_in_its_words(self):
        problem = BackendProblem(reason="SecretNotFound", message="Secret x: not found")
        observation = seen(problem=problem, failed="SecretNotFound", ready=False)
        assert judged(observation, "BackendReachable") == ("False", "SecretNotFound")
        assert judged(observation, "Ready") == ("False", "BackendNotReady")
        assert judged(observation, "Stalled") == ("True", "NeedsAttention")
        assert verdicts(observation)["Stalled"].message == "Secret x: not found"

    def test_a_newer_schema_is_not_an_unreachable_backend(self):
        observation = seen(failed="Mismatch")
        assert judged(observation, "BackendReachable") == ("True", "Answering")
        assert judged(observation, "SchemaCompatible") == ("False", "Mismatch")
        assert judged(observation, "Stalled") == ("True", "NeedsAttention")

    def test_an_outage_makes_unknown_what_is_then_unknown(self):
        observation = seen(failed="NoAnswer")
        assert judged(observation, "SLOMet") == ("Unknown", "DemandUnknown")
        assert judged(observation, "CoverageComplete") == ("Unknown", "DemandUnknown")
        assert judged(observation, "ScalingActive") == ("False", "DemandUnknown")

    def test_a_long_wait_breaks_the_slo_and_names_the_type(self):
        verdict = verdicts(seen(LATE))["SLOMet"]
        assert verdict.reason == "WaitTooLong"
        assert verdict.message == "send_mail has waited 61 s, the SLO is 60 s"

    def test_a_slow_start_at_minimum_zero_makes_the_slo_infeasible_and_says_what_helps(self):
        slow = seen(startups=(90.0,))
        assert judged(slow, "SLOFeasible") == ("False", "StartupTooSlow")
        assert "set scaling.minReplicas to 1" in verdicts(slow)["SLOFeasible"].message
        kept = seen(startups=(90.0,), edits={"pools.0.scaling": {"minReplicas": 1}})
        assert judged(kept, "SLOFeasible") == ("True", "Feasible")
        assert judged(seen(), "SLOFeasible") == ("Unknown", "NotObservedYet")

    def test_a_limit_that_binds_is_named(self):
        busy = TypeDemand(type="send_mail", claimable=5000, oldest_claimable_age_ms=1000)
        assert judged(seen(busy), "ScalingLimited") == ("True", "MaxReplicas")
        assert judged(seen(WORK), "ScalingLimited") == ("False", "WithinLimits")

    @pytest.mark.parametrize("mode", ["DryRun", "Disabled"])
    def test_a_mode_in_which_nothing_is_scaled_is_said(self, mode: str):
        observation = seen(edits={"pools.0.scaling": {"mode": mode}})
        assert judged(observation, "ScalingActive") == ("False", mode)

    def test_a_pause_is_said(self):
        observation = seen(edits={"paused": "Scaling"})
        assert judged(observation, "ScalingActive") == ("False", "Paused")
        assert judged(observation, "Paused") == ("True", "ScalingPaused")

    def test_coverage_can_be_ignored(self):
        lost = TypeDemand(type="other", claimable=1)
        assert judged(seen(lost), "CoverageComplete") == ("False", "TypesWithoutWorkers")
        ignored = seen(lost, edits={"coverage": {"policy": "Ignore"}})
        assert judged(ignored, "CoverageComplete") == ("True", "Ignored")

    def test_every_documented_condition_is_judged(self):
        assert verdicts(seen()).keys() == CONDITIONS.keys()

    def test_no_reason_is_used_that_is_not_documented(self):
        used = literals(verdicts_module, Verdict.__name__, 1)
        known = {reason for reasons in CONDITIONS.values() for reason in reasons}
        assert used <= known | {"reason"}

    def test_every_documented_reason_can_happen(self):
        """Used in the code of verdicts, or taken over from where it is found out."""
        source = inspect.getsource(verdicts_module)
        taken_over = {"NoAnswer", "SecretNotFound", "UrlInvalid", "BackendUnsupported"}
        limits = {"MaxReplicas", "QueueBudget", "BackendConnections", "Unschedulable"}
        for name, reasons in CONDITIONS.items():
            for reason in reasons.keys() - taken_over - limits - {"NotObservedYet"}:
                assert f'"{reason}"' in source, (name, reason)
        assert limits <= REASONS.keys()


def literals(module: Any, call: str, position: int) -> set[str]:
    """String literals at this position of calls to `call` in a module's source."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == call:
            arguments = [*node.args[position:], *(word.value for word in node.keywords)]
            if arguments and isinstance(arguments[0], ast.Constant):
                found.add(str(arguments[0].value))
    return found


class TestStatus:
    def test_figures_come_from_the_read(self):
        read = (
            TypeDemand(type="send_mail", claimable=4, oldest_claimable_age_ms=65_400, running=2),
            TypeDemand(type="nobodys", claimable=3),
        )
        observation = seen(*read)
        status = queue_status(observation, None)
        assert (status.backlog, status.running) == (7, 2)
        assert (status.oldest_seconds, status.oldest) == (65, "1m5s")
        assert status.coverage == "Missing: nobodys"
        (pool,) = observation.pools
        mine = pool_status(observation, pool, None)
        assert (mine.backlog, mine.running, mine.types) == (4, 2, "send_*")
        assert mine.selector == "runnerq.dev/queue=shop,runnerq.dev/pool=mail"

    def test_figures_stay_while_nothing_can_be_read(self):
        before = queue_status(seen(WORK), None)
        after = queue_status(seen(failed="NoAnswer"), before)
        assert (after.backlog, after.oldest) == (before.backlog, before.oldest)
        assert before.backlog == 4

    def test_a_condition_keeps_its_time_while_its_status_stays(self):
        first = queue_status(seen(now=0.0), None)
        same = queue_status(seen(now=50.0), first)
        changed = queue_status(seen(LATE, now=90.0), same)
        assert since(same, "SLOMet") == since(first, "SLOMet") == at(0)
        assert since(changed, "SLOMet") == at(0) + timedelta(seconds=90)
        assert since(changed, "BackendReachable") == at(0)

    def test_the_same_decision_again_keeps_its_time(self):
        observation = seen(WORK)
        (pool,) = observation.pools
        first = pool_status(observation, pool, None)
        later = msgspec.structs.replace(observation, at=at(60))
        assert pool_status(later, pool, first).decision == first.decision

    def test_the_decision_is_there_with_its_explanation(self):
        status = queue_status(seen(WORK), None)
        assert status.decision is not None
        assert status.decision.pool == "mail"
        assert status.decision.explanation["explanation"]["terms"]["claimable"] == 4

    def test_what_changes_at_every_read_is_no_reason_to_write_at_once(self):
        few = queue_status(seen(WORK), None)
        more = TypeDemand(type="send_mail", claimable=5, oldest_claimable_age_ms=3000)
        many = queue_status(seen(more), few)
        assert few != many
        assert standing(few) == standing(many)
        assert standing(queue_status(seen(LATE), few)) != standing(few)

    def test_the_first_status_knows_nothing(self):
        status = initial_status(4, "Postgres", 1, at(0))
        assert {one.status.value for one in status.conditions} == {"Unknown"}
        assert {one.observed_generation for one in status.conditions} == {4}

    def test_long_messages_are_cut_to_what_the_schema_allows(self):
        pool = msgspec.structs.replace(observed([pod("a")]), refused="x" * 5000)
        conditions = queue_status(seen(pool=pool), None).conditions
        assert max(len(condition.message) for condition in conditions) == 2048


def since(status: RunnerQueueStatus, name: str) -> Any:
    return next(one.last_transition_time for one in status.conditions if one.type == name)


class TestEvents:
    def told(
        self, observation: Observation, memory: EventMemory | None = None
    ) -> tuple[EventMemory, list[str]]:
        after, made = events(observation, memory or EventMemory(), {})
        return after, [event.reason for event in made]

    def test_nothing_is_said_of_what_stays(self):
        memory, first = self.told(seen())
        assert first == []
        assert self.told(seen(), memory)[1] == []

    def test_a_decision_is_said_once(self):
        busy = seen(WORK, pool=observed([]))
        memory, first = self.told(busy)
        assert first == ["ActivatedFromZero"]
        assert self.told(busy, memory)[1] == []

    @pytest.mark.parametrize(
        ("before", "after", "reason"),
        [
            (0, 2, "ActivatedFromZero"),
            (1, 2, "ScaledUp"),
            (2, 1, "ScaledDown"),
            (2, 0, "ScaledToZero"),
        ],
    )
    def test_each_direction_has_its_name(self, before: int, after: int, reason: str):
        observation = seen(
            pool=observed([pod(str(n)) for n in range(before)]),
            edits={"pools.0.scaling": {"mode": "Disabled"}},
            requested=after,
        )
        assert self.told(observation)[1] == [reason]

    def test_an_outage_is_said_when_it_begins(self):
        memory, first = self.told(seen(failed="NoAnswer"))
        assert first == ["ScalingHeld"]
        assert self.told(seen(failed="NoAnswer"), memory)[1] == []

    def test_a_breach_and_its_end_are_said_each_once(self):
        memory, first = self.told(seen(LATE))
        assert "SLOBreached" in first
        memory, second = self.told(seen(LATE), memory)
        assert second == []
        assert self.told(seen(), memory)[1] == ["SLORecovered"]

    def test_an_outage_does_not_end_a_breach(self):
        memory, _ = self.told(seen(LATE))
        memory, during = self.told(seen(failed="NoAnswer"), memory)
        assert during == ["ScalingHeld"]
        assert self.told(seen(LATE), memory)[1] == []

    def test_coverage_is_said_when_lost_and_when_back(self):
        memory, first = self.told(seen(TypeDemand(type="other", claimable=1)))
        assert first == ["CoverageLost"]
        assert self.told(seen(), memory)[1] == ["CoverageRestored"]

    def test_of_many_lost_types_a_few_are_named_and_the_rest_counted(self):
        many = [TypeDemand(type=f"other_{number:03}", claimable=1) for number in range(200)]
        _, [event] = events(seen(*many), EventMemory(), {})
        assert event.message.startswith("no pool runs: other_000, other_001, ")
        assert event.message.endswith(" and 192 more")

    def test_a_request_by_hand_that_is_ignored_is_said_once(self):
        pool = observed([pod("a")], requested_replicas=5)
        memory, first = self.told(seen(pool=pool))
        assert first == ["ManualScaleIgnored"]
        assert self.told(seen(pool=pool), memory)[1] == []

    def test_a_mismatch_names_who_stayed(self):
        _, made = events(seen(), EventMemory(), {"mail": ("a",)})
        assert [event.reason for event in made] == ["VictimMismatch"]
        assert "a" in made[0].message

    def test_no_event_is_made_that_is_not_documented_and_each_can_be(self):
        source = inspect.getsource(events_module)
        for reason in EVENTS:
            assert f'"{reason}"' in source
        used = literals(events_module, "QueueEvent", 0)
        assert used <= EVENTS.keys()
