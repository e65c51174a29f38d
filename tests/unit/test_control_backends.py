"""Backends of the loop: opened once, migrated first, one read for all; failures stay failures."""

from __future__ import annotations

import asyncio

import pytest
from tests.conformance.eventually import eventually

from runnerq.errors import ConfigurationError, SchemaMismatch
from runnerq.storage.memory import MemoryBackend
from runnerq.storage.ports import Storage
from runnerq.testing import FaultyBackend
from runnerq_operator.control.backends import BackendHub
from runnerq_operator.control.desired import BackendAddress

HERE = BackendAddress(url="memory://")


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Backends:
    """A hub whose every address is a memory backend that can fail."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.made: list[FaultyBackend] = []
        self.closed = 0
        self.hub = BackendHub(self._open, self.clock)

    def _open(self, address: BackendAddress) -> Storage:
        if address.url == "nonsense":
            raise ConfigurationError("'nonsense' is no address", field="url")
        self.made.append(FaultyBackend(MemoryBackend()))
        return self.made[-1]


async def test_two_queues_of_one_address_share_backend_and_read():
    backends = Backends()
    one, two = backends.hub.join(HERE, "a"), backends.hub.join(HERE, "b")
    assert one is two
    first, second = await one.read("a", max_age=5), await two.read("b", max_age=5)
    assert first.number == second.number
    assert first.demand is not None
    assert first.demand.queue == "a"
    (storage,) = backends.made
    assert storage.calls["demand"] == storage.calls["migrate"] == storage.calls["open"] == 1


async def test_another_schema_is_another_backend():
    backends = Backends()
    other = BackendAddress(url=HERE.url, schema="elsewhere")
    assert backends.hub.join(HERE, "a") is not backends.hub.join(other, "a")


async def test_a_read_that_is_too_old_is_made_again():
    backends = Backends()
    link = backends.hub.join(HERE, "a")
    first = await link.read("a", max_age=5)
    backends.clock.now += 4
    assert (await link.read("a", max_age=5)).number == first.number
    backends.clock.now += 2
    assert (await link.read("a", max_age=5)).number != first.number


async def test_a_queue_that_joined_after_the_read_is_read():
    backends = Backends()
    link = backends.hub.join(HERE, "a")
    await link.read("a", max_age=5)
    backends.hub.join(HERE, "b")
    answer = await link.read("b", max_age=5)
    assert answer.demand is not None
    assert answer.demand.queue == "b"


async def test_those_who_ask_at_the_same_time_share_one_read():
    backends = Backends()
    link = backends.hub.join(HERE, "a")
    answers = await asyncio.gather(*(link.read("a", max_age=1) for _ in range(10)))
    assert len({answer.number for answer in answers}) == 1


async def test_a_failed_read_is_a_failure_for_all_who_share_it_and_never_an_empty_demand():
    backends = Backends()
    link = backends.hub.join(HERE, "a")
    await link.read("a", max_age=5)
    backends.made[0].fail("demand")
    backends.clock.now += 10
    failed, shared = await link.read("a", max_age=5), await link.read("a", max_age=5)
    assert (failed.demand, failed.reason) == (None, "NoAnswer")
    assert "not there" in failed.message
    assert failed.number == shared.number
    backends.clock.now += 10
    assert (await link.read("a", max_age=5)).demand is not None


async def test_a_backend_that_answers_with_something_unexpected_has_not_answered():
    backends = Backends()
    link = backends.hub.join(HERE, "a")
    backends.made[0].fail("demand", error=OSError("cut off"))
    failed = await link.read("a", max_age=5)
    assert (failed.demand, failed.reason) == (None, "NoAnswer")
    assert "cut off" in failed.message


async def test_a_schema_that_does_not_fit_is_its_own_reason():
    backends = Backends()
    link = backends.hub.join(HERE, "a")
    backends.made[0].fail("migrate", error=SchemaMismatch("version 9 is newer than this code"))
    failed = await link.read("a", max_age=5)
    assert (failed.reason, failed.message) == ("Mismatch", "version 9 is newer than this code")
    assert not link.ready
    backends.clock.now += 10
    assert (await link.read("a", max_age=5)).demand is not None
    assert link.ready


async def test_a_migration_is_not_repeated_once_it_succeeded():
    backends = Backends()
    link = backends.hub.join(HERE, "a")
    for _ in range(3):
        await link.read("a", max_age=0)
        backends.clock.now += 10
    assert backends.made[0].calls["migrate"] == 1


async def test_the_last_to_leave_closes():
    backends = Backends()
    backends.hub.join(HERE, "a")
    backends.hub.join(HERE, "b")
    await backends.hub.leave(HERE, "a")
    assert backends.made[0].calls["close"] == 0
    await backends.hub.leave(HERE, "b")
    assert backends.made[0].calls["close"] == 1


async def test_a_bad_address_is_refused():
    backends = Backends()
    with pytest.raises(ConfigurationError, match="nonsense"):
        backends.hub.join(BackendAddress(url="nonsense"), "a")


async def test_the_longest_look_ahead_of_all_queues_is_asked_for():
    backends = Backends()
    link = backends.hub.join(HERE, "a")
    asked: list[int] = []

    def note(_queues: object, *, horizon_ms: int) -> bool:
        asked.append(horizon_ms)
        return False

    backends.made[0].fail("demand", times=None, when=note)
    link.look_ahead("a", 30)
    link.look_ahead("b", 90)
    await link.read("a", max_age=0)
    link.look_ahead("b", 5000)
    backends.clock.now += 1
    await link.read("a", max_age=0)
    await eventually(lambda: asked == [90_000, 300_000])
