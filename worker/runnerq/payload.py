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
from typing import Any, Generic, TypeVar, cast

import msgspec

from runnerq.errors import InvalidActivity, RunnerQError

JSON = "json"
MAX_BYTES = 16 * 1024 * 1024
"""Largest encoded value. A queue is not a file store: keep blobs elsewhere and send their names."""

T = TypeVar("T")


class PayloadMismatch(RunnerQError):
    """A stored value does not fit the type that reads it. The message holds the JSON path."""


def encode(value: object, *, field: str) -> bytes:
    """The value as JSON. Raises InvalidActivity naming the path (`payload.items[3]`)."""
    try:
        data = msgspec.json.encode(value, enc_hook=_encode_foreign)
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
        path, problem = _find_problem(value, field) or (field, str(error))
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
    """Reads values of one type. Made once per activity type, used for every attempt."""

    def __init__(self, value_type: type[T] | Any) -> None:
        # A pydantic model reads JSON itself, with its own rules and messages.
        self._model: Any = value_type if hasattr(value_type, "model_validate_json") else None
        self._json: msgspec.json.Decoder[Any] = msgspec.json.Decoder(
            Any if self._model is not None else value_type, dec_hook=_decode_foreign
        )

    def decode(self, data: bytes, *, field: str) -> T:
        """Raises PayloadMismatch with the path of what does not fit."""
        try:
            if self._model is not None:
                return self._model.model_validate_json(data)
            return cast("T", self._json.decode(data))
        except (msgspec.MsgspecError, ValueError, TypeError) as error:
            raise PayloadMismatch(f"{field}: {error}") from error


def decode_untyped(data: bytes) -> Any:
    return msgspec.json.decode(data)


def _encode_foreign(value: object) -> object:
    dump = getattr(value, "model_dump", None)
    if dump is not None:
        return dump(mode="json")
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _decode_foreign(value_type: Any, value: object) -> object:
    validate = getattr(value_type, "model_validate", None)
    if validate is not None:
        return validate(value)
    raise TypeError(f"cannot read a {value_type!r} from JSON; use a Struct, dataclass or TypedDict")


def _find_problem(value: object, path: str, depth: int = 0) -> tuple[str, str] | None:
    """The first thing in `value` that JSON cannot carry, as (path, problem)."""
    if depth > 200:
        return path[:60] + "…", "is nested more than 200 levels deep, or contains itself"
    match value:
        case None | bool():
            return None
        case float():
            return None if math.isfinite(value) else (path, f"{value} is not a JSON number")
        case str():
            return _string_problem(value, path)
        case Mapping():
            for key, item in cast("Mapping[Any, Any]", value).items():
                plain = isinstance(key, str) and key.isidentifier()
                here = f"{path}.{key}" if plain else f"{path}[{key!a}]"
                found = _string_problem(key, f"{here} (key)") if isinstance(key, str) else None
                if found := found or _find_problem(item, here, depth + 1):
                    return found
            return None
        case list() | tuple() | set() | frozenset():
            for index, item in enumerate(cast("list[Any]", value)):
                if found := _find_problem(item, f"{path}[{index}]", depth + 1):
                    return found
            return None
        case _:
            return _object_problem(value, path, depth)


def _string_problem(value: str, path: str) -> tuple[str, str] | None:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        return path, f"holds a lone surrogate at character {error.start}, which is not valid text"
    return None


def _object_problem(value: object, path: str, depth: int) -> tuple[str, str] | None:
    names: tuple[str, ...] = ()
    if isinstance(value, msgspec.Struct):
        names = value.__struct_fields__
    elif dataclasses.is_dataclass(value):
        names = tuple(item.name for item in dataclasses.fields(value))
    for name in names:
        if found := _find_problem(getattr(value, name, None), f"{path}.{name}", depth + 1):
            return found
    if names:
        return None
    try:
        msgspec.json.encode(value, enc_hook=_encode_foreign)
    except (TypeError, ValueError, OverflowError, msgspec.MsgspecError) as error:
        return path, f"{error}"
    return None
