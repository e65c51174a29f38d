"""The builder: immutable, and every wrong value is refused by the name of its field."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any
from uuid import UUID

import pytest
from tests.unit.sdk.odd import odd

from runnerq import ActivityExecutor, ConfigurationError, InvalidActivity, activity
from runnerq.builder import ActivityBuilder
from runnerq.storage.memory import MemoryBackend
from runnerq.storage.records import Idempotency, IdempotencyBehavior, Priority

ID = UUID(int=7)
Use = Callable[[Any], Any]


def builder() -> ActivityBuilder[Any]:
    return ActivityExecutor(MemoryBackend()).activity("work")


def test_a_builder_says_everything_that_is_stored() -> None:
    due = datetime(2026, 1, 1, tzinfo=UTC)
    spec = (
        builder()
        .payload({"a": 1})
        .priority("critical")
        .max_attempts(7)
        .timeout(0.5)
        .run_at(due)
        .idempotency_key("k", behavior="no_reuse", ttl=60)
        .headers({"trace": "x"})
        .spec(ID)
    )
    assert (spec.id, spec.type, spec.payload) == (ID, "work", b'{"a":1}')
    assert (spec.priority, spec.max_attempts, spec.timeout_ms) == (Priority.CRITICAL, 7, 500)
    assert (spec.run_at, spec.delay_ms) == (due, 0)
    assert spec.idempotency == Idempotency(
        key="k", behavior=IdempotencyBehavior.NO_REUSE, ttl_ms=60_000
    )
    assert spec.headers == {"trace": "x"}


def test_a_builder_that_says_nothing_has_the_defaults() -> None:
    spec = builder().spec(ID)
    assert (spec.payload, spec.priority, spec.max_attempts) == (b"null", Priority.NORMAL, 3)
    assert (spec.timeout_ms, spec.delay_ms, spec.run_at) == (300_000, 0, None)
    assert (spec.idempotency, spec.headers, spec.parent_id) == (None, {}, None)


def test_every_step_leaves_the_builder_it_came_from_as_it_was() -> None:
    first = builder()
    before = first.spec(ID)
    steps = [
        first.payload(1),
        first.priority("high"),
        first.max_attempts(1),
        first.timeout(1),
        first.delay(1),
        first.run_at(datetime.now(UTC)),
        first.idempotency_key("k"),
        first.headers({"a": "b"}),
    ]
    assert first.spec(ID) == before
    assert all(step.spec(ID) != before for step in steps)
    with pytest.raises(AttributeError):
        odd(first).type = "other"


def test_a_payload_is_what_it_was_when_it_was_given() -> None:
    value = {"a": [1]}
    built = builder().payload(value)
    value["a"].append(2)
    assert built.spec(ID).payload == b'{"a":[1]}'


def test_a_definition_gives_its_limits_to_its_builders() -> None:
    @activity("limited", timeout=5, max_attempts=9, priority="low")
    def limited(value: int) -> int:
        return value

    spec = limited.payload(1).spec(ID)
    assert (spec.timeout_ms, spec.max_attempts, spec.priority) == (5000, 9, Priority.LOW)
    assert limited.payload(1).timeout(6).spec(ID).timeout_ms == 6000


def test_delay_and_run_at_replace_each_other() -> None:
    due = datetime(2026, 1, 1, tzinfo=UTC)
    assert builder().delay(5).run_at(due).spec(ID).delay_ms == 0
    assert builder().run_at(due).delay(5).spec(ID).run_at is None


DELAYS: list[tuple[Use, int]] = [
    (lambda b: b.delay(0.001), 1),
    (lambda b: b.delay(timedelta(microseconds=1)), 1),
    (lambda b: b.delay(seconds=1.5), 1500),
    (lambda b: b.delay(minutes=1, seconds=1), 61_000),
    (lambda b: b.delay(hours=2, days=1), 26 * 3_600_000),
    (lambda b: b.delay(), 0),
    (lambda b: b.delay(0), 0),
]


@pytest.mark.parametrize(("delay", "expected"), DELAYS)
def test_a_delay_is_seconds_a_timedelta_or_the_sum_of_its_parts(delay: Any, expected: int) -> None:
    assert delay(builder()).spec(ID).delay_ms == expected


@pytest.mark.parametrize("priority", ["HIGH", "high", "High", 3, Priority.HIGH])
def test_a_priority_is_itself_its_name_or_its_number(priority: Any) -> None:
    assert builder().priority(priority).spec(ID).priority is Priority.HIGH


class Nowhere(tzinfo):
    def utcoffset(self, dt: datetime | None) -> None:
        return None


REFUSALS: list[tuple[str, Use]] = [
    ("payload[0]", lambda b: b.payload([float("nan")])),
    ("priority", lambda b: b.priority("urgent")),
    ("priority", lambda b: b.priority(0)),
    ("priority", lambda b: b.priority(5)),
    ("priority", lambda b: b.priority(2.0)),
    ("priority", lambda b: b.priority(True)),
    ("priority", lambda b: b.priority(None)),
    ("priority", lambda b: b.priority([])),
    ("max_attempts", lambda b: b.max_attempts(-1)),
    ("max_attempts", lambda b: b.max_attempts(1.0)),
    ("max_attempts", lambda b: b.max_attempts(True)),
    ("max_attempts", lambda b: b.max_attempts("3")),
    ("max_attempts", lambda b: b.max_attempts(10**9)),
    ("timeout", lambda b: b.timeout(0)),
    ("timeout", lambda b: b.timeout(-1)),
    ("timeout", lambda b: b.timeout(float("inf"))),
    ("timeout", lambda b: b.timeout(None)),
    ("delay", lambda b: b.delay(-1)),
    ("delay", lambda b: b.delay("1")),
    ("delay", lambda b: b.delay(seconds=float("nan"))),
    ("delay", lambda b: b.delay(days=10**12)),
    ("delay", lambda b: b.delay(hours="1")),
    ("delay", lambda b: b.delay(5, seconds=1)),
    ("delay", lambda b: b.delay(seconds=-1)),
    ("run_at", lambda b: b.run_at(datetime(2026, 1, 1))),  # noqa: DTZ001 - that is the mistake
    ("run_at", lambda b: b.run_at(datetime(2026, 1, 1, tzinfo=Nowhere()))),
    ("run_at", lambda b: b.run_at("2026-01-01")),
    ("run_at", lambda b: b.run_at(0)),
    ("idempotency_key", lambda b: b.idempotency_key("")),
    ("idempotency_key", lambda b: b.idempotency_key("k" * 501)),
    ("idempotency_key", lambda b: b.idempotency_key("a\x00")),
    ("idempotency_key", lambda b: b.idempotency_key("a\ud800")),
    ("idempotency_key", lambda b: b.idempotency_key(5)),
    ("idempotency_key", lambda b: b.idempotency_key(None)),
    ("behavior", lambda b: b.idempotency_key("k", behavior="reuse")),
    ("behavior", lambda b: b.idempotency_key("k", behavior=None)),
    ("ttl", lambda b: b.idempotency_key("k", ttl=0)),
    ("ttl", lambda b: b.idempotency_key("k", ttl="1h")),
    ("headers", lambda b: b.headers(["a"])),
    ("headers", lambda b: b.headers({"a": "x" * 20_000})),
    ("headers['a']", lambda b: b.headers({"a": 5})),
    ("headers[5]", lambda b: b.headers({5: "a"})),
    ("headers.a", lambda b: b.headers({"a": "\ud800"})),
    ("type", lambda b: b.executor.activity("")),
    ("type", lambda b: b.executor.activity("send_*")),
    ("type", lambda b: b.executor.activity(None)),
]


@pytest.mark.parametrize(("field", "misuse"), REFUSALS)
def test_a_wrong_value_is_refused_by_the_name_of_its_field(field: str, misuse: Any) -> None:
    with pytest.raises(InvalidActivity) as caught:
        misuse(builder())
    assert caught.value.field == field
    assert str(caught.value).startswith(f"{field}: ")


async def test_a_builder_without_an_executor_says_how_to_get_one() -> None:
    @activity("alone")
    def alone(value: int) -> int:
        return value

    with pytest.raises(ConfigurationError, match=r"\.on\(executor\)"):
        await alone.payload(1).execute()
    future = await alone.payload(1).on(ActivityExecutor(MemoryBackend())).execute()
    assert future.queue == "default"
