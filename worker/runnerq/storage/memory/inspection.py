"""Counts, lists and demand of the memory backend: reads only. Its caller holds the lock."""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from runnerq.clock import instant
from runnerq.storage.cursors import cursor_after, position_of
from runnerq.storage.records import (
    ActivityState,
    Page,
    QueueDemand,
    QueueStats,
    TypeDemand,
)

if TYPE_CHECKING:
    from runnerq.storage.memory.fleet import FleetStore
    from runnerq.storage.memory.store import ActivityStore

COUNT_CAP = 10_000
"""Counting costs nothing here; the cap is kept so that readers see what other backends show them."""


def stats(store: ActivityStore, queue: str, now_ms: int) -> QueueStats:
    totals: Counter[ActivityState] = Counter()
    by_type: defaultdict[str, Counter[ActivityState]] = defaultdict(Counter)
    for row in store.rows(queue):
        totals[row.state] += 1
        if not row.state.terminal:
            by_type[row.spec.type][row.state] += 1
    oldest = store.backlog(queue).oldest_due_ms()
    return QueueStats(
        queue=queue,
        as_of=instant(now_ms),
        counts={state: min(totals[state], COUNT_CAP) for state in ActivityState},
        capped=frozenset(state for state, count in totals.items() if count > COUNT_CAP),
        cap=COUNT_CAP,
        by_type={
            name: {state: min(count, COUNT_CAP) for state, count in counts.items()}
            for name, counts in sorted(by_type.items())
        },
        oldest_claimable_age_ms=None if oldest is None or oldest > now_ms else now_ms - oldest,
    )


def page(
    store: ActivityStore,
    queue: str,
    state: ActivityState,
    *,
    limit: int,
    cursor: str | None,
    activity_type: str | None,
) -> Page:
    after = None if cursor is None else position_of(cursor)
    candidates = (
        row
        for row in store.rows(queue)
        if row.state is state
        and (activity_type is None or row.spec.type == activity_type)
        and (after is None or row.id < after)
    )
    # One more than asked for tells whether there is a next page.
    found = heapq.nlargest(limit + 1, candidates, key=lambda row: row.id)
    shown = found[:limit]
    more = len(found) > limit and bool(shown)
    return Page(
        items=tuple(row.snapshot() for row in shown),
        next_cursor=cursor_after(shown[-1].id) if more else None,
    )


def demand(
    store: ActivityStore, fleet: FleetStore, queue: str, *, now_ms: int, horizon_ms: int
) -> QueueDemand:
    dues: defaultdict[str, list[int]] = defaultdict(list)
    for activity_type, due_ms in store.backlog(queue).waiting():
        dues[activity_type].append(due_ms)
    running = Counter(row.spec.type for row in store.processing(queue).values())
    return QueueDemand(
        queue=queue,
        as_of=instant(now_ms),
        types=tuple(
            _type_demand(name, dues[name], running[name], now_ms, horizon_ms)
            for name in sorted(dues.keys() | running.keys())
        ),
        engines=fleet.statuses(queue),
    )


def _type_demand(
    name: str, dues: list[int], running: int, now_ms: int, horizon_ms: int
) -> TypeDemand:
    due = [due_ms for due_ms in dues if due_ms <= now_ms]
    later = [due_ms for due_ms in dues if due_ms > now_ms]
    return TypeDemand(
        type=name,
        claimable=min(len(due), COUNT_CAP),
        claimable_capped=len(due) > COUNT_CAP,
        oldest_claimable_age_ms=now_ms - min(due) if due else None,
        running=running,
        due_soon=min(sum(due_ms <= now_ms + horizon_ms for due_ms in later), COUNT_CAP),
        future=min(len(later), COUNT_CAP),
    )
