"""Database: the pool, and the only place that runs statements on it.

Every statement has a limit on the server and one on the client. Connections are divided, so that lists
for people never keep a claim or an acknowledgement waiting. A statement whose connection died is
repeated on another one, where the caller says that it may be.

Behind a transaction-mode pooler a session is not ours: no setting may be left on it, and no prepared
statement outlives its transaction. There each statement runs in a transaction with local settings.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from enum import Enum
from typing import TYPE_CHECKING, Protocol, TypeVar

import asyncpg

from runnerq.errors import ConfigurationError, StorageError
from runnerq.storage.postgres.errors import boundary
from runnerq.storage.postgres.sql import days_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
    from uuid import UUID

    from asyncpg.connection import Connection
    from asyncpg.pool import PoolConnectionProxy

    from runnerq.storage.postgres.sql import Statements

_log = logging.getLogger(__name__)

_T = TypeVar("_T")

CONNECT_SECONDS = 5.0
SERVER_MS = 15_000
"""statement_timeout. Far below the lease floor of 60 s: a stuck acknowledge fails while it can be retried."""
CLIENT_SECONDS = 20.0
"""Longer than the server's, so that normally the server gives up first and says so."""
_LOCK_MS = 5_000
_REPEAT_AFTER = (0.02, 0.2)
"""Seconds before the second and third try of a statement whose connection died."""

# synchronous_commit: without it a crash of the server forgets claims it has handed out.
# jit: compiling a plan takes longer (100 ms and more) than any of our statements runs.
# enable_*: a queue's table is empty at night and holds a million rows at noon, so its statistics are
# always wrong. A plan made while it was empty (read it all, then sort) was kept for a connection's life and
# cost 30 ms per claim at 100,000 rows. Every statement of ours wants tables read by indexes, in their
# order, at any size: nothing else is left to choose.
# plan_cache_mode: so that it is planned once, 0.3 ms, and not every time.
_SETTINGS = f"""
SET {{local}} statement_timeout = {SERVER_MS};
SET {{local}} lock_timeout = {_LOCK_MS};
SET {{local}} idle_in_transaction_session_timeout = {SERVER_MS};
SET {{local}} jit = off;
SET {{local}} enable_seqscan = off;
SET {{local}} enable_bitmapscan = off;
SET {{local}} enable_sort = off;
SET {{local}} enable_mergejoin = off;
SET {{local}} plan_cache_mode = force_generic_plan;
SELECT set_config('synchronous_commit', 'on', {{is_local}})
WHERE current_setting('synchronous_commit') = 'off'
"""
SESSION_SETTINGS = _SETTINGS.format(local="", is_local="false")
LOCAL_SETTINGS = _SETTINGS.format(local="LOCAL", is_local="true")

# The connection is of no use any more. InternalClientError is how asyncpg finds a connection that the
# server ended while it was idle.
BROKEN = (
    OSError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.PostgresConnectionError,
)
# Worth another try at once: the connection died, or two statements locked each other out.
_REPEATABLE = (
    *BROKEN,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
)


class Purpose(Enum):
    WORK = "work"
    """Enqueue, claim, acknowledge and what keeps leases alive."""
    READ = "read"
    """Lists, counts and waiting for results."""


class Session(Protocol):
    """Runs statements by the name of their file, on one connection."""

    async def fetch(self, name: str, *values: object) -> list[asyncpg.Record]: ...

    def within(self, name: str, ids: Sequence[UUID]) -> str:
        """The statement `name` for the days of these ids only."""
        ...

    async def copy(
        self, table: str, columns: Sequence[str], rows: Sequence[tuple[object, ...]]
    ) -> None: ...


