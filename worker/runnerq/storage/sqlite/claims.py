"""Handing out due work: lanes in their effective order, taken from one by one until the batch is full.

Exact for a single claim. Within a batch a lane is emptied before the next is looked at, so work may
overtake by at most one batch; looking at every head again for each row would cost a statement per row.
"""

from __future__ import annotations

import json
from itertools import groupby
from typing import TYPE_CHECKING

from runnerq.clock import instant
from runnerq.storage.lanes import LaneHead, effective_order, lifted, retry_share
from runnerq.storage.records import ActivityEvent, ActivityState, EventKind
from runnerq.storage.sqlite.encoding import claim_of, id_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from runnerq.storage.records import Claim, ClaimRef, ClaimRequest
    from runnerq.storage.sqlite.session import Session, Transaction


def heads(session: Session, queue: str, types: Sequence[str]) -> list[LaneHead]:
    """The lanes with due work. A plain read: an idle engine asks this without any lock."""
    return [
        LaneHead(
            type=row["type"],
            priority=row["priority"],
            retried=row["retried"],
            due_ms=row["due_ms"],
            id=id_of(row["id"]),
        )
        for row in session.rows("lane_heads", queue=queue, types=json.dumps(sorted(set(types))))
    ]


def claim(tx: Transaction, request: ClaimRequest) -> list[Claim]:
    engine = tx.row("claimant", queue=request.queue, engine_id=request.engine_id.bytes)
    if engine is None:
        return []
    batch = _Batch(tx, request, engine["worker_id"])
    found = heads(tx, request.queue, request.types)
    order = effective_order(found, now_ms=tx.now_ms, ageing_ms=request.ageing_ms)

    def level(head: LaneHead) -> int:
        return lifted(head.priority, tx.now_ms - head.due_ms, request.ageing_ms)

    for _, lanes in groupby(order, key=level):
        batch.take_level(tuple(lanes))
        if batch.room == 0:
            break
    return batch.claims


class _Batch:
    """Fills up from lane after lane; keeps retried work to its share."""

    def __init__(self, tx: Transaction, request: ClaimRequest, worker_id: str) -> None:
        self._tx = tx
        self._request = request
        self._worker_id = worker_id
        self._retries_left = retry_share(request.limit)
        self.claims: list[Claim] = []

    @property
    def room(self) -> int:
        return self._request.limit - len(self.claims)

    def take_level(self, lanes: Sequence[LaneHead]) -> None:
        """One priority level: retries within their share, then fresh work, then further retries."""
        retried = [lane for lane in lanes if lane.retried]
        fresh = [lane for lane in lanes if not lane.retried]
        if fresh:
            for lane in retried:
                self._retries_left -= self._take(lane, min(self.room, self._retries_left))
            for lane in fresh:
                self._take(lane, self.room)
        for lane in retried:
            taken = self._take(lane, self.room)
            self._retries_left = max(0, self._retries_left - taken)

    def _take(self, lane: LaneHead, limit: int) -> int:
        if limit <= 0:
            return 0
        taken = list(self._claim_lane(lane, limit))
        self.claims += taken
        return len(taken)

    def _claim_lane(self, lane: LaneHead, limit: int) -> Iterator[Claim]:
        request = self._request
        rows = self._tx.rows(
            "claim_lane",
            queue=request.queue,
            type=lane.type,
            priority=lane.priority,
            retried=lane.retried,
            limit=limit,
            engine_id=request.engine_id.bytes,
            worker_id=self._worker_id,
            lease_floor_ms=request.lease_floor_ms,
            lease_margin_ms=request.lease_margin_ms,
        )
        for row in sorted(rows, key=lambda row: (row["due_ms"], row["id"])):
            given = claim_of(row)
            self._tx.transition(
                request.queue,
                ActivityEvent(
                    activity_id=given.id,
                    kind=EventKind.CLAIMED,
                    at=instant(self._tx.now_ms),
                    type=given.type,
                    state=ActivityState.PROCESSING,
                    attempt=given.attempt,
                    worker_id=self._worker_id,
                ),
            )
            yield given


def extend(tx: Transaction, queue: str, refs: Sequence[ClaimRef], by_ms: int) -> list[bool]:
    return [
        tx.change("extend_lease", queue=queue, id=ref.id.bytes, token=ref.token.bytes, by_ms=by_ms)
        == 1
        for ref in refs
    ]


def held(session: Session, queue: str, refs: Sequence[ClaimRef]) -> list[bool]:
    return [
        session.row("still_held", queue=queue, id=ref.id.bytes, token=ref.token.bytes) is not None
        for ref in refs
    ]
