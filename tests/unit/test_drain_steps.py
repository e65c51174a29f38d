"""Scale-down, step by step: a busy worker is never ended while an idle one exists."""

from __future__ import annotations

import random

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.control_views import at, observed, pod, view

from runnerq_operator.control.drain import DrainMemory, DrainStep, drain_step
from runnerq_operator.control.observation import EngineView, PoolObservation
from runnerq_operator.fleet.port import PodPhase, PodState


class Drain:
    """Steps with the memory carried along."""

    def __init__(self, drain_seconds: float = 25.0) -> None:
        self.memory = DrainMemory()
        self.drain_seconds = drain_seconds

    def step(
        self, pool: PoolObservation, target: int, now: float, *, known: bool = True
    ) -> DrainStep:
        step = drain_step(
            pool,
            self.memory,
            target=target,
            drain_seconds=self.drain_seconds,
            now=now,
            as_of=at(now) if known else None,
        )
        self.memory = step.memory
        return step


def test_an_idle_worker_is_chosen_before_a_busy_one():
    pods = [pod("a"), pod("b"), pod("c")]
    engines = [view("a", busy=1), view("b"), view("c", busy=3)]
    step = Drain().step(observed(pods, engines), 2, 0.0)
    assert step.cordon == (view("b").engine_id,)
    assert step.replicas is None


def test_nobody_leaves_before_a_report_made_after_the_cordon_says_idle():
    drain = Drain()
    pods = [pod("a"), pod("b")]
    drain.step(observed(pods, [view("a", busy=1), view("b")]), 1, 0.0)
    cordoned = [view("a", busy=1), view("b", cordoned=True, beat=0.5)]
    assert drain.step(observed(pods, cordoned), 1, 1.0).replicas is None
    assert drain.step(observed(pods, cordoned), 1, 2.0).replicas is None
    reported = [view("a", busy=1), view("b", cordoned=True, beat=2.5)]
    step = drain.step(observed(pods, reported), 1, 3.0)
    assert step.replicas == 1
    assert step.prefer == ("b",)


def test_what_was_claimed_just_before_the_cordon_is_waited_for():
    drain = Drain()
    pods = [pod("a"), pod("b")]
    drain.step(observed(pods, [view("a", busy=1), view("b")]), 1, 0.0)
    drain.step(observed(pods, [view("a", busy=1), view("b", cordoned=True)]), 1, 1.0)
    busy = [view("a", busy=1), view("b", cordoned=True, busy=1, beat=2.0)]
    assert drain.step(observed(pods, busy), 1, 3.0).replicas is None
    idle = [view("a", busy=1), view("b", cordoned=True, beat=4.0)]
    assert drain.step(observed(pods, idle), 1, 5.0).replicas == 1


def test_when_nothing_of_its_types_runs_no_report_has_to_be_waited_for():
    drain = Drain()
    pods = [pod("a")]
    drain.step(observed(pods, [view("a", nothing_runs=True)]), 0, 0.0)
    cordoned = [view("a", cordoned=True, nothing_runs=True)]
    assert drain.step(observed(pods, cordoned), 0, 1.0).replicas is None
    assert drain.step(observed(pods, cordoned), 0, 1.5).replicas == 0


def test_the_drain_time_ends_the_waiting():
    drain = Drain(drain_seconds=10)
    pods = [pod("a")]
    drain.step(observed(pods, [view("a", busy=1)]), 0, 0.0)
    busy = observed(pods, [view("a", busy=1, cordoned=True, beat=9)])
    assert drain.step(busy, 0, 9.9).replicas is None
    assert drain.step(busy, 0, 10.0).replicas == 0


def test_a_survivor_that_became_idle_takes_the_place_of_a_busy_victim():
    drain = Drain()
    pods = [pod("a"), pod("b")]
    drain.step(observed(pods, [view("a", busy=1), view("b", busy=2)]), 1, 0.0)
    changed = [view("a", busy=1, cordoned=True), view("b")]
    step = drain.step(observed(pods, changed), 1, 5.0)
    assert step.cordon == (view("b").engine_id,)
    assert step.uncordon == (view("a").engine_id,)


