"""The hot statements keep their plan at any size, with statistics from when the table was empty.

Each reads what it needs through the index that was made for it: foreign types, future work and other
people's claims are never visited.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID, uuid4

import asyncpg
import pytest
import pytest_asyncio
from tests.performance.plans import Plan, Probe
from tests.servers.postgres import schema_of_its_own

from runnerq.ids import IdSource
from runnerq.storage.postgres import PostgresBackend
from runnerq.storage.postgres.connections import SESSION_SETTINGS
from runnerq.storage.postgres.sql import Statements, days_of
from runnerq.storage.records import (
    Acknowledgement,
    ActivitySpec,
    Claim,
    ClaimRequest,
    EngineInfo,
    OutcomeKind,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from asyncpg.connection import Connection

pytestmark = pytest.mark.asyncio(loop_scope="module")

QUEUE = "plans"
OWN, FOREIGN = "own", "foreign"
CROWD = 100_000
HELD = 50
CAP = 1_000
DAY_MS = 86_400_000
LAST = UUID(int=2**128 - 1)
READ_ALL = {"Seq Scan", "Bitmap Heap Scan", "Sort", "Hash Join", "Merge Join"}
"""What a statement does that reads more than it needs."""


def batch(ids: list[UUID], queue_id: int) -> dict[str, tuple[object, ...]]:
    """Parameters of the statements that take a batch of claims, whose tokens are their ids' copies."""
    count = len(ids)
    return {
        "finish": (
            *(ids, ids, [1] * count, [6] * count, [b"1"] * count, ["json"] * count),
            *([None] * count, [5] * count, queue_id),
        ),
        "give_back": (
            *(ids, ids, [3] * count, [1000] * count, [b"{}"] * count, [1] * count, [5] * count),
            queue_id,
        ),
        "explain_refusal": (
            *(ids, ids, [1] * count, [b"2"] * count, ["json"] * count, [None] * count, [1] * count),
            queue_id,
        ),
        "extend_lease": (ids, ids, queue_id, 1000),
        "still_held": (ids, ids, queue_id),
        "get_results": (ids,),
    }


def enqueued(ids: list[UUID], queue_id: int, type_id: int) -> tuple[object, ...]:
    count = len(ids)
    return (
        *(queue_id, ids, [type_id] * count, [2] * count, [0] * count, [None] * count),
        *([1] * count, [3] * count, ["json"] * count, [b"{}"] * count, [None] * count),
        *([None] * count, [None] * count, [0] * count),
    )


def claimed(engine_id: UUID, queue_id: int, type_id: int) -> tuple[object, ...]:
    return (
        *(engine_id, queue_id, [type_id], [2], [0], [1], [100], 100, b"secret", 60_000, 10_000),
        *(["-infinity"], [UUID(int=0)]),
    )


TYPES = {
    "claim": "uuid int int[] smallint[] smallint[] bigint[] int[] bigint bytea bigint bigint "
    "timestamptz[] uuid[]",
    "lane_heads": "int[]",
    "finish": "uuid[] uuid[] smallint[] smallint[] bytea[] text[] bytea[] bigint[] int",
    "give_back": "uuid[] uuid[] smallint[] bigint[] bytea[] bigint[] bigint[] int",
    "explain_refusal": "uuid[] uuid[] smallint[] bytea[] text[] bytea[] bigint[] int",
    "extend_lease": "uuid[] uuid[] int bigint",
    "still_held": "uuid[] uuid[] int",
    "enqueue": "int uuid[] int[] smallint[] bigint[] timestamptz[] bigint[] int[] text[] bytea[] "
    "bytea[] uuid[] uuid[] int[]",
    "reap": "int bigint bigint",
    "demand": "text[] bigint int",
    "stats": "int int[] int",
    "list_waiting": "int[] smallint uuid int",
    "list_ended": "int[] smallint uuid int",
    "get_result": "int uuid",
    "get_results": "uuid[]",
}


