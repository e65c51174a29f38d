"""Named statements on one connection, and the write transaction with what it must tell afterwards."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from runnerq.clock import SystemClock
from runnerq.storage.records import ActivityState
from runnerq.storage.sqlite.encoding import encode

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping
    from uuid import UUID

    from runnerq.clock import Clock
    from runnerq.storage.records import ActivityEvent

_WAITING = frozenset({ActivityState.PENDING, ActivityState.RETRYING, ActivityState.SCHEDULED})


class Session:
    """`now_ms` is one instant for the whole session: its statements agree on what is due."""

    def __init__(
        self, connection: sqlite3.Connection, queries: Mapping[str, str], clock: Clock
    ) -> None:
        self._connection = connection
        self._queries = queries
        self.now_ms = clock.now_ms()

    def rows(self, name: str, /, **parameters: Any) -> list[sqlite3.Row]:
        return self._connection.execute(
            self._queries[name], {"now_ms": self.now_ms, **parameters}
        ).fetchall()

    def row(self, name: str, /, **parameters: Any) -> sqlite3.Row | None:
        found = self.rows(name, **parameters)
        return found[0] if found else None

    def change(self, name: str, /, **parameters: Any) -> int:
        """Run a write; how many rows it changed."""
        return self._connection.execute(
            self._queries[name], {"now_ms": self.now_ms, **parameters}
        ).rowcount


@dataclass(slots=True)
class Effects:
    """What must be told once a transaction is committed, and not before."""

    woken: set[str] = field(default_factory=set[str])
    """Queues with new claimable work."""
    ended: set[UUID] = field(default_factory=set["UUID"])
    recorded: bool = False
    """Transitions were written for the live stream."""


class Transaction(Session):
    """A write transaction; only the writer makes one."""

    def __init__(
        self, connection: sqlite3.Connection, queries: Mapping[str, str], clock: Clock
    ) -> None:
        super().__init__(connection, queries, clock)
        self.effects = Effects()
        self._watched: dict[str, bool] = {}

    def transition(self, queue: str, event: ActivityEvent) -> None:
        """An activity moved: note whom to wake, and record it for those who watch the stream."""
        if event.state in _WAITING:
            self.effects.woken.add(queue)
        elif event.state is not None and event.state.terminal:
            self.effects.ended.add(event.activity_id)
        if queue not in self._watched:
            # Watching is between processes of this machine, so it is timed by the machine's clock.
            now_ms = SystemClock().now_ms()
            self._watched[queue] = self.row("watched", queue=queue, now_ms=now_ms) is not None
        if self._watched[queue]:
            self.change(
                "transition_insert",
                queue=queue,
                now_ms=SystemClock().now_ms(),
                event=encode(event),
            )
            self.effects.recorded = True

    def settle(self) -> None:
        """The last thing in a transaction: leave word of new work for other processes."""
        for queue in self.effects.woken:
            self.change("work_came", queue=queue)

    def keep(self, queue: str, event: ActivityEvent) -> None:
        """A transition that its row will not be able to tell: store it for the timeline too."""
        self.remember(event)
        self.transition(queue, event)

    def remember(self, event: ActivityEvent) -> None:
        self.change("event_insert", id=event.activity_id.bytes, event=encode(event))
