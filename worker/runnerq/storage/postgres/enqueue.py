"""Stores what callers ask for: by one statement, by COPY when there is much, with keys decided inside.

A call is one atomic step. It may be repeated as a whole: an id that is known is left alone.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import asyncpg

from runnerq.clock import instant
from runnerq.errors import InvalidActivity
from runnerq.storage.postgres.codes import STATE_CODE
from runnerq.storage.postgres.keyed import needs_turns, store_keyed
from runnerq.storage.postgres.portions import MOST_BYTES, portions
from runnerq.storage.postgres.values import columns_of, headers_bytes
from runnerq.storage.records import (
    ActivityEvent,
    ActivityState,
    Enqueued,
    EnqueueStatus,
    EventKind,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from runnerq.storage.postgres.connections import Database, Session
    from runnerq.storage.postgres.names import Names
    from runnerq.storage.postgres.partitions import Partitions
    from runnerq.storage.postgres.signals import Signals
    from runnerq.storage.postgres.stream import Stream
    from runnerq.storage.records import ActivitySpec

COPY_FROM = 400
"""Activities in one call from which COPY is faster than arrays (benchmarks/postgres_paths.py)."""

_LONGEST_MS = 100 * 365 * 86_400_000
"""A hundred years: what a delay, a timeout or a key may last, far within Postgres's range of instants."""

_AT_ONCE = 2_000
"""Activities in one statement of arrays: the server holds them all in memory, twice."""
_COPIED_AT_ONCE = 20_000
"""Activities in one COPY, so that each keeps well within the time limit of a statement."""
_PENDING = STATE_CODE[ActivityState.PENDING]
_SCHEDULED = STATE_CODE[ActivityState.SCHEDULED]

_COPIED = (
    *("queue_id", "id", "type_id", "priority", "state", "created_at", "due", "timeout_ms"),
    *("max_attempts", "codec", "payload", "headers", "root_id", "parent_id", "depth"),
)


class Enqueuer:
    def __init__(
        self,
        database: Database,
        names: Names,
        partitions: Partitions,
        signals: Signals,
        stream: Stream,
    ) -> None:
        self._database = database
        self._names = names
        self._partitions = partitions
        self._signals = signals
        self._stream = stream

    async def enqueue(self, queue: str, specs: Sequence[ActivitySpec]) -> list[Enqueued]:
        if not specs:
            return []
        for spec in specs:
            _check(spec)
        queue_id = await self._names.queue(queue)
        types = await self._names.types(queue_id, {spec.type for spec in specs})
        await self._partitions.ensure([spec.id for spec in specs])
        plain = [place for place, spec in enumerate(specs) if spec.idempotency is None]
        keyed = [place for place, spec in enumerate(specs) if spec.idempotency is not None]

        async def store(session: Session, *, copy: bool) -> dict[int, Enqueued]:
            answers: dict[int, Enqueued] = {}
            if plain:
                chosen = [specs[place] for place in plain]
                put = _copy if copy else _insert
                created = await put(session, queue_id, types, chosen)
                for place, spec in zip(plain, chosen, strict=True):
                    new = spec.id in created
                    created.discard(spec.id)  # the same id again in this call is a repetition
                    answers[place] = Enqueued(
                        spec.id, EnqueueStatus.CREATED if new else EnqueueStatus.EXISTING
                    )
            if keyed:
                answers |= await store_keyed(session, queue_id, types, specs, keyed)
            return answers

        size = sum(len(specs[place].payload) for place in plain)
        copy = len(plain) >= COPY_FROM or size > MOST_BYTES
        several = copy or bool(plain and keyed) or needs_turns([specs[place] for place in keyed])
        try:
            answers = await self._database.run(
                "enqueue", lambda session: store(session, copy=copy), transaction=several
            )
        except _CopyRefused:
            # Some ids were stored before. Arrays can leave those out; COPY cannot.
            answers = await self._database.run(
                "enqueue", lambda session: store(session, copy=False), transaction=True
            )
        outcomes = [answers[place] for place in range(len(specs))]
        new = [
            spec
            for spec, outcome in zip(specs, outcomes, strict=True)
            if outcome.status is EnqueueStatus.CREATED
        ]
        if new:
            self._signals.work(queue)

            async def told() -> list[ActivityEvent]:
                now = instant(self._partitions.now_ms())
                return [_told(spec, now) for spec in new]

            await self._stream.publish(queue, queue_id, told)
        return outcomes


