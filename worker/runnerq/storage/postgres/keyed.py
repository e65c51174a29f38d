"""Idempotency keys at enqueue: who gets a key, decided by the upsert of the key itself.

Specs of one call that share a key take turns, in input order: each turn is one statement, in which a key
occurs once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from runnerq.storage.postgres.portions import MOST_BYTES, portions
from runnerq.storage.postgres.values import columns_of, key_bytes, key_digest
from runnerq.storage.records import Enqueued, EnqueueStatus, IdempotencyBehavior

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from uuid import UUID

    from runnerq.storage.postgres.connections import Session
    from runnerq.storage.records import ActivitySpec, Idempotency

_AT_ONCE = 1_000
"""Keys in one statement."""


def needs_turns(specs: Sequence[ActivitySpec]) -> bool:
    """Whether one statement cannot store these: two share type and key or id, or they are too many."""
    names = {(spec.type, _wanted(spec).key) for spec in specs}
    ids = {spec.id for spec in specs}
    size = sum(len(spec.payload) for spec in specs)
    return min(len(names), len(ids)) < len(specs) or len(specs) > _AT_ONCE or size > MOST_BYTES


async def store_keyed(
    session: Session,
    queue_id: int,
    types: Mapping[str, int],
    specs: Sequence[ActivitySpec],
    places: Sequence[int],
) -> dict[int, Enqueued]:
    """Store the keyed specs at `places`; the outcome of each place."""
    outcomes: dict[int, Enqueued] = {}
    waiting = list(places)
    while waiting:
        turn: dict[tuple[str, str] | UUID, int] = {}
        for place in waiting:
            spec = specs[place]
            # An id that occurs twice takes turns as well: the second is a repetition of the first.
            if (name := (spec.type, _wanted(spec).key)) not in turn and spec.id not in turn:
                turn[name] = turn[spec.id] = place
        places_now = sorted(set(turn.values()))
        now = next(portions(places_now, lambda place: len(specs[place].payload), most=_AT_ONCE))
        answers = await _store([specs[place] for place in now], session, queue_id, types)
        outcomes |= {
            place: answer for place, answer in zip(now, answers, strict=True) if answer is not None
        }
        waiting = [place for place in waiting if place not in outcomes]
    return outcomes


async def _store(
    specs: Sequence[ActivitySpec], session: Session, queue_id: int, types: Mapping[str, int]
) -> list[Enqueued | None]:
    """One turn. None: the holder of the key is gone; ask again."""
    wanted = [_wanted(spec) for spec in specs]
    keys = [key_bytes(one.key) for one in wanted]
    digests = [key_digest(key) for key in keys]
    rows = await session.fetch(
        session.within("enqueue_keyed", [spec.id for spec in specs]),
        queue_id,
        *columns_of(specs, types),
        digests,
        keys,
        [one.behavior is IdempotencyBehavior.ALLOW_REUSE for one in wanted],
        [one.behavior is IdempotencyBehavior.ALLOW_REUSE_ON_FAILURE for one in wanted],
        [one.ttl_ms for one in wanted],
    )
    created = {row["id"] for row in rows if row["created"]}
    repeated = {row["id"] for row in rows if row["repeated"]}
    answers: list[Enqueued | None] = []
    holders: Mapping[int, UUID] = {}
    if len(created) + len(repeated) < len(specs):
        type_ids = [types[spec.type] for spec in specs]
        held = await session.fetch("key_holders", type_ids, digests)
        holders = {row["place"] - 1: row["activity_id"] for row in held if row["stored"]}
        gone = [row["activity_id"] for row in held if not row["stored"]]
        if gone:
            await session.fetch("free_keys", gone, type_ids, digests)
    for place, (spec, one) in enumerate(zip(specs, wanted, strict=True)):
        holder = holders.get(place)
        if spec.id in created:
            answers.append(Enqueued(spec.id, EnqueueStatus.CREATED))
        elif spec.id in repeated or holder == spec.id:
            answers.append(Enqueued(spec.id, EnqueueStatus.EXISTING))
        elif holder is None:
            answers.append(None)
        elif one.behavior is IdempotencyBehavior.NO_REUSE:
            answers.append(Enqueued(holder, EnqueueStatus.DUPLICATE))
        else:
            answers.append(Enqueued(holder, EnqueueStatus.EXISTING))
    return answers


def _wanted(spec: ActivitySpec) -> Idempotency:
    if spec.idempotency is None:
        raise AssertionError(f"activity {spec.id} has no key")
    return spec.idempotency
