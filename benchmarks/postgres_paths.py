"""What enqueue, claim and acknowledge cost on Postgres, alone and beside other people's backlog.

    python benchmarks/postgres_paths.py [--version postgres15] [--activities 20000] [--batch 200]

Starts a private server with fsync and synchronous commits on. Per path: microseconds of wall clock and of
the server's CPU per activity. The CPU holds up on a shared machine, the wall clock is pessimistic. One
connection at a time: this measures the statements, not how many of them run side by side.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple
from uuid import uuid4

import asyncpg
import psutil
from tests.servers.postgres_server import FOR_BENCHMARKS, VERSIONS, PostgresServer

from runnerq.ids import IdSource
from runnerq.storage.postgres import PostgresBackend
from runnerq.storage.records import (
    Acknowledgement,
    ActivitySpec,
    ClaimRequest,
    EngineInfo,
    OutcomeKind,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence
    from uuid import UUID

QUEUE = "bench"
OWN_TYPE = "own"
FOREIGN_TYPE = "foreign"
_CLIENT = "127.0.0.1"
"""How the title of a server process names a connection of ours."""
DAY_MS = 86_400_000


class Cost(NamedTuple):
    path: str
    wall_us: float
    server_us: float


class Meter:
    """Charges wall clock and server CPU to paths."""

    def __init__(self, server_pid: int) -> None:
        self._server = psutil.Process(server_pid)

    async def measure(self, path: str, activities: int, work: Awaitable[None]) -> Cost:
        cpu, start = self._server_seconds(), time.perf_counter()
        await work
        wall, spent = time.perf_counter() - start, self._server_seconds() - cpu
        return Cost(path, wall / activities * 1e6, spent / activities * 1e6)

    def _server_seconds(self) -> float:
        # Our own connections. Vacuum and checkpoints run when they like, also during the next path.
        spent = 0.0
        for child in self._server.children():
            with suppress(psutil.NoSuchProcess):
                if _CLIENT in " ".join(child.cmdline()):
                    times = child.cpu_times()
                    spent += times.user + times.system
        return spent


class Bench:
    def __init__(self, backend: PostgresBackend, meter: Meter, activities: int, batch: int) -> None:
        self._backend = backend
        self._meter = meter
        self._activities = activities
        self._batch = batch
        self._ids = IdSource()
        self._engine = uuid4()

    async def register(self) -> None:
        info = EngineInfo(engine_id=self._engine, host="bench", pid=1, slots=1, types=(OWN_TYPE,))
        await self._backend.register_engine(QUEUE, info)

    async def add_backlog(self, foreign: int, future: int) -> None:
        for start in range(0, foreign, 5_000):
            count = min(5_000, foreign - start)
            await self._backend.enqueue(QUEUE, self._specs(count, FOREIGN_TYPE))
        for start in range(0, future, 5_000):
            count = min(5_000, future - start)
            await self._backend.enqueue(QUEUE, self._specs(count, OWN_TYPE, delay_ms=DAY_MS))

    async def run(self, label: str) -> list[Cost]:
        batches = [self._specs(self._batch) for _ in range(self._activities // self._batch)]
        large = self._specs(self._activities)
        claimed: list[tuple[UUID, UUID]] = []

        async def claim() -> None:
            request = ClaimRequest(
                queue=QUEUE, engine_id=self._engine, types=(OWN_TYPE,), limit=self._batch
            )
            while claims := await self._backend.claim(request):
                claimed.extend((one.id, one.token) for one in claims)

        async def enqueue(parts: Sequence[Sequence[ActivitySpec]]) -> None:
            for specs in parts:
                await self._backend.enqueue(QUEUE, specs)

        async def acknowledge() -> None:
            for start in range(0, len(claimed), self._batch):
                await self._backend.acknowledge(
                    QUEUE,
                    [
                        Acknowledgement(
                            id=one, token=token, kind=OutcomeKind.COMPLETED, result=b'{"ok":true}'
                        )
                        for one, token in claimed[start : start + self._batch]
                    ],
                )

        count = self._activities
        costs = [
            await self._meter.measure(
                f"{label} enqueue, {self._batch} a call", count, enqueue(batches)
            ),
            await self._meter.measure(f"{label} enqueue, {count} a call", count, enqueue([large])),
            await self._meter.measure(f"{label} claim", 2 * count, claim()),
            await self._meter.measure(f"{label} acknowledge", 2 * count, acknowledge()),
        ]
        assert len(claimed) == 2 * count
        return costs

    def _specs(
        self, count: int, activity_type: str = OWN_TYPE, delay_ms: int = 0
    ) -> list[ActivitySpec]:
        return [
            ActivitySpec(
                id=self._ids.next(),
                type=activity_type,
                payload=b'{"to":"somebody@example.org","number":12345}',
                delay_ms=delay_ms,
            )
            for _ in range(count)
        ]


async def measure(server: PostgresServer, activities: int, batch: int) -> list[Cost]:
    backend = PostgresBackend(server.url, QUEUE, schema="bench")
    await backend.migrate()
    await backend.open()
    try:
        bench = Bench(backend, Meter(server.pid), activities, batch)
        await bench.register()
        await bench.run("warm-up:")
        costs = await bench.run("alone:")
        await bench.add_backlog(foreign=100_000, future=100_000)
        costs += await bench.run("beside 100k foreign, 100k future:")
        connection = await asyncpg.connect(server.url)
        await connection.execute("ANALYZE")
        await connection.close()
        return costs + await bench.run("the same, analysed:")
    finally:
        await backend.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", choices=VERSIONS, default="postgres15")
    parser.add_argument("--activities", type=int, default=20_000)
    parser.add_argument("--batch", type=int, default=200)
    options = parser.parse_args()
    with PostgresServer(options.version, FOR_BENCHMARKS) as server:
        costs = asyncio.run(measure(server, options.activities, options.batch))
    print(f"{'us per activity':<56} {'wall':>8} {'server CPU':>11}")
    for cost in costs:
        print(f"{cost.path:<56} {cost.wall_us:>8.1f} {cost.server_us:>11.1f}")


if __name__ == "__main__":
    main()
