"""The schema: numbered migrations, applied once each, and the check that a file has what this code needs.

no file, no table --migrate--> version N (this code's) --a newer release's migrate--> N+1 --> ...
                                    '------------- this code runs on both -------------'
"""

from __future__ import annotations

import sqlite3
from datetime import datetime
from importlib import resources
from typing import TYPE_CHECKING, NamedTuple

from runnerq.errors import SchemaMismatch
from runnerq.storage.sqlite.connection import connect, patiently, translated

if TYPE_CHECKING:
    from pathlib import Path

_LEDGER = """CREATE TABLE IF NOT EXISTS runnerq_migrations (
  version    INTEGER NOT NULL PRIMARY KEY,
  name       TEXT    NOT NULL,
  applied_at TEXT    NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
)"""

_RECORD = "INSERT INTO runnerq_migrations (version, name) VALUES (?, ?)"


class Migration(NamedTuple):
    version: int
    name: str
    statements: tuple[str, ...]


def migrations() -> list[Migration]:
    """Those this release ships, in order."""
    folder = resources.files("runnerq.storage.sqlite").joinpath("migrations")
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return [
        Migration(
            int(name.partition("_")[0]),
            name.removesuffix(".sql"),
            _statements(folder.joinpath(name).read_text("utf-8")),
        )
        for name in names
    ]


def migrate(path: Path) -> list[str]:
    """Make the file and bring it up to date; the names of what was applied. Blocks.

    Each migration is one transaction, and takes the write lock before it looks which is next: several
    processes may do it at once, and one killed halfway leaves the version before.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = connect(path, create=True)
    applied: list[str] = []
    try:
        for migration in migrations():
            patiently(connection, "BEGIN IMMEDIATE")
            connection.execute(_LEDGER)
            if migration.version > _version(connection):
                _apply(connection, migration)
                applied.append(migration.name)
            patiently(connection, "COMMIT")
    except sqlite3.Error as error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise translated(error, path) from error
    finally:
        connection.close()
    return applied


class MigrationStatus(NamedTuple):
    version: int
    name: str
    applied_at: datetime | None
    """None: not applied yet."""


def status(path: Path) -> list[MigrationStatus]:
    """Each migration and when it was applied; newer ones than this release knows come last. Blocks."""
    applied: dict[int, MigrationStatus] = {}
    if path.exists():
        connection = connect(path)
        try:
            if _has_ledger(connection):
                rows = connection.execute(
                    "SELECT version, name, applied_at FROM runnerq_migrations ORDER BY version"
                )
                for version, name, at in rows:
                    applied[version] = MigrationStatus(version, name, datetime.fromisoformat(at))
        except sqlite3.Error as error:
            raise translated(error, path) from error
        finally:
            connection.close()
    shipped = migrations()
    known = [
        applied.pop(one.version, MigrationStatus(one.version, one.name, None)) for one in shipped
    ]
    return known + list(applied.values())


def script() -> str:
    """All migrations as one script, for whoever applies it by hand."""
    steps = [f"{_LEDGER};"]
    for migration in migrations():
        record = _RECORD.replace("?", str(migration.version), 1)
        record = record.replace("?", f"'{migration.name}'", 1)
        steps += [f"-- {migration.name}", *migration.statements, f"{record};"]
    return "BEGIN IMMEDIATE;\n\n" + "\n\n".join(steps) + "\n\nCOMMIT;\n"


def verify(path: Path) -> None:
    """Raise SchemaMismatch unless the file's schema is this code's or one version newer. Blocks."""
    wanted = migrations()[-1].version
    remedy = f"run `runnerq migrate up --backend-url sqlite:///{path}`"
    if not path.exists():
        raise SchemaMismatch(f"sqlite file {path} does not exist; {remedy}")
    connection = connect(path)
    try:
        found = _version(connection) if _has_ledger(connection) else 0
        if found < wanted:
            raise SchemaMismatch(
                f"sqlite file {path} has schema version {found}, this code needs {wanted}; {remedy}"
            )
        if found > wanted + 1:
            raise SchemaMismatch(
                f"sqlite file {path} has schema version {found}, this code runs on {wanted} and "
                f"{wanted + 1}; install a newer runnerq"
            )
        _compare(connection, path, exactly=found == wanted)
    except sqlite3.Error as error:
        raise translated(error, path) from error
    finally:
        connection.close()


def _compare(connection: sqlite3.Connection, path: Path, *, exactly: bool) -> None:
    """The version is a claim; this looks at the tables themselves."""
    model = sqlite3.connect(":memory:")
    try:
        model.execute(_LEDGER)
        for migration in migrations():
            _apply(model, migration)
        wanted, found = _objects(model), _objects(connection)
    finally:
        model.close()
    missing = sorted(wanted.keys() - found.keys())
    changed = sorted(name for name in wanted if name in found and wanted[name] != found[name])
    if missing or (changed and exactly):
        raise SchemaMismatch(
            f"sqlite file {path}: its schema was changed by hand: missing {missing or 'nothing'}, "
            f"different {changed or 'nothing'}; restore it from a backup or start a new file"
        )


def _objects(connection: sqlite3.Connection) -> dict[str, str]:
    rows = connection.execute(
        "SELECT name, sql FROM sqlite_master WHERE name LIKE 'runnerq!_%' ESCAPE '!'"
    ).fetchall()
    return {str(row[0]): " ".join(str(row[1]).split()) for row in rows}


def _apply(connection: sqlite3.Connection, migration: Migration) -> None:
    for statement in migration.statements:
        connection.execute(statement)
    connection.execute(_RECORD, (migration.version, migration.name))


def _has_ledger(connection: sqlite3.Connection) -> bool:
    return "runnerq_migrations" in _objects(connection)


def _version(connection: sqlite3.Connection) -> int:
    row = connection.execute("SELECT coalesce(max(version), 0) FROM runnerq_migrations").fetchone()
    return int(row[0])


def _statements(script: str) -> tuple[str, ...]:
    """The script's statements one by one: `executescript` would commit the transaction around them."""
    statements: list[str] = []
    pending = ""
    for line in script.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            statements.append(pending.strip())
            pending = ""
    return tuple(statements)