class _CopyRefused(Exception):
    """COPY met an id that is stored already."""


async def _insert(
    session: Session, queue_id: int, types: Mapping[str, int], specs: Sequence[ActivitySpec]
) -> set[UUID]:
    """The ids that were new."""
    created: set[UUID] = set()
    for part in portions(specs, lambda spec: len(spec.payload), most=_AT_ONCE):
        ids = [spec.id for spec in part]
        name = session.within("enqueue", ids)
        rows = await session.fetch(name, queue_id, *columns_of(part, types))
        created.update(row["id"] for row in rows)
    return created


async def _copy(
    session: Session, queue_id: int, types: Mapping[str, int], specs: Sequence[ActivitySpec]
) -> set[UUID]:
    """The ids that were new. Raises _CopyRefused if one of them waits already."""
    ids = [spec.id for spec in specs]
    known = (await session.fetch(session.within("ids_ended", ids), ids))[0]
    now: datetime = known["now"]
    new = {spec.id: spec for spec in specs}
    for ended in known["ids"]:
        new.pop(ended, None)
    try:
        for part in portions(new.values(), lambda spec: len(spec.payload), most=_COPIED_AT_ONCE):
            rows = [_copied(spec, queue_id, types[spec.type], now) for spec in part]
            await session.copy("runnerq_activities", _COPIED, rows)
    except asyncpg.UniqueViolationError as error:
        raise _CopyRefused from error
    return set(new)


def _copied(spec: ActivitySpec, queue_id: int, type_id: int, now: datetime) -> tuple[object, ...]:
    due = now + timedelta(milliseconds=spec.delay_ms) if spec.run_at is None else spec.run_at
    later = due > now
    return (
        queue_id,
        spec.id,
        type_id,
        int(spec.priority),
        _SCHEDULED if later else _PENDING,
        now,
        due if later else now,
        spec.timeout_ms,
        spec.max_attempts,
        spec.codec,
        spec.payload,
        headers_bytes(spec.headers),
        spec.root_id,
        spec.parent_id,
        spec.depth,
    )


def _check(spec: ActivitySpec) -> None:
    """Refuse what the columns cannot hold, by name and before anything is sent."""
    idempotency = spec.idempotency
    for field, value, most in (
        ("max_attempts", spec.max_attempts, 2**31 - 1),
        ("depth", spec.depth, 2**31 - 1),
        ("timeout", spec.timeout_ms, _LONGEST_MS),
        ("delay", spec.delay_ms, _LONGEST_MS),
        ("idempotency.ttl", (idempotency and idempotency.ttl_ms) or 0, _LONGEST_MS),
    ):
        if not -most <= value <= most:
            raise InvalidActivity(field, f"{value} is out of range; at most {most}")
    if spec.run_at is not None and spec.run_at.tzinfo is None:
        raise InvalidActivity("run_at", f"{spec.run_at} has no time zone; give it one, e.g. UTC")
    for field, text in (("type", spec.type), ("codec", spec.codec)):
        if "\x00" in text or not text.isprintable():
            raise InvalidActivity(field, f"{text!r} holds characters that Postgres cannot store")


def _told(spec: ActivitySpec, now: datetime) -> ActivityEvent:
    later = spec.delay_ms > 0 if spec.run_at is None else spec.run_at > now
    return ActivityEvent(
        activity_id=spec.id,
        kind=EventKind.SCHEDULED if later else EventKind.ENQUEUED,
        at=now,
        type=spec.type,
        state=ActivityState.SCHEDULED if later else ActivityState.PENDING,
    )
