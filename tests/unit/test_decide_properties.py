"""What decide() never does, whatever it is given."""

from __future__ import annotations

import copy

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.autoscaling import engine, entry

from runnerq_operator.autoscale.decide import decide
from runnerq_operator.autoscale.explanation import REASONS, Explanation
from runnerq_operator.autoscale.inputs import (
    Connections,
    PoolInputs,
    QueueInputs,
    Reading,
    TypeLoad,
)
from runnerq_operator.autoscale.memory import QueueMemory
from runnerq_operator.autoscale.split import shares, within_budget

counts = st.integers(0, 5000)
small = st.integers(0, 40)
NAMES = ("send", "report", "index")


fallbacks = st.fixed_dictionaries(
    {"replicas": st.integers(0, 10), "afterFailures": st.integers(1, 3)}
)


@st.composite
def loads(draw: st.DrawFn, name: str) -> TypeLoad:
    claimable = draw(counts)
    age = st.floats(0, 500, allow_nan=False)
    return TypeLoad(
        type=name,
        claimable=claimable,
        capped=claimable >= 4000,
        oldest_seconds=draw(age) if claimable else None,
        running=draw(small),
        due=draw(small),
    )


@st.composite
def readings(draw: st.DrawFn) -> Reading:
    names = draw(st.sets(st.sampled_from(NAMES)))
    engines = [
        engine(
            f"e{index}",
            pool_name=draw(st.sampled_from(["a", "b"])),
            types=NAMES,
            busy=draw(small),
            started=(started := draw(counts)),
            finished=started,
            run_seconds=started * draw(st.floats(0, 20)),
        )
        for index in range(draw(st.integers(0, 3)))
    ]
    return Reading(types=tuple(draw(loads(name)) for name in sorted(names)), engines=tuple(engines))


@st.composite
def pools(draw: st.DrawFn, name: str, *, modes: tuple[str, ...] = ("Auto",)) -> PoolInputs:
    least = draw(st.integers(0, 5))
    spec = entry(
        name,
        *draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True)),
        concurrency=draw(st.integers(1, 16)),
        weight=draw(st.integers(1, 5)),
        minReplicas=least,
        maxReplicas=max(1, least + draw(st.integers(0, 40))),
        expectedSeconds=draw(st.integers(1, 600)),
        mode=draw(st.sampled_from(modes)),
        fallback=draw(st.none() | fallbacks),
    )
    return PoolInputs(
        entry=spec,
        replicas=draw(st.integers(0, 45)),
        unschedulable=draw(st.integers(0, 2)),
        requested_replicas=draw(st.none() | small),
        startups=tuple(draw(st.lists(st.floats(0.1, 120), max_size=2))),
    )


@st.composite
def histories(
    draw: st.DrawFn, *, modes: tuple[str, ...] = ("Auto",), budgets: bool = True
) -> tuple[QueueMemory, QueueInputs]:
    """A memory that came from real decisions, and the inputs of the next one."""
    both = (draw(pools("a", modes=modes)), draw(pools("b", modes=modes)))
    least = sum(pool.entry.scaling.min_replicas for pool in both)
    inputs = QueueInputs(
        now=0.0,
        reading=None,
        pools=both,
        slo_seconds=draw(st.floats(1, 600)),
        max_replicas=draw(st.none() | st.integers(max(1, least), 60)) if budgets else None,
        connections=draw(
            st.none()
            | st.builds(Connections, most=st.integers(30, 200), per_worker=st.integers(1, 4))
        )
        if budgets
        else None,
        paused=draw(st.booleans()) if len(modes) > 1 else False,
    )
    memory, now = QueueMemory(), 0.0
    for _ in range(draw(st.integers(0, 4))):
        now += draw(st.floats(0.5, 300))
        reading = draw(st.none() | readings())
        memory, _ = decide(memory, msgspec.structs.replace(inputs, now=now, reading=reading))
    return memory, msgspec.structs.replace(inputs, now=now + draw(st.floats(0.5, 300)))


ALL_MODES = ("Auto", "DryRun", "Disabled")


@given(histories(), st.none() | readings())
def test_the_number_is_within_min_and_max(
    given_: tuple[QueueMemory, QueueInputs], reading: Reading | None
):
    memory, inputs = given_
    _, decisions = decide(memory, msgspec.structs.replace(inputs, reading=reading))
    for pool in inputs.pools:
        scaling = pool.entry.scaling
        assert scaling.min_replicas <= decisions[pool.entry.name].replicas <= scaling.max_replicas


@given(histories(modes=ALL_MODES), st.none() | readings())
def test_terms_and_steps_give_the_number_again(
    given_: tuple[QueueMemory, QueueInputs], reading: Reading | None
):
    memory, inputs = given_
    _, decisions = decide(memory, msgspec.structs.replace(inputs, reading=reading))
    for decision in decisions.values():
        written = msgspec.json.encode(decision.explanation)
        read = msgspec.json.decode(written, type=Explanation)
        assert read.recompute() == decision.replicas
        assert {step.name for step in read.steps} | {decision.reason} <= REASONS.keys()


