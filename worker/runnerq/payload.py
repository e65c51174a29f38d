"""Values on the wire: JSON, typed by the handler's annotations.

What JSON cannot carry unchanged is refused where it is handed in, with the path to it; nothing is
silently altered. Datetimes, Decimals, UUIDs, bytes and enums travel as strings and come back as
themselves wherever the receiving type says so. Pydantic models are used when they are there, never
imported from here.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import msgspec
import msgspec.inspect

from runnerq.errors import ConfigurationError, InvalidActivity, RunnerQError

if TYPE_CHECKING:
    from collections.abc import Iterator

JSON = "json"
MAX_BYTES = 16 * 1024 * 1024
"""Largest encoded value. A queue is not a file store: keep blobs elsewhere and send their names."""

_PLAIN = (str, int, float)

MAX_DEPTH = 1000
"""Levels of nesting that are looked into; neither end of the wire goes deeper."""
MAX_PATH = 200

T = TypeVar("T")


class PayloadMismatch(RunnerQError):
    """A stored value does not fit the type that reads it. The message holds the JSON path."""


def encode(value: object, *, field: str) -> bytes:
    """The value as JSON. Raises InvalidActivity naming the path (`payload.items[3]`)."""
    try:
        data = msgspec.json.encode(value, enc_hook=_encode_foreign)
    except Exception as error:
        # Whatever a foreign `model_dump` raises: what is handed in cannot be stored.
        path, problem = _find_problem(value, field) or (field, str(error) or repr(error))
        raise InvalidActivity(path, problem) from error
    # msgspec writes NaN and the infinities as null; only then is a walk needed to tell.
    if b"null" in data and (found := _find_problem(value, field)):
        raise InvalidActivity(*found)
    if len(data) > MAX_BYTES:
        raise InvalidActivity(
            field,
            f"is {len(data):,} bytes as JSON, the limit is {MAX_BYTES:,}; "
            "store it elsewhere and send its name",
        )
    return data


class Decoder(Generic[T]):
    """Reads values of one type. Made once per activity type, used for every attempt.

    Raises ConfigurationError for a type that no JSON value could have.
    """

    def __init__(self, value_type: type[T] | Any) -> None:
        # A pydantic model reads JSON itself, with its own rules and messages.
        self._model: Any = value_type if hasattr(value_type, "model_validate_json") else None
        readable = Any if self._model is not None or value_type is object else value_type
        try:
            foreign = _is_foreign(readable)
            self._json: msgspec.json.Decoder[Any] = msgspec.json.Decoder(
                readable, dec_hook=_decode_foreign
            )
        except (TypeError, ValueError) as error:
            raise ConfigurationError(f"{value_type!r} cannot be read from JSON: {error}") from error
        if foreign:
            raise ConfigurationError(_not_readable(value_type))

    def decode(self, data: bytes, *, field: str) -> T:
        """Raises PayloadMismatch with the path of what does not fit."""
        try:
            if self._model is not None:
                return self._model.model_validate_json(data)
            return cast("T", self._json.decode(data))
        except Exception as error:
            # Also what a foreign validator raises: the value is not one that the handler takes.
            raise PayloadMismatch(f"{field}: {error}") from error


def decode_untyped(data: bytes) -> Any:
    return msgspec.json.decode(data)


def _encode_foreign(value: object) -> object:
    # A subclass of a plain type is that type on the wire. A bool only comes here as a key.
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    if isinstance(value, Mapping):
        return dict(cast("Mapping[Any, Any]", value))
    dump = None if isinstance(value, type) else getattr(value, "model_dump", None)
    if dump is None:
        raise TypeError(_no_json_form(value))
    dumped = dump(mode="json")
    if hasattr(dumped, "model_dump"):  # a mock answers everything with another mock
        raise TypeError(f"model_dump of a {type(value).__name__} gave no plain value")
    return dumped


def _no_json_form(value: object) -> str:
    if isinstance(value, type):
        return f"the class {value.__name__} is not a value; was an instance meant?"
    return f"{type(value).__name__} has no JSON form"


def _decode_foreign(value_type: Any, value: object) -> object:
    validate = getattr(value_type, "model_validate_json", None)
    if validate is not None:
        # From JSON again: pydantic reads it by other rules than it reads Python values.
        return validate(msgspec.json.encode(value))
    if _is_plain(value_type):
        return value_type(value)
    raise TypeError(_not_readable(value_type))


def _is_plain(value_type: object) -> bool:
    return isinstance(value_type, type) and issubclass(value_type, _PLAIN)


def _not_readable(value_type: object) -> str:
    return f"cannot read a {value_type!r} from JSON; use a Struct, dataclass, TypedDict or model"


def _is_foreign(value_type: Any) -> bool:
    """Whether a value of this type can only be made by `_decode_foreign`, which does not know how."""
    info = msgspec.inspect.type_info(value_type)
    return isinstance(info, msgspec.inspect.CustomType) and not (
        hasattr(info.cls, "model_validate_json") or _is_plain(info.cls)
    )


class _Place:
    """Where a value stands, as a chain: a path is only spelled out for the one that is reported."""

    __slots__ = ("depth", "step", "within")

    def __init__(
        self, step: str | int, within: _Place | None = None, *, name: bool = False
    ) -> None:
        self.step = f".{step}" if name else step
        self.within = within
        self.depth: int = 0 if within is None else within.depth + 1

    def __str__(self) -> str:
        steps: list[str] = []
        place: _Place | None = self
        while place is not None:
            steps.append(f"[{place.step}]" if isinstance(place.step, int) else place.step)
            place = place.within
        path = "".join(reversed(steps))
        return path if len(path) <= MAX_PATH else path[:MAX_PATH] + "…"


def _find_problem(value: object, field: str) -> tuple[str, str] | None:
    """The first thing in `value` that JSON cannot carry, as (path, problem)."""
    waiting: list[tuple[object, _Place]] = [(value, _Place(field))]
    while waiting:
        item, place = waiting.pop()
        if place.depth > MAX_DEPTH:
            problem: str | None = f"is nested more than {MAX_DEPTH} deep, or contains itself"
        else:
            problem = _problem_of(item)
        if problem is not None:
            return str(place), problem
        try:
            inner = list(_inside(item, place))
        except _KeyProblem as error:
            return str(error.place), error.problem
        except Exception as error:  # noqa: BLE001 - a foreign `model_dump`; its failure is the problem
            return str(place), f"{type(error).__name__}: {error}"
        waiting.extend(reversed(inner))
    return None


def _problem_of(value: object) -> str | None:
    """What is wrong with the value itself, not with what is inside it."""
    match value:
        case None | bool():
            return None
        case float():
            return None if math.isfinite(value) else f"{value} is not a JSON number"
        case str():
            return _text_problem(value)
        case Mapping() | list() | tuple() | set() | frozenset():
            return None
        case _ if _field_names(value) or hasattr(value, "model_dump"):
            return _no_json_form(value) if isinstance(value, type) else None
        case _:
            try:
                msgspec.json.encode(value, enc_hook=_encode_foreign)
            except Exception as error:  # noqa: BLE001 - the answer to the question
                return str(error)
            return None


class _KeyProblem(Exception):
    def __init__(self, place: _Place, problem: str) -> None:
        super().__init__(problem)
        self.place = place
        self.problem = problem


def _inside(value: object, place: _Place) -> Iterator[tuple[object, _Place]]:
    match value:
        case Mapping():
            for key, item in cast("Mapping[Any, Any]", value).items():
                yield item, _place_of_key(key, place)
        case list() | tuple() | set() | frozenset():
            for index, item in enumerate(cast("list[Any]", value)):
                yield item, _Place(index, place)
        case _ if names := _field_names(value):
            for name in names:
                yield getattr(value, name, None), _Place(name, place, name=True)
        case _ if not isinstance(value, type) and hasattr(value, "model_dump"):
            yield _encode_foreign(value), _Place("", place)
        case _:
            return


def _place_of_key(key: object, within: _Place) -> _Place:
    if not isinstance(key, str):
        try:
            msgspec.json.encode({key: None})
        except Exception as error:
            place = _Place(f"[{key!a}] (key)", within)
            raise _KeyProblem(place, f"a {type(key).__name__} cannot be a key in JSON") from error
        return _Place(f"[{key!a}]", within)
    place = _Place(key, within, name=True) if key.isidentifier() else _Place(f"[{key!a}]", within)
    if problem := _text_problem(key):
        raise _KeyProblem(_Place(" (key)", place), problem)
    return place


def _text_problem(value: str) -> str | None:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        return f"holds a lone surrogate at character {error.start}, which is not valid text"
    return None


def _field_names(value: object) -> tuple[str, ...]:
    if isinstance(value, msgspec.Struct):
        return value.__struct_fields__
    if dataclasses.is_dataclass(value):
        return tuple(item.name for item in dataclasses.fields(value))
    return tuple(item.name for item in getattr(type(value), "__attrs_attrs__", ()))