def test_demand_that_rises_lets_the_victims_work_again():
    drain = Drain()
    pods = [pod("a"), pod("b")]
    drain.step(observed(pods, [view("a"), view("b")]), 1, 0.0)
    cordoned = [view("a", cordoned=True), view("b")]
    step = drain.step(observed(pods, cordoned), 2, 1.0)
    assert step.uncordon == (view("a").engine_id,)
    assert step.replicas is None
    assert drain.memory.victims == {}


def test_rising_above_what_is_there_uncordons_and_adds():
    drain = Drain()
    step = drain.step(observed([pod("a")], [view("a", cordoned=True)]), 3, 0.0)
    assert step.uncordon == (view("a").engine_id,)
    assert step.replicas == 3


def test_workers_that_do_not_work_go_first_and_at_once():
    pods = [
        pod("idle"),
        pod("new", PodPhase.STARTING),
        pod("stuck", PodPhase.UNSCHEDULABLE),
    ]
    step = Drain().step(observed(pods, [view("idle")]), 2, 0.0)
    assert step.prefer == ("stuck",)
    assert step.replicas == 2
    step = Drain().step(observed(pods, [view("idle")]), 1, 0.0)
    assert step.prefer == ("stuck", "new")


def test_those_idle_for_longest_go_first():
    drain = Drain()
    pods = [pod("a"), pod("b")]
    drain.step(observed(pods, [view("a", busy=1), view("b")]), 2, 0.0)
    step = drain.step(observed(pods, [view("a"), view("b")]), 1, 5.0)
    assert step.cordon == (view("b").engine_id,)


def test_those_that_are_done_go_before_those_that_are_not():
    drain = Drain()
    pods = [pod("a"), pod("b"), pod("c")]
    drain.step(observed(pods, [view("a", busy=1), view("b"), view("c")]), 0, 0.0)
    engines = [
        view("a", busy=1, cordoned=True, beat=2),
        view("b", cordoned=True, beat=2),
        view("c", cordoned=True, beat=2),
    ]
    drain.step(observed(pods, engines), 0, 1.0)
    step = drain.step(observed(pods, engines), 0, 2.5)
    assert step.replicas == 1
    assert sorted(step.prefer) == ["b", "c"]


def test_pods_that_were_never_born_need_no_victim():
    step = Drain().step(observed([pod("a")], [view("a", busy=1)], replicas=3), 1, 0.0)
    assert step.replicas == 1
    assert step.cordon == ()
    assert step.prefer == ()


def test_nothing_is_lowered_during_a_rollout():
    step = Drain().step(observed([pod("a"), pod("b")], rolling=True), 1, 0.0)
    assert step.replicas is None
    assert step.cordon == ()


def test_those_on_their_way_out_are_not_let_in_again():
    drain = Drain()
    pods = [pod("a"), pod("b")]
    engines = [view("a", busy=1), view("b", cordoned=True, beat=1)]
    drain.step(observed(pods, [view("a", busy=1), view("b")]), 1, 0.0)
    drain.step(observed(pods, engines), 1, 0.5)
    assert drain.step(observed(pods, engines), 1, 1.5).replicas == 1
    not_shown_yet = observed(pods, engines, replicas=1)
    step = drain.step(not_shown_yet, 1, 2.0)
    assert step.uncordon == ()
    gone = observed([pod("a"), pod("b", PodPhase.DRAINING)], engines, replicas=1)
    assert drain.step(gone, 1, 3.0).uncordon == ()


def test_a_victim_that_stayed_while_another_went_is_noticed_and_works_on():
    drain = Drain()
    pods = [pod("a"), pod("b")]
    engines = [view("a", busy=1), view("b", cordoned=True, beat=1)]
    drain.step(observed(pods, [view("a", busy=1), view("b")]), 1, 0.0)
    drain.step(observed(pods, engines), 1, 0.5)
    drain.step(observed(pods, engines), 1, 1.5)
    wrong = observed([pod("b")], [view("b", cordoned=True, beat=1)], replicas=1)
    step = drain.step(wrong, 1, 2.0)
    assert step.mismatched == ("b",)
    assert step.uncordon == (view("b").engine_id,)