@given(histories(modes=ALL_MODES), st.none() | readings())
def test_the_same_input_gets_the_same_answer(
    given_: tuple[QueueMemory, QueueInputs], reading: Reading | None
):
    memory, inputs = given_
    inputs = msgspec.structs.replace(inputs, reading=reading)
    before = copy.deepcopy(memory)
    assert decide(memory, inputs) == decide(memory, inputs)
    assert memory == before


@given(histories())
def test_an_unknown_demand_never_lowers_the_number(given_: tuple[QueueMemory, QueueInputs]):
    memory, inputs = given_
    _, decisions = decide(memory, msgspec.structs.replace(inputs, reading=None))
    for pool in inputs.pools:
        held = min(pool.replicas, pool.entry.scaling.max_replicas)
        assert decisions[pool.entry.name].replicas >= held


@given(histories(budgets=False), readings(), st.integers(1, 3000))
def test_more_waiting_never_means_fewer_workers(
    given_: tuple[QueueMemory, QueueInputs], reading: Reading, more: int
):
    memory, inputs = given_
    if not reading.types:
        return
    first = reading.types[0]
    grown = msgspec.structs.replace(
        reading,
        types=(
            msgspec.structs.replace(
                first, claimable=first.claimable + more, oldest_seconds=first.oldest_seconds or 0.0
            ),
            *reading.types[1:],
        ),
    )
    _, few = decide(memory, msgspec.structs.replace(inputs, reading=reading))
    _, many = decide(memory, msgspec.structs.replace(inputs, reading=grown))
    for name, decision in few.items():
        assert many[name].replicas >= decision.replicas


@given(histories(), readings())
def test_zero_only_when_nothing_waits_runs_or_is_due(
    given_: tuple[QueueMemory, QueueInputs], reading: Reading
):
    memory, inputs = given_
    inputs = msgspec.structs.replace(inputs, reading=reading, max_replicas=None, connections=None)
    _, decisions = decide(memory, inputs)
    for decision in decisions.values():
        if decision.replicas == 0:
            assert sum(one.claimable + one.running + one.due for one in decision.load) == 0


@given(readings(), st.data())
def test_no_pool_shrinks_within_a_window_after_a_restart(reading: Reading, data: st.DataObject):
    """Whatever was known before: with a fresh memory nothing goes down, but for a user's limits."""
    both = (data.draw(pools("a")), data.draw(pools("b")))
    memory, now = QueueMemory(), 50.0
    for _ in range(5):
        inputs = QueueInputs(now=now, reading=reading, pools=both)
        memory, decisions = decide(memory, inputs)
        for pool in both:
            allowed = min(pool.replicas, pool.entry.scaling.max_replicas)
            assert decisions[pool.entry.name].replicas >= allowed
        now += 59.9


@given(histories(), readings())
def test_the_pools_loads_add_up_to_what_they_serve_together(
    given_: tuple[QueueMemory, QueueInputs], reading: Reading
):
    memory, inputs = given_
    inputs = msgspec.structs.replace(inputs, reading=reading)
    _, decisions = decide(memory, inputs)
    for load in reading.types:
        parts = [part for one in decisions.values() for part in one.load if part.type == load.type]
        if parts:
            assert sum(part.claimable for part in parts) == load.claimable
            assert sum(part.running for part in parts) == load.running
            assert sum(part.due for part in parts) == load.due


@given(histories(), readings())
def test_the_budget_is_kept(given_: tuple[QueueMemory, QueueInputs], reading: Reading):
    memory, inputs = given_
    if inputs.max_replicas is None:
        return
    _, decisions = decide(memory, msgspec.structs.replace(inputs, reading=reading))
    assert sum(decision.replicas for decision in decisions.values()) <= inputs.max_replicas


@given(histories(modes=("DryRun", "Disabled")), readings())
def test_hands_off_means_hands_off(given_: tuple[QueueMemory, QueueInputs], reading: Reading):
    memory, inputs = given_
    _, decisions = decide(memory, msgspec.structs.replace(inputs, reading=reading))
    for pool in inputs.pools:
        by_hand = pool.requested_replicas
        if pool.entry.scaling.mode == "DryRun" or by_hand is None:
            assert decisions[pool.entry.name].replicas == pool.replicas
        else:
            assert decisions[pool.entry.name].replicas == by_hand


@given(st.integers(0, 10_000), st.lists(st.floats(0, 100), min_size=1, max_size=8))
def test_shares_are_whole_and_complete(total: int, weights: list[float]):
    parts = shares(total, weights)
    assert sum(parts) == total
    assert min(parts) >= 0
    whole = sum(weights)
    if whole > 0:
        for part, weight in zip(parts, weights, strict=True):
            assert abs(part - total * weight / whole) < 1 + 1e-6 * total


@given(
    st.lists(st.tuples(small, st.integers(0, 5), st.integers(1, 9)), min_size=1, max_size=5),
    st.integers(0, 100),
)
@settings(max_examples=200)
def test_a_budget_is_used_up_unless_nobody_wants_more(
    pools_: list[tuple[int, int, int]], budget: int
):
    wanted = [want for want, _, _ in pools_]
    floors = [min(want, low) for want, low, _ in pools_]
    given_ = within_budget(wanted, floors, [float(weight) for _, _, weight in pools_], budget)
    for floor, got, want in zip(floors, given_, wanted, strict=True):
        assert floor <= got <= want
    assert sum(given_) == max(sum(floors), min(budget, sum(wanted)))
