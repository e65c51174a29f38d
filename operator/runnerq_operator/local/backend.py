"""Which backend `runnerq dev` uses: yours, a Postgres of its own, or SQLite when there is none."""

from __future__ import annotations

import logging
from enum import StrEnum
from pathlib import Path
from urllib.parse import quote, urlsplit

from runnerq.errors import ConfigurationError
from runnerq_operator.local.binaries import PostgresMissing, find_postgres
from runnerq_operator.local.folder import StateFolder
from runnerq_operator.local.postgres import LocalPostgres
from runnerq_operator.local.processes import Kind

logger = logging.getLogger(__name__)


class BackendChoice(StrEnum):
    AUTO = "auto"
    POSTGRES = "postgres"
    SQLITE = "sqlite"


class LocalBackend:
    """Started before the first worker and stopped after the last. `url` is valid in between."""

    def __init__(
        self, *, url: str, description: str, postgres: LocalPostgres | None = None
    ) -> None:
        self.url = url
        self.description = description
        self._postgres = postgres

    async def start(self) -> None:
        if self._postgres is not None:
            self.url = await self._postgres.start()

    async def stop(self) -> None:
        if self._postgres is not None:
            await self._postgres.stop()


def choose_backend(choice: BackendChoice, url: str | None, folder: StateFolder) -> LocalBackend:
    """The backend to use. Raises ConfigurationError when what was asked for cannot be had."""
    if url is not None:
        scheme = urlsplit(url).scheme
        if scheme not in ("postgres", "postgresql", "sqlite"):
            raise ConfigurationError(
                f"{scheme or url}: workers are processes of their own, so it has to be postgres:// or "
                "sqlite:///",
                field="--backend-url",
            )
        return LocalBackend(url=url, description=f"your {scheme}")
    if choice is not BackendChoice.SQLITE:
        try:
            binaries = find_postgres(folder.path)
        except PostgresMissing as error:
            if choice is BackendChoice.POSTGRES:
                raise ConfigurationError(str(error), field="--backend") from error
            logger.warning("%s; using SQLite", error)
        else:
            server = LocalPostgres(
                binaries,
                folder.path,
                password=folder.secret("postgres.password"),
                started=lambda pid: folder.notes.note(Kind.DATABASE, pid),
            )
            description = f"Postgres {binaries.major} ({binaries.source})"
            return LocalBackend(url="", description=description, postgres=server)
    return LocalBackend(url=_sqlite_url(folder.path), description="SQLite")


def _sqlite_url(folder: Path) -> str:
    return f"sqlite:///{quote(str((folder / 'queue.db').resolve()))}"
