"""The order in which work is claimed, as pure functions shared by all backends.

A lane is one (priority, retried) of one type; `retried` is least(retry_count, 7). Within a lane the
order is due time, then id. Between lanes: priority, lifted by ageing, then retried work first, then
the older head. Never reads a clock and never touches a row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable
    from uuid import UUID

RETRIED_CAP = 7
"""Retry counts above this share a lane, so that the number of lanes stays bounded."""

TOP_PRIORITY = 4


class LaneHead(msgspec.Struct, frozen=True, kw_only=True):
    """A non-empty lane with the first activity in it that is due."""

    type: str
    priority: int
    retried: int
    due_ms: int
    """Due time of the head, milliseconds on the backend's clock."""
    id: UUID


def lifted(priority: int, waited_ms: int, ageing_ms: int | None) -> int:
    """The priority a lane counts as, once its head has waited `waited_ms`; at most the top one.

    >>> lifted(1, 650_000, 300_000)
    3
    """
    if ageing_ms is None or waited_ms < ageing_ms:
        return priority
    return max(priority, min(TOP_PRIORITY, priority + waited_ms // ageing_ms))


def effective_order(
    heads: Iterable[LaneHead], *, now_ms: int, ageing_ms: int | None
) -> list[LaneHead]:
    """Lanes in the order a claim walks them. Exact for the first activity taken."""
    return sorted(
        heads,
        key=lambda head: (
            -lifted(head.priority, now_ms - head.due_ms, ageing_ms),
            -head.retried,
            head.due_ms,
            head.id,
        ),
    )


def retry_share(limit: int) -> int:
    """How many of a batch retried work may take while fresh work of its level waits.

    One of one, so that a single claim keeps the exact order; half of more, so that a failing type
    cannot starve fresh work.

    >>> [retry_share(n) for n in (1, 2, 3, 10)]
    [1, 1, 1, 5]
    """
    return 1 if limit == 1 else limit // 2
