"""The lease value and the elector, in virtual time against a Lease in memory."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.virtual_time import run_in_virtual_time

from runnerq_operator.kube.api import Conflict, NotFound, Unreachable
from runnerq_operator.kube.elector import Elector, LeaseName
from runnerq_operator.kube.kinds import Kind
from runnerq_operator.kube.leadership import Leadership, NotLeading
from runnerq_operator.kube.lease import (
    NOTHING_SEEN,
    LeaseRecord,
    LeaseTimes,
    Sighting,
    released,
    taken,
)

TIMES = LeaseTimes()
EPOCH = datetime(2030, 1, 1, tzinfo=UTC)


def now() -> float:
    return asyncio.get_running_loop().time()


@dataclass
class LeaseInMemory:
    """One Lease with optimistic locking, and the ways in which a server can fail."""

    spec: dict[str, Any] | None = None
    version: int = 0
    down: bool = False
    silent: bool = False
    lose_answers: bool = False
    writers: list[tuple[float, str]] = field(default_factory=list[tuple[float, str]])

    async def get(self, kind: Kind, namespace: str, name: str) -> dict[str, Any]:
        await self._fail()
        if self.spec is None:
            raise NotFound(404, "NotFound", "no such lease")
        return self._body()

    async def create(
        self, kind: Kind, namespace: str, body: dict[str, Any], *, manager: str
    ) -> dict[str, Any]:
        await self._fail()
        if self.spec is not None:
            raise Conflict(409, "AlreadyExists", "it exists")
        return self._store(body)

    async def replace(
        self, kind: Kind, namespace: str, name: str, body: dict[str, Any], *, manager: str
    ) -> dict[str, Any]:
        await self._fail()
        if body["metadata"]["resourceVersion"] != str(self.version):
            raise Conflict(409, "Conflict", "the object has been modified")
        return self._store(body)

    async def _fail(self) -> None:
        await asyncio.sleep(0.01)
        if self.down:
            raise Unreachable("connection refused")
        if self.silent:
            await asyncio.Event().wait()

    def _store(self, body: dict[str, Any]) -> dict[str, Any]:
        self.spec = dict(body["spec"])
        self.version += 1
        self.writers.append((now(), body["spec"]["holderIdentity"]))
        if self.lose_answers:
            raise Unreachable("the answer was lost")
        return self._body()

    def _body(self) -> dict[str, Any]:
        return {"metadata": {"resourceVersion": str(self.version)}, "spec": dict(self.spec or {})}


class Candidate:
    """An elector with a leader's work that notes when it ran and writes as fast as it may."""

    def __init__(self, lease: LeaseInMemory, identity: str) -> None:
        self.leadership = Leadership(now)
        self.started: list[float] = []
        self.ended: list[float] = []
        self.writes: list[float] = []
        self.refused = 0
        self.frozen = False
        self.elector = Elector(
            lease,
            LeaseName(namespace="runnerq", name="operator", identity=identity),
            self.leadership,
            wall=lambda: EPOCH + timedelta(seconds=now()),
        )

    async def lead(self) -> None:
        self.started.append(now())
        try:
            while True:
                try:
                    self.leadership.check()
                    self.writes.append(now())
                except NotLeading:
                    self.refused += 1
                await asyncio.sleep(0.1)
        finally:
            self.ended.append(now())

    async def run(self) -> None:
        await self.elector.run(self.lead)


@asynccontextmanager
async def running(candidate: Candidate) -> AsyncGenerator[asyncio.Task[None], None]:
    task = asyncio.create_task(candidate.run())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def overlap(first: Candidate, second: Candidate) -> list[float]:
    """Moments at which one wrote while the other already had."""
    return [at for at in first.writes if second.writes and at >= second.writes[0]]


def test_the_three_durations_must_leave_a_leader_time_to_stop():
    with pytest.raises(ValueError, match="lease > renew_deadline > retry > 0"):
        LeaseTimes(lease=10, renew_deadline=10, retry=2)


