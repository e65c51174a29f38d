"""Activity type patterns: an exact name, a prefix with one trailing star, or `*` for all.

Patterns are resolved against the names a process has handlers for, so storage only ever sees exact
names. Pure.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from runnerq.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

TYPE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,199}")
"""Names a caller may give to a type: what can stand in a URL, a label and a log line unquoted."""


def check_type_name(name: str, *, field: str) -> None:
    """Raise ConfigurationError unless `name` may name an activity type."""
    if not isinstance(name, str) or not TYPE_NAME.fullmatch(name):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(
            f"{name!r} is not a type name; use 1 to 200 of A-Z a-z 0-9 _ . : / - "
            "and start with a letter, digit or underscore",
            field=field,
        )


def check_pattern(pattern: str, *, field: str = "activity_types") -> None:
    """Raise ConfigurationError unless `pattern` is an exact name, `prefix*` or `*`."""
    if pattern == "*":
        return
    if not isinstance(pattern, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(f"{pattern!r} is not a type name or pattern", field=field)
    name = pattern.removesuffix("*")
    if "*" in name:
        raise ConfigurationError(
            f"{pattern!r} has a star that is not its last character; only one trailing star is allowed",
            field=field,
        )
    check_type_name(name, field=field)


def matches(pattern: str, name: str) -> bool:
    """Whether an activity type is meant by a pattern.

    >>> [matches(p, "report.daily") for p in ("report.daily", "report.*", "*", "send_*")]
    [True, True, True, False]
    """
    if pattern.endswith("*"):
        return name.startswith(pattern[:-1])
    return pattern == name


def resolve(patterns: Sequence[str] | None, handled: Iterable[str]) -> tuple[str, ...]:
    """The handled names that `patterns` select, sorted. None selects all.

    Raises ConfigurationError for an exact name without a handler and for a pattern that selects
    nothing: a worker that would silently claim nothing is a mistake to be seen at start.
    """
    names = sorted(set(handled))
    if patterns is None:
        return tuple(names)
    if isinstance(patterns, str) or not patterns:
        raise ConfigurationError(
            f"{patterns!r} is not a list of type names; None selects all", field="activity_types"
        )
    selected: set[str] = set()
    for index, pattern in enumerate(patterns):
        field = f"activity_types[{index}]"
        check_pattern(pattern, field=field)
        found = {name for name in names if matches(pattern, name)}
        if not found:
            known = ", ".join(names) or "none"
            what = "no handler matches" if pattern.endswith("*") else "there is no handler for"
            raise ConfigurationError(f"{what} {pattern!r}; registered are: {known}", field=field)
        selected |= found
    return tuple(sorted(selected))
