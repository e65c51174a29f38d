"""Rule 13: what goes in comes out the same, or is refused at the door with the path to it."""

from __future__ import annotations

import dataclasses
import enum
import math
import threading
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypedDict
from uuid import UUID

import msgspec
import pydantic
import pytest
from tests.conformance.eventually import WITHIN

from runnerq import ActivityBuilder, ActivityFailed, ActivityTimedOut, InvalidActivity, activity
from runnerq.storage.records import ActivityState, ErrorInfo, ErrorKind, OutcomeKind

if TYPE_CHECKING:
    from tests.conformance.engines import Engines
    from tests.conformance.station import Station

    from runnerq import ActivityDefinition


JSON_VALUES: list[Any] = [
    None,
    True,
    0,
    -1,
    2**31,
    2**53 + 1,
    2**63 - 1,
    2**64 - 1,
    -(2**63),
    2**64,
    -(2**63) - 1,
    10**400,
    0.1,
    -0.0,
    1e308,
    5e-324,
    "",
    "plain",
    "\x00",
    "a\x00b\u0001\u001f\u007f",
    "日本語 🦊 é e\u0301 \u2028 \ufeff",
    "'; DROP TABLE runnerq_activities; --",
    "{schema} %s $1 :name ?",
    [],
    {},
    [[], [None], [[1, [2, [3]]]]],
    {"": 1, "a b": {"\x00": "\x00"}, "ключ": [1.5, "x"]},
    ["x" * 100_000],
    {"deep": {"er": {"still": [{"and": "so on"}]}}},
]


def builder(name: str = "work") -> ActivityBuilder[Any]:
    return ActivityBuilder(type=name)


def echo_of(value_type: Any) -> ActivityDefinition[Any, Any]:
    async def handler(value: Any) -> Any:
        return value

    handler.__annotations__ = {"value": value_type, "return": value_type}
    return activity("echo")(handler)


async def test_every_json_value_comes_back_the_same(engines: Engines) -> None:
    echo = echo_of(Any)
    await engines.start(echo)
    futures = await engines.executor.execute_many([echo.payload(value) for value in JSON_VALUES])
    for value, future in zip(JSON_VALUES, futures, strict=True):
        back = await future.get_result(timeout=WITHIN)
        assert back == value
        assert type(back) is type(value)
        if isinstance(value, float):
            assert math.copysign(1, back) == math.copysign(1, value)


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Point:
    x: int
    tags: list[str]


class Order(msgspec.Struct):
    id: UUID
    amount: Decimal
    at: datetime
    raw: bytes


class Address(pydantic.BaseModel):
    street: str
    number: int


class Options(TypedDict):
    retries: int


TYPED: list[tuple[Any, Any]] = [
    (datetime(2024, 2, 29, 23, 59, 59, 123456, tzinfo=UTC), datetime),
    (date(2024, 2, 29), date),
    (timedelta(days=3, microseconds=7), timedelta),
    (Decimal("0.1000000000000000000000000000000001"), Decimal),
    (UUID("020e4a37-85b6-5ee4-a6c6-ce49b8c3fad7"), UUID),
    (b"\x00\xff\xfe raw", bytes),
    (Colour.RED, Colour),
    ({1, 2, 3}, set[int]),
    ((1, "a"), tuple[int, str]),
    (Point(1, ["a"]), Point),
    (Order(UUID(int=5), Decimal("9.90"), datetime(2024, 1, 1, tzinfo=UTC), b"\x00"), Order),
    (Address(street="Main", number=5), Address),
    ({"retries": 3}, Options),
    ([Point(1, []), Point(2, ["b"])], list[Point]),
]


@pytest.mark.parametrize(("value", "value_type"), TYPED, ids=lambda part: ascii(part)[:40])
async def test_a_typed_value_comes_back_as_itself(
    engines: Engines, value: Any, value_type: Any
) -> None:
    echo = echo_of(value_type)
    await engines.start(echo)
    future = await echo.payload(value).on(engines.executor).execute()
    back = await future.get_result(timeout=WITHIN)
    assert back == value
    assert type(back) is type(value)


REFUSED: list[Any] = [
    pytest.param(float("nan"), "payload", id="nan"),
    pytest.param({"a": [1, float("inf")]}, "payload.a[1]", id="infinity"),
    pytest.param([{"b": float("-inf")}], "payload[0].b", id="minus-infinity"),
    pytest.param({"a": {"b": 1e400}}, "payload.a.b", id="1e400"),
    pytest.param(["fine", "lone \ud800"], "payload[1]", id="surrogate"),
    pytest.param({"k\udc00": 1}, "payload", id="surrogate-in-a-key"),
    pytest.param({"lock": threading.Lock()}, "payload.lock", id="lock"),
    pytest.param([object()], "payload[0]", id="object"),
    pytest.param(Point(1, ["\ud800"]), "payload.tags[0]", id="inside-a-dataclass"),
    pytest.param({"f": lambda: None}, "payload.f", id="function"),
    pytest.param("x" * (17 * 1024 * 1024), "payload", id="17-megabytes"),
]


@pytest.mark.parametrize(("value", "path"), REFUSED)
def test_what_cannot_be_stored_is_refused_at_the_door_with_its_path(value: Any, path: str) -> None:
    with pytest.raises(InvalidActivity) as refused:
        builder().payload(value)
    assert refused.value.field.startswith(path)


def test_a_value_that_contains_itself_is_refused() -> None:
    circular: list[Any] = []
    circular.append(circular)
    with pytest.raises(InvalidActivity, match="payload"):
        builder().payload(circular)