class Database:
    def __init__(self, url: str, statements: Statements, max_connections: int) -> None:
        if max_connections < 1:
            raise ConfigurationError("must be at least 1", field="max_connections")
        self.statements = statements
        self._url = url
        # One each is for listening and for the heartbeat, which have connections of their own.
        self._size = max(1, max_connections - 2)
        # The pool serves in turn, so work cannot starve reads; a few slow reads could starve work.
        self._shares = {
            Purpose.WORK: asyncio.Semaphore(self._size),
            Purpose.READ: asyncio.Semaphore(max(1, self._size // 2)),
        }
        self._pool: asyncpg.Pool[asyncpg.Record] | None = None
        self._pooled = False

    @property
    def pooled(self) -> bool:
        """Whether a transaction-mode pooler stands between us and the server."""
        return self._pooled

    async def connect(self, *, session: bool = True) -> Connection[asyncpg.Record]:
        """A connection of one's own. Without `session` nothing is set on it."""
        try:
            connection = await asyncpg.connect(
                self._url,
                timeout=CONNECT_SECONDS,
                command_timeout=CLIENT_SECONDS,
                statement_cache_size=100 if session else 0,
            )
        except ValueError:
            # Not with its words: what could not be read may be a part of the password.
            raise ConfigurationError(
                "cannot be read as postgres://user:password@host:5432/database; in names and "
                "passwords write @ : / ? # % as %40 %3A %2F %3F %23 %25",
                field="backend_url",
            ) from None
        if session:
            await connection.execute(SESSION_SETTINGS)
        return connection

    async def open(self, *, pooled: bool) -> None:
        self._pooled = pooled
        self._pool = await asyncpg.create_pool(
            self._url,
            # None kept for its own sake: asyncpg would complain loudly whenever it cannot keep them.
            min_size=0,
            max_size=self._size,
            timeout=CONNECT_SECONDS,
            command_timeout=CLIENT_SECONDS,
            statement_cache_size=0 if pooled else 100,
            max_cached_statement_lifetime=0,
            init=None if pooled else _set_up,
            # The pool's own reset would undo the settings and costs a round trip per statement; no
            # statement of ours leaves anything behind in its session.
            reset=_leave_as_it_is,
        )

    async def close(self) -> None:
        pool, self._pool = self._pool, None
        if pool is None:
            return
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await pool.close()
        except TimeoutError:
            _log.warning("connections were still in use at close; cutting them off")
            pool.terminate()

    async def fetch(
        self,
        name: str,
        *values: object,
        purpose: Purpose = Purpose.WORK,
        repeatable: bool = True,
    ) -> list[asyncpg.Record]:
        """Run the statement `name`; what it returned. Raises StorageError and its kinds."""

        async def once(session: Session) -> list[asyncpg.Record]:
            return await session.fetch(name, *values)

        return await self.run(name, once, purpose=purpose, repeatable=repeatable)

    async def run(
        self,
        what: str,
        work: Callable[[Session], Awaitable[_T]],
        *,
        purpose: Purpose = Purpose.WORK,
        transaction: bool = False,
        repeatable: bool = True,
    ) -> _T:
        """Run `work` on a connection, in a transaction if asked for; again if its connection died."""
        waits = iter(_REPEAT_AFTER if repeatable else ())
        with boundary(what):
            while True:
                try:
                    async with self._session(purpose, transaction=transaction) as session:
                        return await work(session)
                except _REPEATABLE as error:
                    wait = next(waits, None)
                    if wait is None or isinstance(error, TimeoutError):
                        raise
                    _log.debug("%s: repeating after %r", what, error)
                    await asyncio.sleep(wait)

    @asynccontextmanager
    async def _session(self, purpose: Purpose, *, transaction: bool) -> AsyncGenerator[Session]:
        if self._pool is None:
            raise StorageError("the backend is not open; call `await backend.open()` first")
        async with (
            self._shares[purpose],
            self._pool.acquire(timeout=CLIENT_SECONDS) as connection,
        ):
            session = _PooledSession(connection, self.statements)
            try:
                if not (transaction or self._pooled):
                    yield session
                    return
                async with connection.transaction():
                    if self._pooled:
                        await connection.execute(LOCAL_SETTINGS)
                    yield session
            except BROKEN:
                connection.terminate()
                raise


class _PooledSession:
    def __init__(
        self, connection: PoolConnectionProxy[asyncpg.Record], statements: Statements
    ) -> None:
        self._connection = connection
        self._statements = statements

    async def fetch(self, name: str, *values: object) -> list[asyncpg.Record]:
        return await self._connection.fetch(self._statements[name], *values)

    def within(self, name: str, ids: Sequence[UUID]) -> str:
        return self._statements.within(name, *days_of(ids))

    async def copy(
        self, table: str, columns: Sequence[str], rows: Sequence[tuple[object, ...]]
    ) -> None:
        await self._connection.copy_records_to_table(
            table, records=rows, columns=list(columns), schema_name=self._statements.schema
        )


async def _set_up(connection: Connection[asyncpg.Record]) -> None:
    await connection.execute(SESSION_SETTINGS)


async def _leave_as_it_is(connection: Connection[asyncpg.Record]) -> None:
    """Nothing to undo."""
