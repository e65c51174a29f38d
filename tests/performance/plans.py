"""Plans of our statements, as a connection keeps them: prepared, run ten times, then looked at.

Ten, because from the sixth run on a generic plan may take over, and that is the one that stays.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import asyncpg
    from asyncpg.connection import Connection


RUNS = 10


class Plan(NamedTuple):
    """The nodes of a plan, each the mapping that EXPLAIN gives."""

    nodes: list[dict[str, Any]]

    def kinds(self) -> set[str]:
        return {node["Node Type"] for node in self.nodes}

    def indexes(self) -> set[str]:
        """The indexes read, those of partitions by the name of their table."""
        return {node["Index Name"] for node in self.nodes if "Index Name" in node}

    def visited(self) -> set[str]:
        """The tables and partitions that were really looked at."""
        return {
            node["Relation Name"]
            for node in self.nodes
            if "Index Name" in node and node["Actual Loops"] > 0
        }

    def read_rows(self) -> int:
        """Rows that scans of tables looked at, needed or not."""
        return sum(
            (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"]
            for node in self.nodes
            if "Relation Name" in node and node["Node Type"] != "ModifyTable"
        )


def literal(value: object) -> str:
    """A parameter as text. Arrays in the server's own notation."""
    if value is None:
        return "NULL"
    if isinstance(value, list | tuple):
        items: list[object] = [*value]
        return "ARRAY[" + ", ".join(literal(item) for item in items) + "]"
    if isinstance(value, bytes):
        return f"'\\x{value.hex()}'"
    return f"'{value}'"


class Probe:
    """A statement, prepared once, like those that a pool's connection keeps for its life."""

    def __init__(self, connection: Connection[asyncpg.Record], name: str, types: str) -> None:
        self._connection = connection
        self._name = name
        self._types = types.split()

    async def prepare(self, text: str, *values: object) -> None:
        """Prepare and run ten times, all undone."""
        kinds = ", ".join(self._types)
        await self._connection.execute(f"PREPARE {self._name} ({kinds}) AS {text}")
        for _ in range(RUNS):
            await self._undone(self._call(values))

    async def plan(self, *values: object) -> Plan:
        """The plan that is kept, as it does with these values."""
        explain = f"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) {self._call(values)}"
        answer = await self._undone(explain)
        return Plan(list(_nodes(json.loads(answer)[0]["Plan"])))

    def _call(self, values: Sequence[object]) -> str:
        given = [f"{literal(one)}::{kind}" for one, kind in zip(values, self._types, strict=True)]
        return f"EXECUTE {self._name}({', '.join(given)})"

    async def _undone(self, statement: str) -> str:
        undone = self._connection.transaction()
        await undone.start()
        try:
            return await self._connection.fetchval(statement)
        finally:
            await undone.rollback()


def _nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node.get("Plans", ()):
        yield from _nodes(child)
