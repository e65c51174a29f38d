"""Holds written data against a structural schema and names every place where it does not fit.

Pure, and the same words for every kind of mistake: where, what was given, what is allowed. It reads the
generated schema, so `runnerq dev` and the API server refuse the same things.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import msgspec

from runnerq_operator.model.schema import Schema


class Problem(msgspec.Struct, frozen=True):
    """One mistake. `path` as a person would write it: `spec.pools[1].scaling.minReplicas`."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


_NAMES = {
    "object": "a mapping",
    "array": "a list",
    "string": "a string",
    "integer": "a whole number",
}


def problems_in(value: object, schema: Schema, path: str) -> Iterator[Problem]:
    """Every mistake in `value`, outermost first; what is inside a value of the wrong type is not
    looked at."""
    kind = schema["type"]
    match value:
        case bool():
            fits = kind == "boolean"
        case str():
            fits = kind == "string"
        case int():
            fits = kind == "integer"
        case Mapping():
            fits = kind == "object"
        case list():
            fits = kind == "array"
        case _:
            fits = False
    if not fits:
        yield Problem(path, f"expected {_NAMES[kind]}, got {_shown(cast('object', value))}")
    elif isinstance(value, Mapping):
        yield from _in_object(cast("Mapping[str, Any]", value), schema, path)
    elif isinstance(value, list):
        yield from _in_list(cast("list[Any]", value), schema, path)
    elif isinstance(value, str):
        yield from _in_string(value, schema, path)
    elif isinstance(value, int):
        yield from _in_number(value, schema, path)


def _in_object(value: Mapping[str, Any], schema: Schema, path: str) -> Iterator[Problem]:
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return
    properties = cast("Mapping[str, Schema]", schema.get("properties", {}))
    for name in schema.get("required", ()):
        if name not in value:
            yield Problem(below(path, name), "is missing; it has no default")
    for name, inner in value.items():
        if name in properties:
            yield from problems_in(inner, properties[name], below(path, name))
        else:
            yield Problem(below(path, name), unknown(name, list(properties)))


def _in_list(value: Sequence[Any], schema: Schema, path: str) -> Iterator[Problem]:
    if len(value) > schema["maxItems"]:
        yield Problem(path, f"has {len(value)} items; at most {schema['maxItems']} are allowed")
    if len(value) < schema.get("minItems", 0):
        yield Problem(path, f"has {len(value)} items; at least {schema['minItems']} is needed")
    for index, item in enumerate(value):
        yield from problems_in(item, schema["items"], f"{path}[{index}]")
    yield from _duplicates(value, schema, path)


def _duplicates(value: Sequence[Any], schema: Schema, path: str) -> Iterator[Problem]:
    """What `listType` map and set refuse."""
    kind = schema.get("x-kubernetes-list-type")
    first: dict[str, int] = {}
    for index, item in enumerate(value):
        where = f"{path}[{index}]"
        if kind == "map" and isinstance(item, Mapping):
            (key,) = schema["x-kubernetes-list-map-keys"]
            name = cast("Mapping[str, Any]", item).get(key)
            where = below(where, key)
        elif kind == "set":
            name = item
        else:
            return
        if not isinstance(name, str):
            continue
        if name in first:
            yield Problem(where, f"{name!r} is already at [{first[name]}]; each may stand once")
        first.setdefault(name, index)


def _in_string(value: str, schema: Schema, path: str) -> Iterator[Problem]:
    allowed = schema.get("enum")
    if allowed and value not in allowed:
        yield Problem(path, f"{value!r} is not one of {', '.join(allowed)}{_meant(value, allowed)}")
    elif not value and schema.get("minLength"):
        yield Problem(path, "is empty; give a value")
    elif len(value) > schema.get("maxLength", len(value)):
        yield Problem(path, f"is {len(value)} characters long; at most {schema['maxLength']} fit")
    elif "pattern" in schema and not re.search(schema["pattern"], value):
        yield Problem(path, f"{value!r} does not have the form {schema['pattern']}")


def _in_number(value: int, schema: Schema, path: str) -> Iterator[Problem]:
    least, most = schema.get("minimum"), schema.get("maximum")
    if least is not None and value < least:
        yield Problem(path, f"{value} is below the least allowed, {least}")
    if most is not None and value > most:
        yield Problem(path, f"{value} is above the most allowed, {most}")


def below(path: str, name: str) -> str:
    """The path of a field inside `path`."""
    return f"{path}.{name}" if path else name


def unknown(name: str, known: Sequence[str]) -> str:
    """What is said of a field that does not exist."""
    return f"there is no such field{_meant(name, known) or '; known are ' + ', '.join(known)}"


def _meant(name: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]}?" if close else ""


def _shown(value: object) -> str:
    match value:
        case None:
            return "nothing"
        case Mapping():
            return "a mapping"
        case list():
            return "a list"
        case _:
            return repr(value)
