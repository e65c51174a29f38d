"""Reads the .sql files and puts the schema's name and the stored numbers into them.

Never takes anything but the schema from outside: values always travel as parameters.
"""

from __future__ import annotations

import re
from functools import cached_property
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from runnerq.errors import ConfigurationError
from runnerq.storage.postgres.codes import words

if TYPE_CHECKING:
    from collections.abc import Iterable

_FOLDER = files("runnerq.storage.postgres")
_DAY_MS = 86_400_000
_MOST_KEPT = 1_000
"""Texts for particular days. Beyond, they are made again."""
_FIRST_ID, _LAST_ID = "{first_id}", "{last_id}"
_PLACE = re.compile(r"\{([a-z_]+)\}")
_MIGRATION = re.compile(r"(\d{4})_(\w+)\.sql")


class Migration(NamedTuple):
    version: int
    name: str
    text: str


def quoted(identifier: str) -> str:
    return '"' + identifier.replace('"', '""') + '"'


def days_of(ids: Iterable[UUID]) -> tuple[int, int]:
    """First and last day (since 1970, UTC) on which these UUIDv7s were made."""
    times_ms = [activity_id.int >> 80 for activity_id in ids]
    return min(times_ms) // _DAY_MS, max(times_ms) // _DAY_MS


class Statements:
    """The statements of one schema, by the name of their file.

    >>> Statements("jobs")["next_partition"]
    Traceback (most recent call last):
    KeyError: 'next_partition'
    """

    def __init__(self, schema: str) -> None:
        if not schema or "\x00" in schema or len(schema.encode()) > 63:
            raise ConfigurationError(
                f"{schema!r} cannot name a Postgres schema; use 1 to 63 bytes", field="schema"
            )
        self.schema = schema
        self._words = {
            "schema": quoted(schema),
            # The same within a string literal, for casts to regclass.
            "schema_literal": quoted(schema).replace("'", "''"),
            # Left as they are, for `within`.
            "first_id": _FIRST_ID,
            "last_id": _LAST_ID,
            **words(),
        }
        self._files = {
            entry.name.removesuffix(".sql"): self._without_comments(entry.read_text())
            for entry in (_FOLDER / "sql").iterdir()
            if entry.name.endswith(".sql")
        }
        self._texts: dict[str, str] = {}
        self._bounded: dict[str, str] = {}

    def __getitem__(self, name: str) -> str:
        text = self._texts.get(name) or self._bounded.get(name)
        if text is None:
            text = self._texts[name] = self.fill(self._files[name])
        return text

    def names(self) -> list[str]:
        return sorted(self._files)

    def within(self, name: str, first_day: int, last_day: int) -> str:
        """The name under which `name` looks only at history's partitions of these days (since 1970).

        The days stand in the text as constants, so that the other partitions are left out when it is
        planned: with a parameter, each run has to lock and open all of them (1.3 ms at 400)."""
        bounded = f"{name} of days {first_day} to {last_day}"
        text = self._bounded.pop(bounded, None)
        if text is None:
            first = UUID(int=first_day * _DAY_MS << 80)
            last = UUID(int=((last_day + 1) * _DAY_MS << 80) - 1)
            text = self[name].replace(_FIRST_ID, str(first)).replace(_LAST_ID, str(last))
        self._bounded[bounded] = text  # the last used comes last
        if len(self._bounded) > _MOST_KEPT:
            del self._bounded[next(iter(self._bounded))]
        return bounded

    def fill(self, text: str) -> str:
        """Replace `{schema}` and the names of stored numbers. KeyError for any other word."""
        return _PLACE.sub(lambda place: self._words[place[1]], text)

    @cached_property
    def migrations(self) -> tuple[Migration, ...]:
        found = [
            Migration(int(name[1]), entry.name.removesuffix(".sql"), self.fill(entry.read_text()))
            for entry in (_FOLDER / "migrations").iterdir()
            if (name := _MIGRATION.fullmatch(entry.name))
        ]
        return tuple(sorted(found))

    @staticmethod
    def _without_comments(text: str) -> str:
        """Comments are for readers of the file; the server would parse them on every prepare."""
        lines = (line for line in text.splitlines() if not line.lstrip().startswith("--"))
        return "\n".join(lines).strip()