def test_an_unchanged_lease_of_another_is_respected_for_its_whole_duration():
    seen = NOTHING_SEEN.after(LeaseRecord(holder="b", duration=15), 100.0)
    assert seen.held_by_another("a", 114.9, TIMES)
    assert not seen.held_by_another("a", 115.0, TIMES)


def test_a_renewal_seen_starts_the_duration_anew_and_a_mere_read_does_not():
    first = LeaseRecord(holder="b", duration=15, renewed_at=EPOCH)
    seen = Sighting(first, 100.0).after(first, 110.0)
    assert seen.seen_at == 100.0
    renewed = LeaseRecord(holder="b", duration=15, renewed_at=EPOCH + timedelta(seconds=2))
    assert seen.after(renewed, 112.0).seen_at == 112.0


def test_a_longer_duration_of_the_holder_counts():
    seen = Sighting(LeaseRecord(holder="b", duration=60), 0.0)
    assert seen.held_by_another("a", 59.0, TIMES)


def test_a_released_lease_and_an_own_one_are_free():
    mine = taken(None, "a", EPOCH, TIMES)
    assert not Sighting(mine, 0.0).held_by_another("a", 1.0, TIMES)
    assert not Sighting(released(mine, EPOCH), 0.0).held_by_another("b", 1.0, TIMES)


def test_taking_from_another_counts_a_transition_and_renewing_does_not():
    first = taken(None, "a", EPOCH, TIMES)
    later = EPOCH + timedelta(seconds=30)
    assert taken(first, "a", later, TIMES).acquired_at == EPOCH
    second = taken(first, "b", later, TIMES)
    assert (second.transitions, second.acquired_at) == (1, later)


def test_a_record_survives_the_form_the_api_has():
    record = taken(taken(None, "a", EPOCH, TIMES), "b", EPOCH + timedelta(seconds=1.5), TIMES)
    assert LeaseRecord.from_spec(record.spec()) == record
    assert LeaseRecord.from_spec({}) == LeaseRecord(holder="", duration=0)


def test_the_first_candidate_leads_at_once_and_keeps_leading():
    async def scenario() -> None:
        lease = LeaseInMemory()
        one = Candidate(lease, "one")
        task = asyncio.create_task(one.run())
        await asyncio.sleep(3600)
        assert one.started == [pytest.approx(0.02, abs=0.05)]
        assert one.ended == []
        assert one.refused == 0
        # Renewed every two seconds, not faster.
        assert 1700 <= len(lease.writers) <= 1801
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    run_in_virtual_time(scenario())


def test_a_killed_leader_is_followed_within_18_seconds_and_not_before_15():
    async def scenario() -> None:
        lease = LeaseInMemory()
        spec = taken(None, "dead", EPOCH, TIMES).spec()
        lease.spec, lease.version = spec, 1
        two = Candidate(lease, "two")
        async with running(two):
            await asyncio.sleep(30)
            assert 15 <= two.started[0] <= 15.1, "at the moment of expiry"

    run_in_virtual_time(scenario())


def test_a_leader_that_stops_hands_over_within_3_seconds():
    async def scenario() -> None:
        lease = LeaseInMemory()
        one, two = Candidate(lease, "one"), Candidate(lease, "two")
        async with contextlib.AsyncExitStack() as stack:
            async with running(one):
                await asyncio.sleep(1)
                await stack.enter_async_context(running(two))
                await asyncio.sleep(100)
            stopped = now()
            await asyncio.sleep(10)
            assert two.started[0] - stopped <= 3
            assert overlap(one, two) == []

    run_in_virtual_time(scenario())


