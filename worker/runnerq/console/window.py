"""Window: folds a burst of transitions into one per activity.

Pure: the caller owns the clock and drains the window every 250 ms. What a person sees of an activity
is its latest state, so of several transitions within a window only the last is sent; the stored
timeline keeps them all. A window holds a bounded number of activities and counts what it left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from uuid import UUID

    from runnerq.storage.records import ActivityEvent


class Drained(NamedTuple):
    events: list[ActivityEvent]
    """The last transition of each activity, in the order of those transitions."""
    coalesced: int
    """Transitions replaced by a later one of the same activity."""
    dropped: int
    """Transitions of activities for which there was no room."""


class Window:
    def __init__(self, *, limit: int) -> None:
        self._limit = limit
        self._latest: dict[UUID, ActivityEvent] = {}
        self._coalesced = 0
        self._dropped = 0

    def add(self, event: ActivityEvent) -> None:
        if self._latest.pop(event.activity_id, None) is not None:
            self._coalesced += 1
        elif len(self._latest) >= self._limit:
            self._dropped += 1
            return
        self._latest[event.activity_id] = event

    def drain(self) -> Drained:
        drained = Drained(list(self._latest.values()), self._coalesced, self._dropped)
        self._latest = {}
        self._coalesced = 0
        self._dropped = 0
        return drained
