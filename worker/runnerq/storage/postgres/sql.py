"""Reads the .sql files and puts the schema's name and the stored numbers into them.

Never takes anything but the schema from outside: values always travel as parameters.
"""

from __future__ import annotations

import re
from functools import cached_property
from importlib.resources import files
from typing import NamedTuple

from runnerq.errors import ConfigurationError
from runnerq.storage.postgres.codes import words

_FOLDER = files("runnerq.storage.postgres")
_PLACE = re.compile(r"\{([a-z_]+)\}")
_MIGRATION = re.compile(r"(\d{4})_(\w+)\.sql")


class Migration(NamedTuple):
    version: int
    name: str
    text: str


def quoted(identifier: str) -> str:
    return '"' + identifier.replace('"', '""') + '"'


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
            **words(),
        }
        self._texts = {
            entry.name.removesuffix(".sql"): self._without_comments(self.fill(entry.read_text()))
            for entry in (_FOLDER / "sql").iterdir()
            if entry.name.endswith(".sql")
        }

    def __getitem__(self, name: str) -> str:
        return self._texts[name]

    def names(self) -> list[str]:
        return sorted(self._texts)

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
