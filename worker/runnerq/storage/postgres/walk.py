"""Which lanes a claim walks, in which order, and how much of each: pure.

Lanes of one level (priority, lifted by age) are walked together. Where retried and fresh work of a level
compete for a batch, retried work comes first but gets at most its share.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from runnerq.storage.lanes import effective_order, lifted, retry_share

if TYPE_CHECKING:
    from collections.abc import Iterable

    from runnerq.storage.lanes import LaneHead


class Walk(NamedTuple):
    lanes: list[LaneHead]
    groups: list[int]
    """The group (from 1) that each lane belongs to."""
    quotas: list[int]
    """How many may be taken from each group at most."""
    shared: bool
    """Whether some group is held to less than the whole batch."""


def plan_walk(heads: Iterable[LaneHead], *, now_ms: int, ageing_ms: int | None, limit: int) -> Walk:
    walk = Walk([], [], [], shared=False)

    def level(head: LaneHead) -> int:
        return lifted(head.priority, now_ms - head.due_ms, ageing_ms)

    shared = False
    ordered = effective_order(heads, now_ms=now_ms, ageing_ms=ageing_ms)
    for _, lanes_of_level in groupby(ordered, key=level):
        lanes = list(lanes_of_level)
        retried = [lane for lane in lanes if lane.retried]
        fresh = [lane for lane in lanes if not lane.retried]
        if retried and fresh and retry_share(limit) < limit:
            shared = True
            _add(walk, retried, retry_share(limit))
            _add(walk, fresh, limit)
        else:
            _add(walk, lanes, limit)
    return walk._replace(shared=shared)


def unshared(walk: Walk, limit: int) -> Walk:
    """The same lanes in the same order, for what shares have left over."""
    return Walk(walk.lanes, [1] * len(walk.lanes), [limit], shared=False)


def _add(walk: Walk, lanes: list[LaneHead], quota: int) -> None:
    walk.quotas.append(quota)
    walk.lanes.extend(lanes)
    walk.groups.extend([len(walk.quotas)] * len(lanes))
