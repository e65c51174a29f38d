"""How a file is opened and how its write lock is taken: durable, patient, and with one way to fail.

`synchronous=FULL` in WAL mode: what was answered survives a kill of every process and of the machine.
"""

from __future__ import annotations

import random
import sqlite3
import time
from typing import TYPE_CHECKING

from runnerq.errors import BackendUnavailable, StorageError

if TYPE_CHECKING:
    from pathlib import Path

BUSY_TIMEOUT_MS = 100
"""SQLite's own wait for a lock. Short: its fixed steps let waiting processes collide again and again."""
PATIENCE_SECONDS = 30.0
"""How long a write waits for its turn among all processes before it is reported as unavailable."""

_UNAVAILABLE = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_INTERRUPT,
    }
)


def connect(path: Path, *, create: bool = False) -> sqlite3.Connection:
    """A connection without implicit transactions. Raises BackendUnavailable if there is no file and
    `create` is not set. May move between threads; its owner sees to it that one uses it at a time."""
    try:
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode={'rwc' if create else 'rw'}",
            uri=True,
            isolation_level=None,
            check_same_thread=False,
            timeout=BUSY_TIMEOUT_MS / 1000,
            cached_statements=256,
        )
    except sqlite3.Error as error:
        raise translated(error, path) from error
    try:
        connection.row_factory = sqlite3.Row
        patiently(connection, "PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
    except sqlite3.Error as error:
        connection.close()
        raise translated(error, path) from error
    return connection


def patiently(connection: sqlite3.Connection, statement: str) -> None:
    """Run a statement that needs a lock; while another process has it, wait with jitter and retry."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            connection.execute(statement)
        except sqlite3.OperationalError as error:
            busy = _primary_code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
            if not busy or time.monotonic() > deadline:
                raise
            # Spread, so that processes that collided once do not collide again.
            time.sleep(random.uniform(0.001, 0.010))  # noqa: S311 - spreading load, not a secret
        else:
            return


def translated(error: sqlite3.Error, path: Path) -> StorageError:
    """The one place where SQLite's errors become ours."""
    if _primary_code(error) in _UNAVAILABLE:
        return BackendUnavailable(f"sqlite file {path}: {error}")
    return StorageError(f"sqlite file {path}: {error}")


def _primary_code(error: sqlite3.Error) -> int:
    # Extended codes carry the primary one in their low byte. Errors of the module itself have none.
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
