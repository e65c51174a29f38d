"""Queues and types as the small numbers that rows carry, remembered for the life of the process.

A number never changes, so what was seen once needs no second look.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from runnerq.storage.postgres.connections import Purpose

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from asyncpg import Record

    from runnerq.storage.postgres.connections import Database


class Names:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._queues: dict[str, int] = {}
        self._types: dict[tuple[int, str], int] = {}
        self._names: dict[int, str] = {}

    async def queue(self, name: str) -> int:
        """The number of a queue, given out now if it has none."""
        known = self._queues.get(name)
        if known is None:
            rows = await self._database.fetch("intern_queue", name)
            known = self._queues[name] = rows[0]["queue_id"]
        return known

    async def known_queue(self, name: str) -> int | None:
        """The number of a queue; None if nobody ever used it. For reads, which must not create."""
        known = self._queues.get(name)
        if known is None:
            rows = await self._database.fetch("find_queue", name, purpose=Purpose.READ)
            if not rows:
                return None
            known = self._queues[name] = rows[0]["queue_id"]
        return known

    async def types(self, queue_id: int, names: Iterable[str]) -> dict[str, int]:
        """The numbers of types, given out now to those that have none."""
        wanted = set(names)
        missing = sorted(name for name in wanted if (queue_id, name) not in self._types)
        if missing:
            for row in await self._database.fetch("intern_types", queue_id, missing):
                self._remember(queue_id, row["type_id"], row["name"])
        return {name: self._types[queue_id, name] for name in wanted}

    async def all_types(self, queue_id: int) -> dict[int, str]:
        """Every type of a queue, as number and name; always read, because others add to it."""
        return {row["type_id"]: row["name"] for row in await self._read_all(queue_id)}

    async def names_of(self, queue_id: int, type_ids: Sequence[int]) -> dict[int, str]:
        """The names behind numbers that rows carry."""
        if any(type_id not in self._names for type_id in type_ids):
            await self._read_all(queue_id)
        return self._names

    async def _read_all(self, queue_id: int) -> list[Record]:
        rows = await self._database.fetch("list_types", queue_id, purpose=Purpose.READ)
        for row in rows:
            self._remember(queue_id, row["type_id"], row["name"])
        return rows

    def _remember(self, queue_id: int, type_id: int, name: str) -> None:
        self._types[queue_id, name] = type_id
        self._names[type_id] = name
