"""The same random history played on two backends: the model, and one that must answer alike.

The model's clock stands still but for the steps; a subject with its own clock runs on. So that both
agree, every step moves the model by a millisecond (what comes later is later on both), and all other
durations are multiples of 20 s, which no step comes near to by itself.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, cast
from uuid import UUID, uuid4

from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
)
from tests.conformance.station import BOOM

from runnerq.ids import IdSource
from runnerq.storage.memory import MemoryBackend
from runnerq.storage.records import (
    Acknowledgement,
    ActivitySpec,
    ActivityState,
    Claim,
    ClaimRef,
    ClaimRequest,
    EngineInfo,
    EngineState,
    Heartbeat,
    Idempotency,
    IdempotencyBehavior,
    OutcomeKind,
    Priority,
)
from runnerq.testing.clock import VirtualClock

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from runnerq.storage.ports import Storage

TYPES = ("a", "b")
LIVENESS_MS = 50_000
TIMEOUT_MS = 90_000
DELAY_MS = 60_000
TTL_MS = 50_000
TICK = timedelta(milliseconds=1)


class Subject(NamedTuple):
    """The backend compared with the model."""

    backend: Storage
    queue: str
    advance: Callable[[timedelta], Awaitable[None]]


class Pair(NamedTuple):
    """One claim as each side gave it out: only the tokens differ."""

    model: Claim
    subject: Claim


def specs() -> st.SearchStrategy[dict[str, Any]]:
    keys = st.builds(
        Idempotency,
        key=st.sampled_from(("k1", "k2")),
        behavior=st.sampled_from(IdempotencyBehavior),
        ttl_ms=st.sampled_from((None, TTL_MS)),
    )
    return st.fixed_dictionaries(
        {
            "type": st.sampled_from(TYPES),
            "priority": st.sampled_from(Priority),
            "delay_ms": st.sampled_from((0, 0, 0, DELAY_MS)),
            "max_attempts": st.sampled_from((1, 2, 3, 0)),
            "idempotency": st.none() | keys,
            "payload": st.sampled_from((b"{}", b"\x00", b'"x"')),
        }
    )


class Comparison(RuleBasedStateMachine):
    """`loop` to run on and `make` of a fresh subject are set by `comparing`."""

    loop: ClassVar[asyncio.AbstractEventLoop]
    make: ClassVar[list[Callable[[], Coroutine[Any, Any, Subject]]]]

    claims: Bundle[Pair] = Bundle("claims")
    stored: Bundle[ActivitySpec] = Bundle("stored")

    def __init__(self) -> None:
        super().__init__()
        self.clock = VirtualClock()
        self.model = MemoryBackend(clock=self.clock)
        self.subject = self.run(self.make[0]())
        self.ids = IdSource()
        self.known: list[UUID] = []
        self.steps = 0
        self.engines = (uuid4(), uuid4())

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(work)

    def both(self, call: Callable[[Storage], Coroutine[Any, Any, Any]]) -> tuple[Any, Any]:
        """The same call on each side, one tick later than the last."""
        self.clock.advance(TICK)
        return self.run(call(self.model)), self.run(call(self.subject.backend))

    def same(self, call: Callable[[Storage], Coroutine[Any, Any, Any]]) -> Any:
        """The answer, which must be the same."""
        expected, answered = self.both(call)
        agree(answered, expected)
        return expected

    @property
    def queue(self) -> str:
        return self.subject.queue

    @initialize(target=claims, wanted=st.lists(specs(), min_size=4, max_size=8))
    def a_busy_start(self, wanted: list[dict[str, Any]]) -> Any:
        """Histories that begin with an empty queue would spend most of their steps on it."""
        for engine in self.engines:
            self.register(engine)
        self.enqueue_all(wanted)
        return multiple(*(pair for _ in range(2) for pair in self._take(0, TYPES, 1, None)))

    def register(self, engine: UUID) -> None:
        info = EngineInfo(engine_id=engine, host="h", pid=1, slots=9, types=TYPES)
        self.same(lambda backend: backend.register_engine(self.queue, info))

    @rule(target=stored, wanted=st.lists(specs(), min_size=1, max_size=5))
    def enqueue(self, wanted: list[dict[str, Any]]) -> Any:
        return multiple(*self.enqueue_all(wanted))

    def enqueue_all(self, wanted: list[dict[str, Any]]) -> list[ActivitySpec]:
        batch = [ActivitySpec(id=self.ids.next(), timeout_ms=TIMEOUT_MS, **one) for one in wanted]
        answers = self.same(lambda backend: backend.enqueue(self.queue, batch))
        self.known += [answer.id for answer in answers if answer.id not in self.known]
        return batch

    @rule(spec=stored)
    def enqueue_again(self, spec: ActivitySpec) -> None:
        answers = self.same(lambda backend: backend.enqueue(self.queue, [spec]))
        self.known += [answer.id for answer in answers if answer.id not in self.known]

    @rule(
        target=claims,
        number=st.integers(0, 1),
        types=st.sampled_from((TYPES, ("a",), ("b",))),
        ageing_ms=st.sampled_from((300_000, None)),
    )
    def claim_one(self, number: int, types: tuple[str, ...], ageing_ms: int | None) -> Any:
        return multiple(*self._take(number, types, 1, ageing_ms))

    @rule(target=claims, number=st.integers(0, 1))
    def claim_all(self, number: int) -> Any:
        return multiple(*self._take(number, TYPES, 200, None))

    def _take(
        self, number: int, types: tuple[str, ...], limit: int, ageing_ms: int | None
    ) -> list[Pair]:
        request = ClaimRequest(
            queue=self.queue,
            engine_id=self.engines[number],
            types=types,
            limit=limit,
            ageing_ms=ageing_ms,
        )
        expected, answered = self.both(lambda backend: backend.claim(request))
        # Across types a batch may be given out in another order.
        pairs = [
            Pair(*pair)
            for pair in zip(
                sorted(expected, key=lambda one: one.id),
                sorted(answered, key=lambda one: one.id),
                strict=True,
            )
        ]
        for pair in pairs:
            agree(comparable(pair.subject), comparable(pair.model))
        return pairs

    @rule(pair=claims, kind=st.sampled_from(OutcomeKind), delay=st.sampled_from((0, DELAY_MS)))
    def acknowledge(self, pair: Pair, kind: OutcomeKind, delay: int) -> None:
        self._acknowledge([pair], kind, delay)

    @rule(
        pairs=st.lists(claims, min_size=1, max_size=4, unique_by=lambda pair: pair.model.id),
        kind=st.sampled_from((OutcomeKind.COMPLETED, OutcomeKind.RETRIED, OutcomeKind.RELEASED)),
    )
    def acknowledge_many(self, pairs: list[Pair], kind: OutcomeKind) -> None:
        self._acknowledge(pairs, kind, 0)

    @rule(pair=consumes(claims))
    def acknowledge_twice(self, pair: Pair) -> None:
        self._acknowledge([pair, pair], OutcomeKind.COMPLETED, 0)

    def _acknowledge(self, pairs: list[Pair], kind: OutcomeKind, delay: int) -> None:
        self.clock.advance(TICK)

        def acks(side: int) -> list[Acknowledgement]:
            failed = kind in (OutcomeKind.FAILED, OutcomeKind.RETRIED)
            return [
                Acknowledgement(
                    id=pair[side].id,
                    token=pair[side].token,
                    kind=kind,
                    result=b'"done"' if kind is OutcomeKind.COMPLETED else None,
                    error=BOOM if failed else None,
                    delay_ms=delay if kind in (OutcomeKind.RETRIED, OutcomeKind.SNOOZED) else 0,
                )
                for pair in pairs
            ]

        expected = self.run(self.model.acknowledge(self.queue, acks(0)))
        answered = self.run(self.subject.backend.acknowledge(self.queue, acks(1)))
        agree(answered, expected)

    @rule(target=claims, number=st.integers(0, 1), kind=st.sampled_from(OutcomeKind))
    def work_one_off(self, number: int, kind: OutcomeKind) -> Any:
        """The commonest story; its claim stays for later misuse."""
        pairs = self._take(number, TYPES, 1, 300_000)
        if pairs:
            self._acknowledge(pairs, kind, 0)
        return multiple(*pairs)

    @rule(pair=claims, by_ms=st.sampled_from((1_000, 400_000)))
    def extend(self, pair: Pair, by_ms: int) -> None:
        self.clock.advance(TICK)
        refs = [ClaimRef(claim.id, claim.token) for claim in pair]
        expected = self.run(self.model.extend_lease(self.queue, [refs[0]], by_ms))
        assert self.run(self.subject.backend.extend_lease(self.queue, [refs[1]], by_ms)) == expected
        assert self.run(self.subject.backend.still_held(self.queue, [refs[1]])) == expected

    @rule(
        number=st.integers(0, 1),
        happening=st.sampled_from(("beats", "beats", "is cordoned", "is let in again", "restarts")),
    )
    def an_engine(self, number: int, happening: str) -> None:
        engine = self.engines[number]
        match happening:
            case "beats":
                self.beat(engine)
            case "restarts":
                self.same(lambda backend: backend.retire_engine(self.queue, engine))
                fresh = uuid4()
                first, second = self.engines
                self.engines = (fresh, second) if number == 0 else (first, fresh)
                self.register(fresh)
            case _:
                cordoned = happening == "is cordoned"
                self.same(lambda backend: backend.cordon(self.queue, [engine], cordoned=cordoned))

    def beat(self, engine: UUID) -> None:
        beat = Heartbeat(engine_id=engine, state=EngineState.RUNNING, busy=1)
        reply = self.same(lambda backend: backend.heartbeat(self.queue, beat))
        if not reply.known:
            self.register(engine)

    @rule()
    def reap(self) -> None:
        expected, answered = self.both(
            lambda backend: backend.reap(self.queue, limit=200, liveness_ms=LIVENESS_MS)
        )
        agree(
            {(one.id, one.type, one.attempt, one.state, one.payload) for one in answered},
            {(one.id, one.type, one.attempt, one.state, one.payload) for one in expected},
        )

    @rule(seconds=st.sampled_from((20, 60, 60, 300)), alive=st.booleans(), reaped=st.booleans())
    def pass_time(self, seconds: int, alive: bool, reaped: bool) -> None:
        """With or without a sign of life of the engines at its end, and somebody who looks for it."""
        by = timedelta(seconds=seconds)
        self.clock.advance(by)
        self.run(self._advance_subject(by))
        for engine in self.engines if alive else ():
            self.beat(engine)
        if reaped:
            self.reap()

    async def _advance_subject(self, by: timedelta) -> None:
        await self.subject.advance(by)

    @rule()
    def requeue_dead_letters(self) -> None:
        asked = list(self.known)
        self.same(lambda backend: backend.requeue_dead_letters(self.queue, asked, actor="somebody"))

    @invariant()
    def what_is_shown_agrees(self) -> None:
        """At every fourth step: these reads are most of the time it takes."""
        self.steps += 1
        if self.steps % 4 == 0:
            self.counts_agree()
            self.demand_agrees()

    def counts_agree(self) -> None:
        expected = self.run(self.model.stats(self.queue))
        answered = self.run(self.subject.backend.stats(self.queue))
        agree(dict(answered.counts), dict(expected.counts))
        agree(nonzero(answered.by_type), nonzero(expected.by_type))

    def demand_agrees(self) -> None:
        [expected] = self.run(self.model.demand([self.queue], horizon_ms=40_000))
        [answered] = self.run(self.subject.backend.demand([self.queue], horizon_ms=40_000))
        agree(
            [demanded(one) for one in answered.types if any(demanded(one)[1:])],
            [demanded(one) for one in expected.types if any(demanded(one)[1:])],
        )

    def teardown(self) -> None:
        """At the end, everything that is stored of every activity."""
        self.counts_agree()
        self.demand_agrees()
        for activity_id in self.known:
            expected, answered = (
                self.run(side.get_activity(self.queue, activity_id))
                for side in (self.model, self.subject.backend)
            )
            agree(comparable(answered), comparable(expected))
            expected, answered = (
                self.run(side.get_activity_events(self.queue, activity_id))
                for side in (self.model, self.subject.backend)
            )
            agree(
                [(event.kind, event.attempt) for event in answered],
                [(event.kind, event.attempt) for event in expected],
            )


def comparing(
    loop: asyncio.AbstractEventLoop, make: Callable[[], Coroutine[Any, Any, Subject]]
) -> type[Comparison]:
    """A machine that plays on `loop`, on a fresh subject for each history."""
    return type("Machine", (Comparison,), {"loop": loop, "make": [make]})


def agree(answered: Any, expected: Any) -> None:
    """Fails with both answers, of records only with the fields that differ."""
    if answered == expected:
        return
    if isinstance(answered, dict) and isinstance(expected, dict):
        mine, theirs = cast("dict[Any, Any]", answered), cast("dict[Any, Any]", expected)
        answered = {key: mine[key] for key in mine if mine[key] != theirs.get(key)}
        expected = {key: theirs[key] for key in theirs if theirs[key] != mine.get(key)}
    raise AssertionError(f"the subject says {answered!r}, the model {expected!r}")


INSTANTS = ("created_at", "ready_at", "claimed_at", "finished_at", "deadline")


def comparable(record: Any) -> dict[str, Any]:
    """All that two backends must agree on: not tokens, nor instants, only which of them there are."""
    fields = {name: getattr(record, name) for name in record.__struct_fields__ if name != "token"}
    for name in INSTANTS:
        if name in fields:
            fields[name] = fields[name] is not None
    error = fields.get("error")
    if error is not None:
        fields["error"] = (error.kind, error.type)
    fields.pop("result_codec", None)
    return fields


def nonzero(by_type: Any) -> dict[tuple[str, ActivityState], int]:
    return {
        (name, state): count
        for name, counts in by_type.items()
        for state, count in counts.items()
        if count
    }


def demanded(entry: Any) -> tuple[Any, ...]:
    return entry.type, entry.claimable, entry.running, entry.due_soon, entry.future
