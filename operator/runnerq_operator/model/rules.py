"""What the models are built from: the base struct, field annotations and CEL rules.

A model declares shape, bounds and text once. `Rule`s are what a schema cannot say; each has a twin in
`validate.py`, and a test holds the two against the same table of examples.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

Listing = Literal["map", "set", "atomic"]


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One CEL rule at the level of the struct that carries it."""

    rule: str
    message: str = ""
    """What is wrong and what to do; names the field."""
    message_expression: str = ""
    """CEL that makes the message; `message` is then what is said when it fails."""
    field: str = ""
    """Path below the struct to blame, `.queueName`; "" blames the struct itself."""


class Model(
    msgspec.Struct,
    rename="camel",
    forbid_unknown_fields=True,
    omit_defaults=True,
    kw_only=True,
    frozen=True,
):
    """Base of all that is written in YAML: camelCase outside, unknown fields refused.

    A subclass may declare `RULES: ClassVar[tuple[Rule, ...]]`.
    """


def described(description: str) -> msgspec.Meta:
    """Annotation of a field whose type says the rest: the text of `kubectl explain`."""
    return msgspec.Meta(description=description)


def number(description: str, *, ge: int, le: int | None = None) -> msgspec.Meta:
    """Annotation of an integer with its bounds."""
    return msgspec.Meta(description=description, ge=ge, le=le)


def text(
    description: str, *, most: int, least: int | None = None, pattern: str | None = None
) -> msgspec.Meta:
    """Annotation of a string: at most `most` characters, without which CEL rules cost too much."""
    return msgspec.Meta(description=description, min_length=least, max_length=most, pattern=pattern)


def listed(
    text: str,
    *,
    most: int,
    least: int | None = None,
    kind: Listing = "atomic",
    keys: tuple[str, ...] = (),
) -> msgspec.Meta:
    """Annotation of a list: at most `most` items, merged by server-side apply as `kind` says."""
    extra: dict[str, Any] = {"x-kubernetes-list-type": kind}
    if keys:
        extra["x-kubernetes-list-map-keys"] = list(keys)
    return msgspec.Meta(description=text, min_length=least, max_length=most, extra=extra)
