"""Enqueueing in ways that only Postgres has: arrays, COPY, keys whose holder was deleted by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import asyncpg
import pytest
from tests.integration.postgres.desk import QUEUE, Desk, new_spec

from runnerq.errors import InvalidActivity, SchemaMismatch
from runnerq.storage.postgres import PostgresBackend
from runnerq.storage.postgres.enqueue import COPY_FROM
from runnerq.storage.records import (
    ActivityState,
    EnqueueStatus,
    Idempotency,
    IdempotencyBehavior,
)

if TYPE_CHECKING:
    from asyncpg.connection import Connection

MEGABYTE = 1024 * 1024


@pytest.mark.parametrize("count", [1, COPY_FROM - 1, COPY_FROM, 3 * COPY_FROM])
async def test_what_is_stored_does_not_depend_on_how_it_came(desk: Desk, count: int) -> None:
    at = datetime.now(UTC) + timedelta(hours=1)
    root = new_spec().id
    fields = {"headers": {"a": "\x00"}, "root_id": root, "parent_id": root, "depth": 3}
    specs = [new_spec(run_at=at, **fields) for _ in range(count)]
    answers = await desk.enqueue(*specs)
    assert {answer.status for answer in answers} == {EnqueueStatus.CREATED}
    look = await desk.backend.get_activity(QUEUE, specs[-1].id)
    assert (look.status, look.ready_at) == (ActivityState.SCHEDULED, at)
    assert (look.headers, look.root_id, look.parent_id) == ({"a": "\x00"}, root, root)


async def test_a_large_call_repeated_in_part_stores_only_what_is_new(desk: Desk) -> None:
    old = [new_spec() for _ in range(10)]
    await desk.enqueue(*old)
    claims = await desk.claim(5)
    await desk.complete(*claims)
    new = [new_spec() for _ in range(COPY_FROM)]
    answers = await desk.enqueue(*new[:200], *old, *new[200:], new[0])
    created = [answer.id for answer in answers if answer.status is EnqueueStatus.CREATED]
    assert created == [spec.id for spec in new]
    assert {answer.id for answer in answers} == {spec.id for spec in (*old, *new)}


async def test_a_large_call_with_a_delay_in_the_past_is_due_now(desk: Desk) -> None:
    past = datetime.now(UTC) - timedelta(days=1)
    await desk.enqueue(*(new_spec(run_at=past) for _ in range(COPY_FROM)))
    claims = await desk.claim(COPY_FROM)
    assert len(claims) == COPY_FROM
    assert all(claim.ready_at == claim.created_at for claim in claims)


async def test_keyed_and_plain_activities_of_one_call_are_one_step(
    raw: Connection[asyncpg.Record], desk: Desk
) -> None:
    mixed = [new_spec(), new_spec(idempotency=Idempotency(key="k"))]
    # The second half fails: an id that a trigger refuses.
    await raw.execute(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'no keys today'; END $$; "
        "CREATE TRIGGER refuse BEFORE INSERT ON runnerq_idempotency "
        "FOR EACH ROW EXECUTE FUNCTION refuse()"
    )
    with pytest.raises(Exception, match="no keys today"):
        await desk.enqueue(*mixed)
    assert await raw.fetchval("SELECT count(*) FROM runnerq_activities") == 0
    await raw.execute("DROP TRIGGER refuse ON runnerq_idempotency")
    answers = await desk.enqueue(*mixed)
    assert [answer.status for answer in answers] == [EnqueueStatus.CREATED] * 2


@pytest.mark.parametrize("behavior", list(IdempotencyBehavior))
async def test_a_key_whose_holder_was_deleted_is_free(
    raw: Connection[asyncpg.Record], desk: Desk, behavior: IdempotencyBehavior
) -> None:
    key = Idempotency(key="k", behavior=behavior)
    await desk.enqueue(new_spec(idempotency=key))
    await raw.execute("DELETE FROM runnerq_activities")
    spec = new_spec(idempotency=key)
    [answer] = await desk.enqueue(spec)
    assert (answer.id, answer.status) == (spec.id, EnqueueStatus.CREATED)


@pytest.mark.parametrize("key", ["", "a\x00b", "\ud800", "x" * 100_000, "ünïcødé"])
async def test_any_text_may_be_a_key(desk: Desk, key: str) -> None:
    wanted = Idempotency(key=key)
    [first] = await desk.enqueue(new_spec(idempotency=wanted))
    [second] = await desk.enqueue(new_spec(idempotency=wanted))
    assert second.id == first.id
    look = await desk.backend.get_activity(QUEUE, first.id)
    assert look.idempotency_key == key


async def test_many_specs_that_share_keys_take_turns(desk: Desk) -> None:
    keys = [Idempotency(key=f"k{number % 10}") for number in range(100)]
    answers = await desk.enqueue(*(new_spec(idempotency=key) for key in keys))
    assert len({answer.id for answer in answers}) == 10
    created = [answer for answer in answers if answer.status is EnqueueStatus.CREATED]
    assert [answer.id for answer in created] == [answer.id for answer in answers[:10]]


async def test_a_hundred_megabytes_of_payloads_and_results_go_through(desk: Desk) -> None:
    specs = [new_spec(payload=b'"' + b"x" * (10 * MEGABYTE) + b'"') for _ in range(10)]
    await desk.enqueue(*specs)
    claims = await desk.claim(10)
    assert [len(claim.payload) for claim in claims] == [10 * MEGABYTE + 2] * 10
    await desk.complete(*claims)
    look = await desk.backend.get_activity(QUEUE, specs[0].id)
    assert look.payload == specs[0].payload


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"max_attempts": 2**31}, "max_attempts"),
        ({"timeout_ms": 2**60}, "timeout"),
        ({"delay_ms": 2**60}, "delay"),
        ({"depth": 2**31}, "depth"),
        ({"run_at": datetime(2030, 1, 1)}, "run_at"),  # noqa: DTZ001 - that is the mistake
        ({"type": "nul\x00"}, "type"),
        ({"idempotency": Idempotency(key="k", ttl_ms=2**60)}, "idempotency.ttl"),
    ],
)
async def test_what_no_column_can_hold_is_refused_by_its_name(
    desk: Desk, fields: dict[str, object], field: str
) -> None:
    with pytest.raises(InvalidActivity) as caught:
        await desk.enqueue(new_spec(), new_spec(**fields))
    assert caught.value.field == field
    assert await desk.claim() == []


async def test_a_backend_may_be_closed_and_opened_again(backend: PostgresBackend) -> None:
    desk = Desk(backend)
    await desk.register()
    for _ in range(2):
        await backend.close()
        await backend.open()
        await desk.enqueue()
        claims = await desk.claim()
        await desk.complete(*claims)
        assert await backend.wait_for_result(QUEUE, claims[0].id, 5) is not None


async def test_a_schema_that_vanishes_under_an_open_backend_is_named(
    raw: Connection[asyncpg.Record], desk: Desk
) -> None:
    await raw.execute("ALTER TABLE runnerq_activities RENAME TO elsewhere")
    with pytest.raises(SchemaMismatch, match="runnerq migrate up"):
        await desk.enqueue()