class Scene:
    """A queue with 200 activities of a type of ours, fifty of them claimed and fifty ended, and a crowd
    around them. The statements were prepared while there was nothing at all."""

    def __init__(self, connection: Connection[asyncpg.Record], crowd: int) -> None:
        self.connection = connection
        self.crowd = crowd
        self.engine_id = uuid4()
        self.held: list[UUID] = []
        self.ended: list[UUID] = []
        self.queue_id = self.type_id = 0
        self._probes = {name: Probe(connection, name, types) for name, types in TYPES.items()}

    async def prepare(self, statements: Statements) -> None:
        ids = [IdSource().next() for _ in range(HELD)]
        values: dict[str, tuple[object, ...]] = {
            **batch(ids, 1),
            "claim": claimed(self.engine_id, 1, 1),
            "lane_heads": ([1],),
            "enqueue": enqueued(ids, 1, 1),
            "reap": (1, 100, 15_000),
            "demand": ([QUEUE], 1000, CAP),
            "stats": (1, [1], CAP),
            "list_waiting": ([1], 1, LAST, 51),
            "list_ended": ([1], 6, LAST, 51),
            "get_result": (1, ids[0]),
        }
        bounded = {"enqueue", "get_result", "get_results"}
        for name, probe in self._probes.items():
            of_today = statements.within(name, *days_of(ids)) if name in bounded else name
            await probe.prepare(statements[of_today], *values[name])

    async def fill(self, backend: PostgresBackend) -> None:
        ids = IdSource()

        async def enqueue(count: int, activity_type: str, delay_ms: int = 0) -> None:
            for start in range(0, count, 10_000):
                part = min(10_000, count - start)
                specs = [
                    ActivitySpec(
                        id=ids.next(), type=activity_type, payload=b"{}", delay_ms=delay_ms
                    )
                    for _ in range(part)
                ]
                await backend.enqueue(QUEUE, specs)

        async def claim(activity_type: str, limit: int) -> list[Claim]:
            return await backend.claim(
                ClaimRequest(
                    queue=QUEUE, engine_id=self.engine_id, types=(activity_type,), limit=limit
                )
            )

        async def finish(activity_type: str, count: int) -> list[UUID]:
            claims = await claim(activity_type, count)
            acks = [
                Acknowledgement(id=one.id, token=one.token, kind=OutcomeKind.COMPLETED, result=b"1")
                for one in claims
            ]
            await backend.acknowledge(QUEUE, acks)
            return [one.id for one in claims]

        info = EngineInfo(engine_id=self.engine_id, host="h", pid=1, slots=1, types=(OWN, FOREIGN))
        await backend.register_engine(QUEUE, info)
        await enqueue(self.crowd, FOREIGN)
        await finish(FOREIGN, self.crowd // 20)
        await enqueue(200, OWN)
        self.ended = await finish(OWN, HELD)
        await enqueue(self.crowd, OWN, delay_ms=DAY_MS)
        self.held = [one.id for one in await claim(OWN, HELD)]
        await self.connection.execute("UPDATE runnerq_activities SET token = id WHERE state = 4")
        row = await self.connection.fetchrow(
            "SELECT queue_id, type_id FROM runnerq_activities WHERE state = 4 LIMIT 1"
        )
        assert row is not None
        self.queue_id, self.type_id = row["queue_id"], row["type_id"]

    async def plan(self, name: str, *values: object) -> Plan:
        return await self._probes[name].plan(*values)

    async def plan_of_batch(self, name: str) -> Plan:
        return await self.plan(name, *batch(self.held, self.queue_id)[name])


@pytest_asyncio.fixture(
    scope="module", loop_scope="module", params=[0, CROWD], ids=["alone", "in a crowd"]
)
async def scene(request: pytest.FixtureRequest, postgres_url: str) -> AsyncIterator[Scene]:
    async with schema_of_its_own(postgres_url) as schema:
        backend = PostgresBackend(postgres_url, QUEUE, schema=schema)
        await backend.migrate()
        await backend.open()
        connection = await asyncpg.connect(postgres_url)
        try:
            await connection.execute(SESSION_SETTINGS)
            await connection.execute(f'SET search_path TO "{schema}"')
            # Statistics of empty tables, and nobody who makes better ones: those would renew the plans.
            for table in ("runnerq_activities", "runnerq_history"):
                await connection.execute(f"ANALYZE {table}")
            await connection.execute(
                "ALTER TABLE runnerq_activities SET (autovacuum_enabled = off)"
            )
            first = ActivitySpec(id=IdSource().next(), type=OWN, payload=b"{}")
            await backend.enqueue(QUEUE, [first])  # names and partitions
            await connection.execute("DELETE FROM runnerq_activities")
            made = Scene(connection, request.param)
            await made.prepare(Statements(schema))
            await made.fill(backend)
            yield made
        finally:
            await connection.close()
            await backend.close()


async def test_a_claim_walks_its_lane_and_nothing_else(scene: Scene) -> None:
    plan = await scene.plan("claim", *claimed(scene.engine_id, scene.queue_id, scene.type_id))
    engines = {name for name in plan.indexes() if name.startswith("runnerq_engines")}
    assert plan.indexes() - engines == {"runnerq_activities_lane"}
    assert "Tid Scan" in plan.kinds()
    assert not plan.kinds() & READ_ALL
    assert plan.read_rows() <= 210  # 100 found, 100 updated, the engine's row


async def test_the_heads_of_lanes_are_found_without_reading_the_lanes(scene: Scene) -> None:
    plan = await scene.plan("lane_heads", [scene.type_id])
    assert plan.indexes() == {"runnerq_activities_lane"}
    assert not plan.kinds() & (READ_ALL | {"Unique"})
    assert plan.read_rows() <= 10


@pytest.mark.parametrize("name", ["finish", "extend_lease", "still_held"])
async def test_a_batch_of_claims_goes_by_id_and_never_by_state(scene: Scene, name: str) -> None:
    plan = await scene.plan_of_batch(name)
    assert plan.indexes() == {"runnerq_activities_pkey"}
    assert not plan.kinds() & READ_ALL
    assert plan.read_rows() == HELD


async def test_giving_back_goes_by_id_and_never_by_state(scene: Scene) -> None:
    plan = await scene.plan_of_batch("give_back")
    assert plan.indexes() == {"runnerq_activities_pkey"}
    assert not plan.kinds() & READ_ALL
    assert plan.read_rows() <= 3 * HELD


async def test_refusals_are_explained_by_id(scene: Scene) -> None:
    plan = await scene.plan_of_batch("explain_refusal")
    assert not plan.kinds() & READ_ALL
    assert plan.read_rows() <= HELD


async def test_enqueueing_reads_nothing_but_the_ids_it_brings(scene: Scene) -> None:
    ids = sorted(IdSource().next() for _ in range(HELD))
    plan = await scene.plan("enqueue", *enqueued(ids, scene.queue_id, scene.type_id))
    assert not plan.kinds() & READ_ALL
    assert plan.read_rows() == 0


async def test_the_reaper_asks_owners_and_reads_no_live_claims(scene: Scene) -> None:
    plan = await scene.plan("reap", scene.queue_id, 100, 15_000)
    assert "runnerq_activities_held" in plan.indexes()
    assert not plan.kinds() & {"Seq Scan", "Bitmap Heap Scan"}
    assert plan.read_rows() <= 5


async def test_demand_reads_only_what_it_counts(scene: Scene) -> None:
    plan = await scene.plan("demand", [QUEUE], 60_000, CAP)
    activities = {name for name in plan.indexes() if name.startswith("runnerq_activities")}
    assert activities == {"runnerq_activities_lane", "runnerq_activities_held"}
    assert not plan.kinds() & {"Seq Scan", "Bitmap Heap Scan"}
    # Of two types the claimable and the future to the cap, and the claims.
    assert plan.read_rows() <= 4 * (CAP + 1) + 2 * HELD


async def test_a_page_of_waiting_work_reads_one_page(scene: Scene) -> None:
    plan = await scene.plan("list_waiting", [scene.type_id], 1, LAST, 51)
    assert plan.indexes() == {"runnerq_activities_waiting", "runnerq_activities_pkey"}
    assert not plan.kinds() & {"Seq Scan", "Bitmap Heap Scan"}
    assert plan.read_rows() <= 102


async def test_a_page_of_history_reads_one_page(scene: Scene) -> None:
    plan = await scene.plan("list_ended", [scene.type_id], 6, LAST, 11)
    assert not plan.kinds() & {"Seq Scan", "Bitmap Heap Scan"}
    assert plan.read_rows() <= 22


async def test_a_result_is_looked_up_by_id_in_one_partition(scene: Scene) -> None:
    plan = await scene.plan("get_result", scene.queue_id, scene.ended[0])
    assert not plan.kinds() & READ_ALL
    assert len(plan.visited()) == 2  # one partition of history, and the live table
    assert plan.read_rows() == 1


async def test_many_results_are_looked_up_by_id_in_their_partition(scene: Scene) -> None:
    plan = await scene.plan("get_results", scene.ended)
    assert not plan.kinds() & {"Seq Scan", "Bitmap Heap Scan", "Sort"}
    history = {name for name in plan.visited() if name.startswith("runnerq_history")}
    assert len(history) == 1
    assert plan.read_rows() <= 2 * HELD


async def test_counts_stop_at_their_cap(scene: Scene) -> None:
    plan = await scene.plan("stats", scene.queue_id, [scene.type_id], CAP)
    assert not plan.kinds() & {"Seq Scan", "Bitmap Heap Scan"}
    assert plan.read_rows() <= 2 * (CAP + 1) + 2 * HELD
