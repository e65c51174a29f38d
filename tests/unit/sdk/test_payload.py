"""Values on the wire: what comes back as itself, what is refused, and where."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import math
import threading
import types
import uuid
from collections import OrderedDict, deque
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple, TypedDict
from unittest.mock import MagicMock

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.sdk.odd import odd

from runnerq.errors import ConfigurationError, InvalidActivity
from runnerq.payload import MAX_BYTES, Decoder, PayloadMismatch, decode_untyped, encode


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


class Name(str):
    __slots__ = ()


class Count(int):
    pass


class Ratio(float):
    pass


class Point(NamedTuple):
    x: int
    y: int


class Line(TypedDict):
    begin: Point
    label: str | None


class Order(msgspec.Struct):
    id: int
    tags: list[str] = []
    note: str | None = None


@dataclasses.dataclass
class Shipment:
    order: Order
    at: dt.datetime


class Email(pydantic.BaseModel):
    to: str
    weight: float = 0.0
    sent: dt.datetime | None = None


class Envelope(pydantic.BaseModel):
    emails: list[Email]


@dataclasses.dataclass
class Parcel:
    email: Email
    count: int


class Explosive(pydantic.BaseModel):
    value: int

    @pydantic.field_validator("value")
    @classmethod
    def explode(cls, value: int) -> int:
        raise RuntimeError(f"validator of {value} broke")


class Undumpable:
    def model_dump(self, *, mode: str) -> object:
        raise KeyError(mode)


NOON = dt.datetime(2026, 2, 3, 12, 0, 0, 123456, tzinfo=dt.UTC)
ROUND_TRIPS: list[tuple[Any, Any]] = [
    (Any, None),
    (Any, True),
    (Any, -0.0),
    (Any, 0.1 + 0.2),
    (Any, 1e308),
    (Any, 5e-324),
    (Any, 2**53 + 1),
    (Any, 2**64),
    (Any, -(2**63) - 1),
    (Any, 10**400),
    (Any, ""),
    (Any, "nul \x00, tab \t, é, 🦊, \U0010ffff, \u2028"),
    (Any, {"a": [1, {"b": None}]}),
    (object, {"a": 1}),
    (int, 2**200),
    (bytes, bytes(range(256))),
    (bytearray, bytearray(b"\x00\xff")),
    (Decimal, Decimal("1.10")),
    (Decimal, Decimal("1E-30")),
    (dt.datetime, NOON),
    (dt.datetime, dt.datetime(2026, 2, 3, 12, 0)),  # noqa: DTZ001 - a naive one stays naive
    (dt.datetime, NOON.astimezone(dt.timezone(dt.timedelta(hours=-3, minutes=-30)))),
    (dt.date, dt.date(2026, 2, 3)),
    (dt.time, dt.time(23, 59, 59, 999999)),
    (dt.timedelta, dt.timedelta(days=400_000, microseconds=1)),
    (dt.timedelta, -dt.timedelta(microseconds=1)),
    (uuid.UUID, uuid.UUID(int=2**128 - 1)),
    (Colour, Colour.RED),
    (Level, Level.LOW),
    (set[int], {1, 2}),
    (frozenset[str], frozenset({"a"})),
    (tuple[int, str], (1, "a")),
    (dict[int, str], {1: "a", -2: "b"}),
    (dict[uuid.UUID, int], {uuid.UUID(int=1): 1}),
    (Point, Point(1, 2)),
    (Line, Line(begin=Point(1, 2), label=None)),
    (Order, Order(id=1, tags=["x"], note=None)),
    (list[Order], [Order(id=1), Order(id=2, note="n")]),
    (Shipment, Shipment(order=Order(id=1), at=NOON)),
    (Email, Email(to="a@b", sent=NOON)),
    (Envelope, Envelope(emails=[Email(to="a"), Email(to="b", weight=1.5)])),
    (list[Email], [Email(to="a", sent=NOON)]),
    (Email | None, Email(to="a")),
    (Parcel, Parcel(email=Email(to="a", sent=NOON), count=2)),
    (Literal["a", 1], "a"),
    (Name, Name("x")),
    (Count, Count(3)),
    (Ratio, Ratio(0.5)),
]


def short(value: object) -> str:
    return repr(value)[:60]


@pytest.mark.parametrize(("value_type", "value"), ROUND_TRIPS, ids=short)
def test_a_value_comes_back_as_itself_where_its_type_says_so(value_type: Any, value: Any) -> None:
    back = Decoder(value_type).decode(encode(value, field="payload"), field="payload")
    assert back == value
    assert type(back) is type(value)
    assert not isinstance(value, float) or math.copysign(1, back) == math.copysign(1, value)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=20,
)


@given(json_values)
def test_every_json_value_comes_back_equal(value: object) -> None:
    assert decode_untyped(encode(value, field="payload")) == value


@given(st.text(st.characters()))
def test_any_text_comes_back_or_is_refused_for_its_surrogates(text: str) -> None:
    if any("\ud800" <= character <= "\udfff" for character in text):
        with pytest.raises(InvalidActivity, match="lone surrogate"):
            encode(text, field="payload")
    else:
        assert decode_untyped(encode(text, field="payload")) == text


RELATIVES: list[tuple[Any, Any]] = [
    (Name("x"), "x"),
    (Count(3), 3),
    (Ratio(0.5), 0.5),
    (OrderedDict(a=1), {"a": 1}),
    (types.MappingProxyType({"a": 1}), {"a": 1}),
    ({Name("k"): 1}, {"k": 1}),
    ({1: "a"}, {"1": "a"}),
    ((1, {2}), [1, [2]]),
    (b"\x00", "AA=="),
]


@pytest.mark.parametrize(("value", "expected"), RELATIVES)
def test_a_relative_of_a_plain_type_travels_as_that_type(value: object, expected: object) -> None:
    assert decode_untyped(encode(value, field="payload")) == expected


def cycle() -> object:
    loop: list[object] = []
    loop.append(loop)
    return {"a": loop}


def deep(levels: int) -> object:
    value: object = None
    for _ in range(levels):
        value = [value]
    return value


REFUSALS: list[tuple[Any, str, str]] = [
    (math.nan, "payload", "nan is not a JSON number"),
    (-math.inf, "payload", "-inf is not a JSON number"),
    ([1, [2, math.nan]], "payload[1][1]", "nan"),
    ({"a": {"b c": [math.inf]}}, "payload.a['b c'][0]", "inf"),
    ({"a": None, "b": math.nan}, "payload.b", "nan"),
    ((1.0, math.nan), "payload[1]", "nan"),
    (Ratio("nan"), "payload", "nan"),
    (Order(id=1, tags=odd([math.nan])), "payload.tags[0]", "nan"),
    (Shipment(order=Order(id=1, note=odd(math.inf)), at=NOON), "payload.order.note", "inf"),
    (Email(to="a", weight=math.nan), "payload.weight", "nan"),
    ([Envelope(emails=[Email(to="a", weight=math.inf)])], "payload[0].emails[0].weight", "inf"),
    (Parcel(email=Email(to="a", weight=math.nan), count=1), "payload.email.weight", "nan"),
    ({"order": Order(id=1, note="\ud800")}, "payload.order.note", "lone surrogate at character 0"),
    ("ok\udfff", "payload", "lone surrogate at character 2"),
    ({"a": {"\ud800": 1}}, "payload.a['\\ud800'] (key)", "lone surrogate"),
    ({None: 1}, "payload[None] (key)", "NoneType cannot be a key"),
    ({True: 1}, "payload[True] (key)", "bool cannot be a key"),
    ({"a": {(1, 2): 1}}, "payload.a[(1, 2)] (key)", "tuple cannot be a key"),
    (threading.Lock(), "payload", "lock has no JSON form"),
    ({"a": [threading.Lock()]}, "payload.a[0]", "lock has no JSON form"),
    (1j, "payload", "complex has no JSON form"),
    (deque([1]), "payload", "deque has no JSON form"),
    (object(), "payload", "object has no JSON form"),
    (ValueError("x"), "payload", "ValueError has no JSON form"),
    ([Email], "payload[0]", "the class Email is not a value"),
    (Order, "payload", "the class Order is not a value"),
    (Shipment, "payload", "the class Shipment is not a value"),
    (msgspec.UNSET, "payload", "UnsetType has no JSON form"),
    (10**5000, "payload", "limit"),
    ({"a": Undumpable()}, "payload.a", "KeyError"),
    (MagicMock(), "payload", "model_dump of a MagicMock gave no plain value"),
    ([{"a": MagicMock()}], "payload[0].a", "gave no plain value"),
    (cycle(), "payload.a[0][0][0]", "contains itself"),
    (deep(5_000), "payload[0][0]", "nested more than"),
    (deep(200_000), "payload[0][0]", "nested more than"),
]


@pytest.mark.parametrize(
    ("value", "path", "problem"), REFUSALS, ids=[f"{path}: {words}" for _, path, words in REFUSALS]
)
def test_what_json_cannot_carry_is_refused_with_the_path_to_it(
    value: object, path: str, problem: str
) -> None:
    with pytest.raises(InvalidActivity) as caught:
        encode(value, field="payload")
    assert caught.value.field.startswith(path)
    assert problem in caught.value.problem
    assert len(str(caught.value)) < 1000


def test_a_generator_is_refused_and_not_consumed() -> None:
    numbers = (number for number in range(3))
    with pytest.raises(InvalidActivity, match="generator has no JSON form"):
        encode(numbers, field="payload")
    assert list(numbers) == [0, 1, 2]


def test_a_refusal_keeps_the_error_that_led_to_it() -> None:
    with pytest.raises(InvalidActivity) as caught:
        encode(Undumpable(), field="payload")
    assert isinstance(caught.value.__cause__, KeyError)


def test_nulls_are_no_reason_to_refuse() -> None:
    value = {"a": None, "null": ["null", None, {"b": None}], "n": NOON, "o": Order(id=1)}
    assert decode_untyped(encode(value, field="payload"))["null"] == ["null", None, {"b": None}]


def test_a_value_is_refused_when_it_is_larger_than_the_limit() -> None:
    encode("x" * (MAX_BYTES - 2), field="payload")
    with pytest.raises(InvalidActivity, match=r"^result: is 16,777,217 bytes as JSON"):
        encode("x" * (MAX_BYTES - 1), field="result")


@pytest.mark.parametrize(
    ("value_type", "data", "path"),
    [
        (int, b'"5"', "payload: Expected `int`, got `str`"),
        (Order, b'{"id": 1, "tags": ["a", 2]}', "$.tags[1]"),
        (Order, b"{}", "missing required field `id`"),
        (Shipment, b'{"order": {"id": 1}, "at": "noon"}', "$.at"),
        (Line, b'{"begin": [1], "label": null}', "$.begin"),
        (Email, b'{"to": 5}', "to"),
        (Envelope, b'{"emails": [{}]}', "emails.0.to"),
        (list[Email], b'[{"to": 5}]', "$[0]"),
        (Explosive, b'{"value": 5}', "validator of 5 broke"),
        (Annotated[int, msgspec.Meta(ge=1)], b"0", ">= 1"),
        (Any, b"{bad", "payload: JSON is malformed"),
        (Any, b"", "payload: "),
        (Any, b"\xff", "payload: "),
        (Any, b"[" * 100_000, "payload: "),
    ],
)
def test_a_stored_value_that_does_not_fit_says_where(
    value_type: Any, data: bytes, path: str
) -> None:
    with pytest.raises(PayloadMismatch) as caught:
        Decoder(value_type).decode(data, field="payload")
    assert str(caught.value).startswith("payload: ")
    assert path in str(caught.value)


class Plain:
    pass


@pytest.mark.parametrize("value_type", [Plain, complex, Email | int, list[Email | Order]])
def test_a_type_that_no_json_value_can_have_is_refused_when_it_is_declared(value_type: Any) -> None:
    with pytest.raises(ConfigurationError, match="from JSON"):
        Decoder(value_type)


def test_a_strict_model_inside_a_dataclass_is_read_by_the_rules_of_json() -> None:
    class Strict(pydantic.BaseModel, strict=True):
        at: dt.datetime

    @dataclasses.dataclass
    class Holder:
        inner: Strict

    Holder.__annotations__["inner"] = Strict
    data = encode(Holder(inner=Strict(at=NOON)), field="payload")
    assert Decoder(Holder).decode(data, field="payload") == Holder(inner=Strict(at=NOON))
