"""The SQLite backend: one file, several processes, no server."""

from runnerq.storage.sqlite.backend import SqliteBackend

__all__ = ["SqliteBackend"]
