"""`.runnerq/`: everything that `runnerq dev` writes, beside the queue's file, and the lock on it.

Others may pass through the folder (Postgres runs under another account when we are root) but not read
what is secret in it.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, Self

from runnerq.errors import ConfigurationError
from runnerq_operator.local.processes import ProcessNotes

_IGNORE_ALL = "# Made by `runnerq dev`; may be deleted while it does not run.\n*\n"


class StateFolder:
    """Use as a context manager: it is this process's alone while inside."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.notes = ProcessNotes(path / "processes")
        self._lock: IO[Any] | None = None

    def __enter__(self) -> Self:
        self.path.mkdir(mode=0o711, exist_ok=True)
        self.path.chmod(0o711)
        (self.path / ".gitignore").write_text(_IGNORE_ALL)
        lock = (self.path / "lock").open("a+")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            holder = lock.read().strip() or "unknown"
            lock.close()
            raise ConfigurationError(
                f"`runnerq dev` already runs here as process {holder}; end that one first"
            ) from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        self._lock = lock
        return self

    def __exit__(self, *_exc_info: object) -> None:
        if self._lock is not None:
            self._lock.truncate(0)
            self._lock.close()

    def secret(self, name: str) -> str:
        """A password that is made once and then stays."""
        path = self.path / name
        if not path.exists():
            write_private(path, secrets.token_urlsafe(24))
        return path.read_text().strip()

    def write_environment(self, variables: Mapping[str, str]) -> Path:
        """For other terminals: `source .runnerq/env`, and every command and app finds the queue."""
        path = self.path / "env"
        lines = [f"export {name}={shlex.quote(value)}\n" for name, value in variables.items()]
        write_private(path, "".join(lines))
        return path


def write_private(path: Path, content: str) -> None:
    """Write what only this user may read."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(content)