def test_a_leader_without_connection_stops_before_another_may_start():
    async def scenario() -> None:
        lease = LeaseInMemory()
        one = Candidate(lease, "one")
        async with running(one) as first:
            await asyncio.sleep(50)
            lease.down = True
            await asyncio.sleep(60)
            assert len(one.ended) == 1
            assert 60 - 2.1 <= one.ended[0] <= 60.2
            assert max(one.writes) <= 60.0
            assert not first.done(), "a connection error must not end the elector"
            lease.down = False
            await asyncio.sleep(20)
            assert len(one.started) == 2, "it leads again when the server is back"

    run_in_virtual_time(scenario())


def test_a_server_that_never_answers_ends_the_leadership_in_time():
    async def scenario() -> None:
        lease = LeaseInMemory()
        one = Candidate(lease, "one")
        async with running(one):
            await asyncio.sleep(50)
            lease.silent = True
            await asyncio.sleep(30)
            assert len(one.ended) == 1
            assert one.ended[0] <= 60.2

    run_in_virtual_time(scenario())


def test_a_renewal_whose_answer_was_lost_is_recognised_as_our_own():
    async def scenario() -> None:
        lease = LeaseInMemory()
        one = Candidate(lease, "one")
        async with running(one):
            await asyncio.sleep(20.5)
            lease.lose_answers = True
            await asyncio.sleep(2)
            lease.lose_answers = False
            await asyncio.sleep(60)
            assert one.ended == []

    run_in_virtual_time(scenario())


def test_a_leader_whose_lease_was_taken_stops_at_its_next_renewal():
    async def scenario() -> None:
        lease = LeaseInMemory()
        one = Candidate(lease, "one")
        async with running(one):
            await asyncio.sleep(20)
            lease.spec = taken(None, "thief", EPOCH, TIMES).spec()
            lease.version += 1
            await asyncio.sleep(5)
            assert len(one.ended) == 1
            assert one.ended[0] <= 22.5
            assert lease.spec["holderIdentity"] == "thief"

    run_in_virtual_time(scenario())


def test_a_process_that_was_frozen_may_not_write_when_it_wakes():
    clock = [100.0]
    leadership = Leadership(lambda: clock[0])
    leadership.trust_until(110.0)
    assert leadership.check() == 10.0
    clock[0] = 110.0
    with pytest.raises(NotLeading):
        leadership.check()


def test_what_the_leaders_work_raises_ends_the_elector_and_releases_the_lease():
    async def scenario() -> None:
        lease = LeaseInMemory()
        leadership = Leadership(now)
        elector = Elector(
            lease,
            LeaseName(namespace="runnerq", name="operator", identity="one"),
            leadership,
            wall=lambda: EPOCH,
        )

        async def broken() -> None:
            await asyncio.sleep(5)
            raise LookupError("a bug")

        with pytest.raises(ExceptionGroup) as caught:
            await elector.run(broken)
        assert caught.group_contains(LookupError)
        assert lease.spec is not None
        assert lease.spec["holderIdentity"] == ""

    run_in_virtual_time(scenario())


def test_of_two_candidates_on_a_failing_server_never_both_write():
    async def scenario(seed: int) -> None:
        chance = random.Random(seed)  # noqa: S311 - reproducible on purpose
        lease = LeaseInMemory()
        candidates = [Candidate(lease, name) for name in ("one", "two")]
        async with running(candidates[0]), running(candidates[1]):
            for _ in range(200):
                await asyncio.sleep(chance.uniform(1, 20))
                lease.down = chance.random() < 0.3
                lease.lose_answers = chance.random() < 0.2
        moments = sorted(
            (at, name)
            for name, candidate in zip(("one", "two"), candidates, strict=True)
            for at in candidate.writes
        )
        last: dict[str, float] = {}
        for at, name in moments:
            other = "two" if name == "one" else "one"
            # Between the last write of one and the first of the other lies the margin of the times,
            # unless the lease was released in between.
            assert at > last.get(other, -1.0)
            last[name] = at
        switches = sum(a[1] != b[1] for a, b in itertools.pairwise(moments))
        assert switches < 60, "they take turns, they do not interleave"

    for seed in range(5):
        run_in_virtual_time(scenario(seed))
