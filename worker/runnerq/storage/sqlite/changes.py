"""Noticing what other processes did to the file: a thread that polls `PRAGMA data_version`.

The number changes with every commit of any other connection, ours in this process included; reading it
touches no table and no lock of the writers (about 5 us). What a change means is the listener's question.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from typing import TYPE_CHECKING

from runnerq.storage.sqlite.connection import connect
from runnerq.storage.sqlite.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from runnerq.clock import Clock

_POLL_SECONDS = 0.025
"""What work of another process waits at most before an idle engine looks; 40 looks a second."""
_AFTER_ERROR_SECONDS = 1.0

logger = logging.getLogger(__name__)


class ChangeWatcher:
    def __init__(
        self,
        path: Path,
        queries: Mapping[str, str],
        clock: Clock,
        changed: Callable[[Session], None],
        looked: Callable[[Session], None],
    ) -> None:
        """`changed` is called after a change, `looked` after every look; both in the watcher's thread
        and with a session to read by."""
        self._path = path
        self._queries = queries
        self._clock = clock
        self._changed = changed
        self._looked = looked
        self._connection = connect(path)
        self._stopping = threading.Event()
        self._look = threading.Event()
        self._thread = threading.Thread(target=self._run, name="runnerq-sqlite-watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Blocks until the thread has ended; idempotent."""
        self._stopping.set()
        self._look.set()
        self._thread.join()
        self._connection.close()

    def look_now(self) -> None:
        """Do not wait for the next poll: this process has just committed."""
        self._look.set()

    def _run(self) -> None:
        seen = -1
        pause = _POLL_SECONDS
        while not self._stopping.is_set():
            try:
                version = self._version()
                session = Session(self._connection, self._queries, self._clock)
                if version != seen:
                    self._changed(session)
                    seen = version
                self._looked(session)
                pause = _POLL_SECONDS
            except sqlite3.Error:
                # A hint only: whoever waits also polls. The next look may find the file again.
                logger.warning("sqlite file %s: cannot look for changes", self._path, exc_info=True)
                pause = _AFTER_ERROR_SECONDS
            self._look.wait(pause)
            self._look.clear()

    def _version(self) -> int:
        return int(self._connection.execute("PRAGMA data_version").fetchone()[0])
