"""Who waits in this process for work or for an activity's end, and how they are woken.

Told by the writer of what this process did, and by the change watcher that another process did
something. A wake-up is a hint: whoever wakes looks for himself.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from runnerq.storage.wakeup import Wakeup

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable
    from uuid import UUID

    from runnerq.storage.sqlite.session import Session


class Waiting:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._work: dict[str, Wakeup] = {}
        self._ends: dict[UUID, _Ending] = {}
        self._versions: dict[str, int] = {}
        """Of each queue's work, as last read. Used by the watcher's thread alone."""

    def for_work(self, queue: str) -> Wakeup:
        with self._lock:
            return self._work.setdefault(queue, Wakeup())

    @contextmanager
    def for_end(self, activity_id: UUID) -> Generator[Wakeup]:
        """Is notified when the activity may have ended; forgotten with its last waiter."""
        with self._lock:
            ending = self._ends.setdefault(activity_id, _Ending())
            ending.waiters += 1
        try:
            yield ending.wakeup
        finally:
            with self._lock:
                ending.waiters -= 1
                if ending.waiters == 0:
                    self._ends.pop(activity_id, None)

    def work_came(self, queues: Iterable[str]) -> None:
        with self._lock:
            signals = [self._work[queue] for queue in queues if queue in self._work]
        for signal in signals:
            signal.notify()

    def ended(self, activity_ids: Iterable[UUID]) -> None:
        with self._lock:
            endings = [self._ends[one] for one in activity_ids if one in self._ends]
        for ending in endings:
            ending.wakeup.notify()

    def something_changed(self, session: Session) -> None:
        """Some process wrote: a queue may have new work, and any awaited activity may have ended.

        Read here, in one thread, instead of by each waiter at each change."""
        versions = {row["queue"]: row["version"] for row in session.rows("work_versions")}
        self.work_came(
            queue for queue, version in versions.items() if self._versions.get(queue) != version
        )
        self._versions = versions
        with self._lock:
            awaited = list(self._ends)
        self.ended(one for one in awaited if session.row("has_ended", id=one.bytes) is not None)


class _Ending:
    def __init__(self) -> None:
        self.wakeup = Wakeup()
        self.waiters = 0