RESULTS: list[Any] = [
    pytest.param(float("nan"), "result", id="nan"),
    pytest.param({"a": [float("inf")]}, "result.a[0]", id="infinity"),
    pytest.param(["\ud800"], "result[0]", id="surrogate"),
    pytest.param({"lock": threading.Lock()}, "result.lock", id="lock"),
    pytest.param("x" * (17 * 1024 * 1024), "result", id="17-megabytes"),
]


@pytest.mark.parametrize(("value", "path"), RESULTS)
async def test_a_result_that_cannot_be_stored_fails_the_activity_and_the_worker_lives_on(
    station: Station, engines: Engines, value: Any, path: str
) -> None:
    @activity("bad")
    async def bad() -> Any:
        return value

    @activity("good")
    async def good() -> str:
        return "still here"

    await engines.start(bad, good, max_workers=1)
    future = await bad.payload(None).on(engines.executor).execute()
    with pytest.raises(ActivityFailed) as ended:
        await future.get_result(timeout=WITHIN)
    assert ended.value.error is not None
    assert ended.value.error.kind is ErrorKind.RESULT
    assert path in ended.value.error.message
    assert await station.state(future.id) is ActivityState.FAILED
    assert (await station.look(future.id)).attempt == 1
    again = await good.payload(None).on(engines.executor).execute()
    assert await again.get_result(timeout=WITHIN) == "still here"


MISMATCHES: list[Any] = [
    pytest.param(Point, {"x": "one", "tags": []}, "$.x", id="dataclass"),
    pytest.param(Options, {"retries": "many"}, "$.retries", id="typed-dict"),
    pytest.param(Order, {"id": "no-uuid", "amount": "1", "at": 0, "raw": ""}, "$.id", id="struct"),
    pytest.param(Address, {"street": "Main", "number": "five"}, "number", id="pydantic"),
    pytest.param(list[Point], [{"x": 1, "tags": [2]}], "$[0].tags[0]", id="nested"),
    pytest.param(int, None, "payload", id="null-for-a-number"),
]


@pytest.mark.parametrize(("value_type", "value", "path"), MISMATCHES)
async def test_a_payload_that_does_not_fit_the_handler_fails_without_running_it(
    station: Station, engines: Engines, value_type: Any, value: Any, path: str
) -> None:
    echo = echo_of(value_type)
    await engines.start(echo)
    future = await engines.executor.activity("echo").payload(value).execute()
    with pytest.raises(ActivityFailed) as ended:
        await future.get_result(timeout=WITHIN)
    assert not isinstance(ended.value, ActivityTimedOut)
    assert ended.value.error is not None
    assert ended.value.error.kind is ErrorKind.PAYLOAD
    assert path in ended.value.error.message
    look = await station.look(future.id)
    assert (look.status, look.attempt) == (ActivityState.FAILED, 1)


BYTES = [b"", b"\x00", b"\x00\xff" * 50, bytes(range(256)), b"\xed\xa0\x80", b"x" * 2_000_000]


@pytest.mark.parametrize("value", BYTES, ids=lambda value: f"{len(value)}-{value[:4]!a}")
async def test_storage_keeps_any_bytes_as_payload_and_result(
    station: Station, value: bytes
) -> None:
    activity_id = await station.enqueue(payload=value, codec="raw")
    claim = await station.claim_one()
    assert (claim.payload, claim.codec) == (value, "raw")
    await station.end(claim, result=value, codec="raw")
    ended = await station.result(activity_id)
    assert ended is not None
    assert (ended.result, ended.codec) == (value, "raw")
    look = await station.look(activity_id)
    assert (look.payload, look.result, look.result_codec) == (value, value, "raw")


TEXTS = ["", "\x00", "日本語 🦊", "a'b\"c\\", "x" * 20_000, "\u0001\u001f\u2028"]


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: ascii(text[:10]))
@pytest.mark.parametrize("kind", [OutcomeKind.FAILED, OutcomeKind.RETRIED])
async def test_storage_keeps_any_error_text(station: Station, text: str, kind: OutcomeKind) -> None:
    error = ErrorInfo(
        kind=ErrorKind.HANDLER, type="T", message=text, traceback=text, causes=(text, "other")
    )
    activity_id = await station.enqueue()
    await station.end(await station.claim_one(), kind, error=error)
    assert (await station.look(activity_id)).error == error
    if kind is OutcomeKind.RETRIED:
        events = await station.backend.get_activity_events(station.queue, activity_id)
        assert [event.error for event in events if event.kind == "retried"] == [error]


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: ascii(text[:10]))
async def test_storage_keeps_any_header(station: Station, text: str) -> None:
    headers = {"plain": text, f"name {text[:50]}": "v"}
    activity_id = await station.enqueue(headers=headers)
    assert (await station.claim_one()).headers == headers
    assert (await station.look(activity_id)).headers == headers


@pytest.mark.parametrize("queue_suffix", ["-ümlaut", " with space", "-'quote\"", "-%_?*"])
async def test_any_text_is_a_queue(station: Station, queue_suffix: str) -> None:
    queue = station.queue + queue_suffix
    spec = station.spec()
    await station.backend.enqueue(queue, [spec])
    assert (await station.backend.get_activity(queue, spec.id)).queue == queue


@pytest.mark.parametrize(
    "name", ["", "with space", "star*", "\x00", "ü", "x" * 201, "-leading", "semi;colon", "\ud800"]
)
def test_a_type_that_cannot_be_named_everywhere_is_refused(name: str) -> None:
    with pytest.raises(InvalidActivity, match="type"):
        builder(name)


@pytest.mark.parametrize("key", ["", "\x00", "a\x00b", "\ud800", "x" * 501])
def test_a_key_that_cannot_be_stored_is_refused(key: str) -> None:
    with pytest.raises(InvalidActivity, match="idempotency_key"):
        builder().idempotency_key(key)
