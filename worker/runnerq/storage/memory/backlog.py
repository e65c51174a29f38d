"""The waiting work of one queue: a heap per lane, ordered by due time and then id.

Future work sits in the same heaps, behind what is due: no promotion step that could be missed. A
claim asks only the lanes of its own types, so foreign backlog costs it nothing.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from typing import TYPE_CHECKING

from runnerq.storage.lanes import LaneHead, effective_order, lifted, retry_share

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from uuid import UUID

    from runnerq.storage.memory.rows import Row

_Entry = tuple[int, "UUID"]


class Backlog:
    def __init__(self) -> None:
        self._types: defaultdict[str, dict[tuple[int, int], list[_Entry]]] = defaultdict(dict)

    def add(self, row: Row) -> None:
        lanes = self._types[row.spec.type]
        heap = lanes.setdefault((int(row.spec.priority), row.retried), [])
        heapq.heappush(heap, (row.due_ms, row.id))

    def take(
        self, types: Iterable[str], limit: int, *, now_ms: int, ageing_ms: int | None
    ) -> list[UUID]:
        """Remove and answer up to `limit` due ids, best first: exact, also within a batch."""
        heads = {head.id: head for head in self._heads(types, now_ms)}
        retries_left = retry_share(limit) if limit > 0 else 0
        taken: list[UUID] = []
        while heads and len(taken) < limit:
            order = effective_order(heads.values(), now_ms=now_ms, ageing_ms=ageing_ms)
            best = order[0]
            if best.retried and retries_left == 0:
                best = _fresh_of_its_level(order, now_ms, ageing_ms) or best
            retries_left -= 1 if best.retried and retries_left else 0
            taken.append(best.id)
            del heads[best.id]
            following = self._pop(best, now_ms)
            if following is not None:
                heads[following.id] = following
        return taken

    def waiting(self) -> Iterator[tuple[str, int]]:
        """(type, due) of every entry."""
        for activity_type, lanes in self._types.items():
            for heap in lanes.values():
                for due_ms, _ in heap:
                    yield activity_type, due_ms

    def oldest_due_ms(self) -> int | None:
        heads = [heap[0][0] for lanes in self._types.values() for heap in lanes.values() if heap]
        return min(heads, default=None)

    def _heads(self, types: Iterable[str], now_ms: int) -> Iterator[LaneHead]:
        for activity_type in set(types):
            for priority, retried in list(self._types.get(activity_type, {})):
                head = self._head(activity_type, priority, retried, now_ms)
                if head is not None:
                    yield head

    def _head(
        self, activity_type: str, priority: int, retried: int, now_ms: int
    ) -> LaneHead | None:
        heap = self._types[activity_type][priority, retried]
        if not heap or heap[0][0] > now_ms:
            return None
        due_ms, activity_id = heap[0]
        return LaneHead(
            type=activity_type, priority=priority, retried=retried, due_ms=due_ms, id=activity_id
        )

    def _pop(self, head: LaneHead, now_ms: int) -> LaneHead | None:
        """Remove a lane's head; the one that follows it, if due."""
        heapq.heappop(self._types[head.type][head.priority, head.retried])
        return self._head(head.type, head.priority, head.retried, now_ms)


def _fresh_of_its_level(
    order: list[LaneHead], now_ms: int, ageing_ms: int | None
) -> LaneHead | None:
    """The best fresh head of the first one's level, where retries have had their half."""

    def level(head: LaneHead) -> int:
        return lifted(head.priority, now_ms - head.due_ms, ageing_ms)

    top = level(order[0])
    return next((head for head in order if not head.retried and level(head) == top), None)
