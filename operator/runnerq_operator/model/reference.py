"""The reference part of docs/runnerqueue.md, from the same models as the CRDs.

Everything between the two marks is generated; what stands around it is written by hand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from runnerq_operator.autoscale.explanation import REASONS
from runnerq_operator.model.conditions import CONDITIONS, EVENTS, POOL_CONDITIONS
from runnerq_operator.model.queue import RunnerQueueSpec
from runnerq_operator.model.schema import Schema, schema_of

BEGIN = "<!-- generated: python -m runnerq_operator.model.generate -->"
END = "<!-- end of generated -->"


def with_reference(document: str) -> str:
    """The document with its generated part made anew. Raises ValueError when a mark is missing."""
    head, begin, rest = document.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the document must have the lines {BEGIN!r} and {END!r}")
    return f"{head}{BEGIN}\n\n{reference()}\n{END}{tail}"


def reference() -> str:
    """Fields, conditions with their reasons, events and reasons of decisions, as Markdown."""
    parts = [
        "## Fields of `spec`\n",
        _table(("field", "type", "default", "meaning"), _fields(schema_of(RunnerQueueSpec), "")),
        "## Refused by the API server\n",
        *(f"- {message}" for message in _messages(schema_of(RunnerQueueSpec))),
        "",
        "## Conditions\n",
        "Pools carry " + ", ".join(f"`{name}`" for name in POOL_CONDITIONS) + " for themselves; "
        "a queue carries all of them, over its pools.\n",
        _table(
            ("condition", "reason", "meaning"),
            (
                (f"`{name}`" if index == 0 else "", f"`{reason}`", text)
                for name, reasons in CONDITIONS.items()
                for index, (reason, text) in enumerate(reasons.items())
            ),
        ),
        "## Events\n",
        _table(("event", "meaning"), ((f"`{name}`", text) for name, text in EVENTS.items())),
        "## Reasons of decisions\n",
        "In the column Reason of a pool, in `status.decision` and in the console.\n",
        _table(("reason", "meaning"), ((f"`{name}`", text) for name, text in REASONS.items())),
    ]
    return "\n".join(parts)


def _table(head: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> str:
    lines = [_row(head), _row(tuple("---" for _ in head)), *map(_row, rows)]
    return "\n".join(lines) + "\n"


def _row(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _fields(schema: Schema, path: str) -> Iterator[tuple[str, str, str, str]]:
    required = schema.get("required", ())
    for name, inner in cast("Mapping[str, Schema]", schema.get("properties", {})).items():
        where = f"{path}.{name}" if path else name
        default = "required" if name in required else _default(inner)
        yield f"`{where}`", _kind(inner), default, inner.get("description", "")
        if "items" in inner and inner["items"]["type"] == "object":
            yield from _fields(inner["items"], f"{where}[]")
        else:
            yield from _fields(inner, where)


def _default(schema: Schema) -> str:
    default: Any = schema.get("default")
    return "" if default is None or isinstance(default, Mapping) else f"`{default}`"


def _kind(schema: Schema) -> str:
    if "enum" in schema:
        return " \\| ".join(f"`{value}`" for value in schema["enum"]).replace("\\|", "or")
    match schema["type"]:
        case "integer":
            least, most = schema.get("minimum"), schema.get("maximum")
            return f"{least} to {most:,}" if most is not None else f"at least {least}"
        case "string":
            return f"text, at most {schema['maxLength']}"
        case "array":
            return f"list, at most {schema['maxItems']}"
        case _:
            free = schema.get("x-kubernetes-preserve-unknown-fields")
            return "pod template" if free else "mapping"


def _messages(schema: Schema) -> Iterator[str]:
    for rule in schema.get("x-kubernetes-validations", ()):
        yield rule["message"]
    for inner in cast("Mapping[str, Schema]", schema.get("properties", {})).values():
        yield from _messages(inner)
    if "items" in schema:
        yield from _messages(schema["items"])
