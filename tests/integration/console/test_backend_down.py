"""A backend that does not answer is said, in words, and never shown as an empty queue."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from uuid import UUID

import pytest
from tests.conformance.eventually import eventually
from tests.integration.console.served import served

from runnerq.console.problems import from_error
from runnerq.errors import CapabilityMissing, SchemaMismatch, StorageError

if TYPE_CHECKING:
    from tests.integration.console.served import Served

READS = (
    "/stats",
    "/pools",
    "/workers",
    "/decisions",
    "/queues",
    "/dead-letter",
    "/activities/pending",
    f"/activities/{UUID(int=1)}",
    f"/activities/{UUID(int=1)}/events",
    f"/activities/{UUID(int=1)}/result",
)


@pytest.mark.parametrize("path", READS)
async def test_every_read_answers_503_with_a_reason(console: Served, path: str) -> None:
    console.backend.down = True
    answer = await console.api(path)
    assert answer.status == 503
    assert answer.error["code"] == "backend_unavailable"
    assert "nothing is known right now" in answer.error["message"]
    assert answer.headers["Retry-After"] == "2"
    assert set(answer.json) == {"error"}


async def test_an_action_answers_503_too(console: Served) -> None:
    console.backend.down = True
    answer = await console.act("/dead-letter/requeue", {"ids": [str(UUID(int=1))]})
    assert answer.status == 503


async def test_passwords_in_the_reason_reach_neither_the_browser_nor_the_log(
    console: Served, caplog: pytest.LogCaptureFixture
) -> None:
    console.backend.down = True
    answer = await console.api("/stats")
    assert "s3cret" not in answer.text
    assert "//***@db/shop" in answer.text
    async with console.client.get("/api/observability/stream") as stream:
        await stream.content.readuntil(b"backend_unavailable")
    assert "did not answer" in caplog.text
    assert "s3cret" not in caplog.text


@pytest.mark.parametrize("path", READS)
async def test_a_backend_that_is_too_slow_answers_504(path: str) -> None:
    async with served(query_timeout=0.01) as console:
        console.backend.delay = 30
        answer = await console.api(path)
        assert (answer.status, answer.error["code"]) == (504, "backend_timeout")


async def test_a_request_whose_client_left_cancels_its_query(console: Served) -> None:
    console.backend.delay = 30
    console.backend.asked.clear()
    asking = asyncio.ensure_future(console.api("/dead-letter"))
    await eventually(lambda: "list_activities" in console.backend.asked)
    before = console.backend.cancelled
    asking.cancel()
    await asyncio.wait({asking})
    await eventually(lambda: console.backend.cancelled > before)


async def test_the_page_and_health_do_not_need_the_backend(console: Served) -> None:
    console.backend.down = True
    assert (await console.get("/")).status == 200
    assert (await console.get("/healthz")).status == 200
    assert (await console.get("/readyz")).status == 200
    assert (await console.get("/metrics")).status == 200


async def test_what_comes_back_is_served_again(console: Served) -> None:
    console.backend.down = True
    assert (await console.api("/stats")).status == 503
    console.backend.down = False
    assert (await console.api("/stats")).status == 200


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (SchemaMismatch("too old"), 503, "schema_mismatch"),
        (CapabilityMissing("kafka", "priorities", "no lanes"), 501, "not_supported"),
        (StorageError("constraint"), 502, "backend_error"),
    ],
)
def test_each_error_of_a_backend_has_its_own_answer(
    error: StorageError, status: int, code: str
) -> None:
    problem = from_error(error)
    assert (problem.status, problem.code) == (status, code)
