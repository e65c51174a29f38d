"""Inspection: counts, lists, timelines and demand. Reads only, each bounded, each with a time limit."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING
from uuid import UUID

import msgspec

from runnerq.clock import instant, milliseconds
from runnerq.errors import ActivityNotFound
from runnerq.storage.cursors import cursor_after, position_of
from runnerq.storage.postgres.codes import ENGINE_OF, STATE_CODE, STATE_OF
from runnerq.storage.postgres.connections import Purpose
from runnerq.storage.postgres.values import snapshot, stored_event
from runnerq.storage.records import (
    WAITING_STATES,
    ActivityState,
    EngineInfo,
    EngineStatus,
    Page,
    QueueDemand,
    QueueStats,
    TypeCounters,
    TypeDemand,
)
from runnerq.storage.timeline import timeline

if TYPE_CHECKING:
    from collections.abc import Sequence

    from asyncpg import Record

    from runnerq.storage.postgres.connections import Database
    from runnerq.storage.postgres.names import Names
    from runnerq.storage.records import ActivityEvent, ActivitySnapshot

COUNT_CAP = 10_000
"""Counting stops here: an exact count reads the whole backlog (300 ms at two million rows)."""

_LAST_ID = UUID(int=2**128 - 1)


class _Engine(msgspec.Struct):
    engine_id: UUID
    host: str
    pid: int
    slots: int
    types: tuple[str, ...]
    pool: str
    pod: str
    build_id: str
    version: str
    state: int
    busy: int
    cordoned: bool
    started_ms: int
    silent_ms: int
    counters: dict[str, TypeCounters] | None


_decode_types = msgspec.json.Decoder(tuple[TypeDemand, ...]).decode
_decode_engines = msgspec.json.Decoder(list[_Engine]).decode


class Inspection:
    def __init__(self, database: Database, names: Names) -> None:
        self._database = database
        self._names = names

    async def _read(self, statement: str, *values: object) -> list[Record]:
        return await self._database.fetch(statement, *values, purpose=Purpose.READ)

    async def queues(self) -> list[str]:
        return [row["name"] for row in await self._read("list_queues")]

    async def stats(self, queue: str) -> QueueStats:
        queue_id = await self._names.known_queue(queue)
        types = {} if queue_id is None else await self._names.all_types(queue_id)
        rows = await self._read("stats", queue_id or 0, list(types), COUNT_CAP)
        heads = await self._read("lane_heads", list(types))
        clock = await self._read("clock")
        now = clock[0]["now"]
        counts: Counter[ActivityState] = Counter()
        by_type: defaultdict[str, dict[ActivityState, int]] = defaultdict(dict)
        for row in rows:
            state, found = STATE_OF[row["state"]], row["n"]
            counts[state] += found
            if found and row["type_id"] is not None:
                by_type[types[row["type_id"]]][state] = min(found, COUNT_CAP)
        due = [row["due"] for row in heads if row["due"] <= now]
        return QueueStats(
            queue=queue,
            as_of=now,
            counts={state: min(counts[state], COUNT_CAP) for state in ActivityState},
            capped=frozenset(state for state, found in counts.items() if found > COUNT_CAP),
            cap=COUNT_CAP,
            by_type=dict(sorted(by_type.items())),
            oldest_claimable_age_ms=milliseconds(now) - milliseconds(min(due)) if due else None,
        )

    async def page(
        self,
        queue: str,
        state: ActivityState,
        *,
        limit: int,
        cursor: str | None,
        activity_type: str | None,
    ) -> Page:
        before = _LAST_ID if cursor is None else position_of(cursor)
        queue_id = await self._names.known_queue(queue)
        if queue_id is None or limit <= 0:
            return Page(items=())
        types = await self._names.all_types(queue_id)
        wanted = [one for one, name in types.items() if activity_type in (None, name)]
        # One more than asked for tells whether there is a next page.
        if state is ActivityState.PROCESSING:
            rows = await self._read("list_processing", queue_id, wanted, before, limit + 1)
        else:
            statement = "list_waiting" if state in WAITING_STATES else "list_ended"
            rows = await self._read(statement, wanted, STATE_CODE[state], before, limit + 1)
        shown = rows[:limit]
        return Page(
            items=tuple(snapshot(row, queue, types[row["type_id"]]) for row in shown),
            next_cursor=cursor_after(shown[-1]["id"]) if len(rows) > limit else None,
        )

    async def activity(self, queue: str, activity_id: UUID) -> ActivitySnapshot:
        queue_id = await self._names.known_queue(queue)
        rows = [] if queue_id is None else await self._read("get_activity", queue_id, activity_id)
        if queue_id is None or not rows:
            raise ActivityNotFound(queue, activity_id)
        names = await self._names.names_of(queue_id, [rows[0]["type_id"]])
        return snapshot(rows[0], queue, names[rows[0]["type_id"]])

    async def events(self, queue: str, activity_id: UUID) -> list[ActivityEvent]:
        # The row after the events: an attempt that ends in between is then told by neither, never twice.
        stored = await self._read("events_of", activity_id)
        row = await self.activity(queue, activity_id)
        return timeline(row, [stored_event(event, row.type) for event in stored])

    async def demand(self, queues: Sequence[str], horizon_ms: int) -> list[QueueDemand]:
        if not queues:
            return []
        rows = await self._read("demand", list(queues), max(0, horizon_ms), COUNT_CAP)
        return [
            QueueDemand(
                queue=row["queue"],
                as_of=row["now"],
                types=_decode_types(row["types"]),
                engines=tuple(_status(engine) for engine in _decode_engines(row["engines"])),
            )
            for row in rows
        ]


def _status(engine: _Engine) -> EngineStatus:
    return EngineStatus(
        info=EngineInfo(
            engine_id=engine.engine_id,
            host=engine.host,
            pid=engine.pid,
            slots=engine.slots,
            types=engine.types,
            pool=engine.pool,
            pod=engine.pod,
            build_id=engine.build_id,
            version=engine.version,
        ),
        state=ENGINE_OF[engine.state],
        busy=engine.busy,
        cordoned=engine.cordoned,
        started_at=instant(engine.started_ms),
        heartbeat_age_ms=engine.silent_ms,
        counters=engine.counters or {},
    )