def test_a_restarted_operator_carries_on_with_the_victims_it_finds():
    pods = [pod("a"), pod("b")]
    engines = [view("a"), view("b", cordoned=True)]
    step = Drain().step(observed(pods, engines), 1, 0.0)
    assert step.cordon == ()
    assert set(step.memory.victims) == {"b"}


def test_a_ready_pod_that_no_backend_knows_is_given_time_and_then_goes_first():
    drain = Drain()
    pods = [pod("a"), pod("ghost")]
    engines = [view("a")]
    assert drain.step(observed(pods, engines), 1, 0.0).prefer == ()
    step = drain.step(observed(pods, engines), 1, 15.0)
    assert step.prefer == ("ghost",)


def test_without_a_reading_nobody_is_taken_for_idle():
    drain = Drain(drain_seconds=25)
    pods = [pod("a"), pod("b")]
    for now in (0.0, 15.0, 24.0):
        assert drain.step(observed(pods), 1, now, known=False).replicas is None
    assert drain.step(observed(pods), 1, 25.0, known=False).replicas == 1


class World:
    """A pool as a fleet would run it, with work that starts and ends by chance."""

    def __init__(self, rng: random.Random, size: int) -> None:
        self.rng = rng
        self.replicas = size
        self.busy = {f"w{index}": 0 for index in range(size)}
        self.cordoned: set[str] = set()
        self.reported: dict[str, tuple[float, int]] = {}
        self.killed_busy = 0
        self.idle_existed = 0

    def work(self, now: float) -> None:
        for name in self.busy:
            if self.busy[name] and self.rng.random() < 0.3:
                self.busy[name] -= 1
            elif name not in self.cordoned and self.rng.random() < 0.3:
                self.busy[name] += 1
            if self.rng.random() < 0.5 or name not in self.reported:
                self.reported[name] = (now, self.busy[name])

    def observe(self) -> PoolObservation:
        pods: list[PodState] = []
        engines: list[EngineView] = []
        for name in self.busy:
            pods.append(pod(name))
            beat, busy = self.reported[name]
            engines.append(view(name, busy=busy, beat=beat, cordoned=name in self.cordoned))
        return observed(pods, engines, replicas=self.replicas)

    def obey(self, step: DrainStep, observation: PoolObservation) -> None:
        names = {engine.engine_id: engine.pod for engine in observation.engines}
        self.cordoned |= {names[one] for one in step.cordon}
        self.cordoned -= {names[one] for one in step.uncordon}
        if step.replicas is None:
            return
        going = list(step.prefer)[: self.replicas - step.replicas]
        self.replicas = step.replicas
        for name in going:
            self.killed_busy += self.busy.pop(name) > 0
            self.reported.pop(name)
            self.cordoned.discard(name)


@given(st.randoms(use_true_random=False), st.integers(1, 6), st.data())
@settings(max_examples=150)
def test_no_busy_worker_is_ever_ended_before_its_drain_time(
    rng: random.Random, size: int, data: st.DataObject
):
    target = data.draw(st.integers(0, size))
    world, drain = World(rng, size), Drain(drain_seconds=1e9)
    for tick in range(60):
        now = tick * 1.0
        world.work(now)
        observation = world.observe()
        # The read is a moment older than the pass.
        world.obey(drain.step(observation, target, now + 0.1), observation)
        assert world.replicas >= target
    assert world.killed_busy == 0


def test_the_memory_can_be_stored():
    drain = Drain()
    drain.step(observed([pod("a")], [view("a")]), 0, 0.0)
    again = msgspec.json.decode(msgspec.json.encode(drain.memory), type=DrainMemory)
    assert again == drain.memory
