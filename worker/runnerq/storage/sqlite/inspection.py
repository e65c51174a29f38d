"""Counts, lists, demand and timelines: reads only, each bounded whatever the backlog."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from runnerq.clock import instant
from runnerq.errors import ActivityNotFound
from runnerq.storage.cursors import cursor_after, position_of
from runnerq.storage.records import ActivityState, Page, QueueDemand, QueueStats, TypeDemand
from runnerq.storage.sqlite import fleet
from runnerq.storage.sqlite.encoding import decode_event, id_of, result_of, snapshot_of
from runnerq.storage.timeline import timeline

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable
    from uuid import UUID

    from runnerq.storage.records import ActivityEvent, ActivityResult, ActivitySnapshot
    from runnerq.storage.sqlite.session import Session

COUNT_CAP = 10_000
"""Counting this many index entries takes about a millisecond; beyond, "at least" says enough."""
_BOUND = COUNT_CAP + 1
_AFTER_EVERY_ID = b"\xff" * 17


def result(session: Session, queue: str, activity_id: UUID) -> ActivityResult | None:
    row = session.row("ended", id=activity_id.bytes, queue=queue)
    if row is not None:
        return result_of(row)
    if session.row("is_live", id=activity_id.bytes, queue=queue) is None:
        raise ActivityNotFound(queue, activity_id)
    return None


def snapshot(session: Session, queue: str, activity_id: UUID) -> ActivitySnapshot:
    for name in ("snapshot_live", "snapshot_ended"):
        row = session.row(name, id=activity_id.bytes, queue=queue)
        if row is not None:
            return snapshot_of(row)
    raise ActivityNotFound(queue, activity_id)


def events(session: Session, queue: str, activity_id: UUID) -> list[ActivityEvent]:
    row = snapshot(session, queue, activity_id)
    stored = session.rows("events_of", id=activity_id.bytes)
    return timeline(row, [decode_event(event["event"]) for event in stored])


def page(
    session: Session,
    queue: str,
    state: ActivityState,
    *,
    limit: int,
    cursor: str | None,
    activity_type: str | None,
) -> Page:
    rows = session.rows(
        "list_ended" if state.terminal else "list_live",
        queue=queue,
        state=state,
        type=activity_type,
        before=_AFTER_EVERY_ID if cursor is None else position_of(cursor).bytes,
        limit=limit + 1,  # one more than asked for tells whether there is a next page
    )
    shown = rows[:limit]
    more = len(rows) > limit and bool(shown)
    return Page(
        items=tuple(snapshot_of(row) for row in shown),
        next_cursor=cursor_after(id_of(shown[-1]["id"])) if more else None,
    )


def stats(session: Session, queue: str) -> QueueStats:
    totals = {state: int(_count(session, queue, state)) for state in ActivityState}
    by_type: defaultdict[str, dict[ActivityState, int]] = defaultdict(dict)
    for row in session.rows("count_live_by_type", queue=queue, bound=_BOUND):
        by_type[row["type"]][ActivityState(row["state"])] = min(row["n"], COUNT_CAP)
    lanes = session.rows("waiting_lanes", queue=queue, bound=1, horizon_ms=0)
    oldest: int | None = min((row["head_due_ms"] for row in lanes), default=None)
    return QueueStats(
        queue=queue,
        as_of=instant(session.now_ms),
        counts={state: min(count, COUNT_CAP) for state, count in totals.items()},
        capped=frozenset(state for state, count in totals.items() if count > COUNT_CAP),
        cap=COUNT_CAP,
        by_type=dict(by_type),
        oldest_claimable_age_ms=None
        if oldest is None or oldest > session.now_ms
        else session.now_ms - oldest,
    )


def _count(session: Session, queue: str, state: ActivityState) -> int:
    name = "count_ended" if state.terminal else "count_live"
    row = session.row(name, queue=queue, state=state, bound=_BOUND)
    return 0 if row is None else row["n"]


def demand(session: Session, queue: str, *, horizon_ms: int) -> QueueDemand:
    lanes: defaultdict[str, list[sqlite3.Row]] = defaultdict(list)
    for row in session.rows("waiting_lanes", queue=queue, bound=_BOUND, horizon_ms=horizon_ms):
        lanes[row["type"]].append(row)
    running = {row["type"]: int(row["n"]) for row in session.rows("running_by_type", queue=queue)}
    return QueueDemand(
        queue=queue,
        as_of=instant(session.now_ms),
        types=tuple(
            _type_demand(name, lanes[name], running.get(name, 0), session.now_ms)
            for name in sorted(lanes.keys() | running.keys())
        ),
        engines=fleet.statuses(session, queue),
    )


def _type_demand(name: str, lanes: Iterable[sqlite3.Row], running: int, now_ms: int) -> TypeDemand:
    """Sum a type's lanes; each was counted up to the bound, so the sum is cut there again."""
    lanes = list(lanes)
    due = sum(lane["due"] for lane in lanes)
    oldest: int | None = min((lane["head_due_ms"] for lane in lanes if lane["due"]), default=None)
    return TypeDemand(
        type=name,
        claimable=min(due, COUNT_CAP),
        claimable_capped=due > COUNT_CAP,
        oldest_claimable_age_ms=None if oldest is None else now_ms - oldest,
        running=running,
        due_soon=min(sum(lane["due_soon"] for lane in lanes), COUNT_CAP),
        future=min(sum(lane["future"] for lane in lanes), COUNT_CAP),
    )


def queues(session: Session) -> list[str]:
    return [row["queue"] for row in session.rows("queues")]
