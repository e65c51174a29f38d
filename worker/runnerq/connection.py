"""From an address to a backend, and from the environment to an executor."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from urllib.parse import unquote

from runnerq.errors import ConfigurationError
from runnerq.executor import ActivityExecutor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runnerq.storage.ports import Storage

URL_VARIABLE = "RUNNERQ_BACKEND_URL"
QUEUE_VARIABLE = "RUNNERQ_QUEUE"
SCHEMA_VARIABLE = "RUNNERQ_SCHEMA"
DEFAULT_QUEUE = "default"
DEFAULT_SCHEMA = "runnerq"
LONGEST_QUEUE = 200


def open_backend(
    url: str,
    *,
    queue: str = DEFAULT_QUEUE,
    schema: str | None = None,
    max_connections: int = 10,
) -> Storage:
    """The backend at an address. Does not connect yet: `await backend.open()` does.

    `postgres://user:password@host/database`, `sqlite:///path/to/file.db` (an absolute path has four
    slashes), `memory://` (this process only). Raises ConfigurationError.
    """
    if not (0 < len(queue) <= LONGEST_QUEUE and queue.isprintable()):
        raise ConfigurationError(
            f"{queue[:40]!r} cannot name a queue; use 1 to {LONGEST_QUEUE} printable characters",
            field="queue",
        )
    scheme, separator, _ = url.partition("://")
    scheme = scheme.lower() if separator else ""
    if schema is not None and scheme not in ("postgres", "postgresql"):
        raise ConfigurationError(f"only Postgres has schemas, not {scheme}://", field="schema")
    match scheme:
        case "postgres" | "postgresql":
            try:
                from runnerq.storage.postgres import PostgresBackend
            except ModuleNotFoundError as error:
                raise _missing("asyncpg", "postgres") from error
            return PostgresBackend(
                url, queue, schema=schema or DEFAULT_SCHEMA, max_connections=max_connections
            )
        case "sqlite":
            from runnerq.storage.sqlite import SqliteBackend

            return SqliteBackend(_sqlite_path(url), queue)
        case "memory":
            from runnerq.storage.memory import MemoryBackend

            return MemoryBackend(queue)
        case _:
            # Never the address itself: a password may stand anywhere in a malformed one.
            raise ConfigurationError(
                f"an address starts with postgres://, sqlite:/// or memory://, not with {scheme!r}"
                if separator
                else "an address starts with postgres://, sqlite:/// or memory://",
                field="backend_url",
            )


async def connect(
    url: str | None = None,
    *,
    queue: str | None = None,
    schema: str | None = None,
    environ: Mapping[str, str] | None = None,
) -> ActivityExecutor:
    """An executor on the backend that the environment names; what apps in the cluster use.

    Reads RUNNERQ_BACKEND_URL, RUNNERQ_QUEUE and RUNNERQ_SCHEMA where an argument is not given.
    Raises ConfigurationError, BackendUnavailable, SchemaMismatch.
    """
    env = os.environ if environ is None else environ
    address = url or env.get(URL_VARIABLE)
    if not address:
        raise ConfigurationError(
            f"no backend: set {URL_VARIABLE} or pass url=, e.g. postgres://user:password@host/database",
            field="url",
        )
    backend = open_backend(
        address,
        queue=queue or env.get(QUEUE_VARIABLE) or DEFAULT_QUEUE,
        schema=schema or env.get(SCHEMA_VARIABLE) or None,
    )
    try:
        await backend.open()
    except BaseException:
        await backend.close()
        raise
    return ActivityExecutor(backend, owns_backend=True)


def _sqlite_path(url: str) -> str:
    path = unquote(url.partition("://")[2].removeprefix("/"))
    if not path:
        raise ConfigurationError(
            "a SQLite address names a file: sqlite:///queue.db (relative) or sqlite:////var/queue.db",
            field="backend_url",
        )
    return path


def _missing(package: str, extra: str) -> ConfigurationError:
    return ConfigurationError(
        f'{package} is missing; install "runnerq[{extra}]"', field="backend_url"
    )
