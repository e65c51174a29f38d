"""Brings the schema up to date, and tells whether it is.

Each numbered file runs once, in a transaction of its own, under an advisory lock that is polled: to
wait inside pg_advisory_lock would deadlock with a concurrent index build elsewhere. What there is to do
is found out first without any lock. Code of schema version N runs on N and N + 1, so that a rollout may
migrate before the last old process has gone.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
from typing import TYPE_CHECKING, NamedTuple

import asyncpg

from runnerq.errors import BackendUnavailable, SchemaMismatch
from runnerq.storage.postgres.errors import boundary

if TYPE_CHECKING:
    from datetime import datetime

    from asyncpg.connection import Connection

    from runnerq.storage.postgres.connections import Database
    from runnerq.storage.postgres.sql import Migration, Statements

_log = logging.getLogger(__name__)

_LOCK_POLL_SECONDS = 0.1
_LOCK_WAIT_SECONDS = 120.0
_STEP_MS = 600_000
"""A migration may rewrite a table: ten minutes instead of the usual limit."""

_MADE = re.compile(
    r"^CREATE (?:UNIQUE )?(?:TABLE|INDEX|VIEW) (?:\S+\.)?(runnerq_\w+)", re.MULTILINE
)


class MigrationStatus(NamedTuple):
    version: int
    name: str
    applied_at: datetime | None
    """None: not applied yet."""


class Schema:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._statements: Statements = database.statements

    @property
    def version(self) -> int:
        """The newest version this code knows, and was written for."""
        return self._statements.migrations[-1].version

    def text(self) -> str:
        """All migrations as one script, for people who apply it by hand."""
        steps = [self._statements["prepare_migrations"] + ";"]
        for step in self._statements.migrations:
            steps.append(f"-- {step.name}\n{step.text}\n{self._record_by_hand(step)}")
        return "BEGIN;\n" + "\n\n".join(steps) + "\nCOMMIT;\n"

    def _record_by_hand(self, step: Migration) -> str:
        values = (str(step.version), f"'{step.name}'", f"'{_checksum(step)}'")
        text = self._statements["record_migration"]
        for number, value in enumerate(values, start=1):
            text = text.replace(f"${number}", value)
        return text + ";"

    async def migrate(self) -> list[str]:
        with boundary("migrate the schema"):
            connection = await self._database.connect(session=False)
            try:
                return await self._apply_missing(connection)
            finally:
                await connection.close(timeout=5)

    async def status(self) -> list[MigrationStatus]:
        with boundary("read the schema's version"):
            connection = await self._database.connect(session=False)
            try:
                applied = await self._applied(connection)
            finally:
                await connection.close(timeout=5)
        known = [
            MigrationStatus(step.version, step.name, applied[step.version]["applied_at"])
            if step.version in applied
            else MigrationStatus(step.version, step.name, None)
            for step in self._statements.migrations
        ]
        newer = [
            MigrationStatus(version, row["name"], row["applied_at"])
            for version, row in sorted(applied.items())
            if version > self.version
        ]
        return known + newer

    async def validate(self) -> list[str]:
        """What is wrong with the schema, in words; empty when nothing is. For `runnerq migrate validate`."""
        with boundary("validate the schema"):
            connection = await self._database.connect(session=False)
            try:
                applied = await self._applied(connection)
                found = await connection.fetch(
                    self._statements["schema_objects"], self._statements.schema
                )
            finally:
                await connection.close(timeout=5)
        present = {row["name"] for row in found}
        problems: list[str] = []
        for step in self._statements.migrations:
            if step.version not in applied:
                problems.append(f"{step.name} is not applied; run `runnerq migrate up`")
            elif applied[step.version]["checksum"] != _checksum(step):
                problems.append(f"{step.name} was applied from another text than this version's")
        if applied:
            problems.extend(
                f"{name} is missing" for name in sorted(_made_by(self._statements) - present)
            )
            problems.extend(
                f"index {row['name']} is not valid; drop it and run `runnerq migrate up`"
                for row in found
                if not row["valid"]
            )
        return problems

    async def check(self, connection: Connection[asyncpg.Record]) -> None:
        """Raise SchemaMismatch unless this code runs on what is there."""
        try:
            applied = await self._applied(connection)
        except asyncpg.InsufficientPrivilegeError as error:
            raise SchemaMismatch(
                f"no right to use schema {self._statements.schema!r}: {error}"
            ) from error
        found = max(applied, default=0)
        if not self.version <= found <= self.version + 1:
            state = "has no RunnerQ tables" if found == 0 else f"is at version {found}"
            remedy = (
                "run `runnerq migrate up`"
                if found < self.version
                else "upgrade runnerq; a newer version migrated it"
            )
            raise SchemaMismatch(
                f"schema {self._statements.schema!r} {state}, this code runs on {self.version} and "
                f"{self.version + 1}; {remedy}"
            )

    async def _applied(self, connection: Connection[asyncpg.Record]) -> dict[int, asyncpg.Record]:
        try:
            rows = await connection.fetch(self._statements["applied_migrations"])
        except (asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError):
            return {}
        return {row["version"]: row for row in rows}

    async def _apply_missing(self, connection: Connection[asyncpg.Record]) -> list[str]:
        applied = await self._applied(connection)
        done: list[str] = []
        for step in self._statements.migrations:
            if step.version not in applied and await self._apply(connection, step):
                _log.info("schema %s: applied %s", self._statements.schema, step.name)
                done.append(step.name)
        return done

    async def _apply(self, connection: Connection[asyncpg.Record], step: Migration) -> bool:
        """Apply one step; False if another process did in the meantime."""
        waited = 0.0
        while True:
            async with connection.transaction():
                await connection.execute(f"SET LOCAL statement_timeout = {_STEP_MS}")
                got = await connection.fetchval(
                    self._statements["migration_lock"], f"runnerq {self._statements.schema}"
                )
                if got:
                    await connection.execute(self._statements["prepare_migrations"])
                    if step.version in await self._applied(connection):
                        return False
                    await connection.execute(step.text, timeout=_STEP_MS / 1000)
                    await connection.execute(
                        self._statements["record_migration"],
                        step.version,
                        step.name,
                        _checksum(step),
                    )
                    return True
            if waited >= _LOCK_WAIT_SECONDS:
                raise BackendUnavailable(
                    f"another process has been migrating schema {self._statements.schema!r} for "
                    f"{_LOCK_WAIT_SECONDS:.0f} s; look for it in pg_locks (locktype advisory)"
                )
            await asyncio.sleep(_LOCK_POLL_SECONDS)
            waited += _LOCK_POLL_SECONDS


def _checksum(step: Migration) -> str:
    return hashlib.sha256(step.text.encode()).hexdigest()


def _made_by(statements: Statements) -> set[str]:
    """Names of the tables, indexes and views that the migrations make."""
    return {name for step in statements.migrations for name in _MADE.findall(step.text)}
