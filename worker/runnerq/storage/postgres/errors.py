"""The one boundary at which errors of asyncpg and of the network become ours.

Three answers: the server did not answer or told us to come back (BackendUnavailable, worth repeating),
the schema is not the one this code runs on (SchemaMismatch), anything else (StorageError). Errors of
ours and cancellation pass through.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import asyncpg
from asyncpg.exceptions import ClientConfigurationError

from runnerq.errors import BackendUnavailable, ConfigurationError, SchemaMismatch, StorageError

if TYPE_CHECKING:
    from collections.abc import Generator

_TRANSIENT_CLASSES = ("08", "40", "53", "57", "58", "XX")
"""Connection, rollback, resources, operator intervention, system error, internal error."""
_TRANSIENT = ("55P03", "25006", "25P03")
"""Lock not available; read-only (the primary moved away); idle in transaction for too long."""
_WRONG_SCHEMA = ("42P01", "42703", "42883", "3F000", "42704", "42P10")
"""Undefined table, column, function, schema, object; no matching unique constraint."""


@contextmanager
def boundary(what: str) -> Generator[None]:
    """Translate what escapes the block. `what` names it in the message: a statement or a step."""
    try:
        yield
    except asyncpg.PostgresError as error:
        raise translated(error, what) from error
    except ClientConfigurationError as error:
        raise ConfigurationError(f"not an address of Postgres: {error}", field="url") from error
    except (OSError, asyncpg.InterfaceError, asyncpg.InternalClientError) as error:
        # The latter two are a connection that died under us: asyncpg says so when it is used next.
        reason = str(error) or "no answer in time"
        raise BackendUnavailable(f"Postgres does not answer ({what}): {reason}") from error


def translated(error: asyncpg.PostgresError, what: str) -> StorageError:
    code = error.sqlstate or ""
    if code in _WRONG_SCHEMA:
        return SchemaMismatch(
            f"the schema is not what this version needs ({what}): {error}; run `runnerq migrate up`"
        )
    if code in _TRANSIENT or code.startswith(_TRANSIENT_CLASSES):
        return BackendUnavailable(f"Postgres cannot do it now ({what}): {error}")
    return StorageError(f"Postgres refused ({what}): {error} (SQLSTATE {code})")
