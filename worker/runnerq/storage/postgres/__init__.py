"""The Postgres backend (15 and later), on asyncpg."""

from runnerq.storage.postgres.backend import PostgresBackend

__all__ = ["PostgresBackend"]
