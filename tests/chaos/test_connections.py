"""Postgres cuts off all its clients, again and again, while work is done: none is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import asyncpg
import pytest
from tests.chaos.workers import Workers
from tests.conformance.eventually import eventually

from runnerq import BackendUnavailable

if TYPE_CHECKING:
    from pathlib import Path

    from tests.chaos.field import Field

ACTIVITIES = 1_000
EVERY = 60
"""Completions between two cuts."""

CUT = """
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE pid <> pg_backend_pid() AND datname = current_database() AND backend_type = 'client backend'
"""


@pytest.mark.timeout(240)
async def test_no_activity_is_lost_when_all_connections_are_cut_again_and_again(
    postgres_url: str, postgres_field: Field, tmp_path: Path
) -> None:
    field = postgres_field
    cuts = 0
    with Workers(field.environment, tmp_path, concurrency=10) as workers:
        running = [workers.start(), workers.start()]
        await field.until_engines(2)
        ids = await field.enqueue(ACTIVITIES, seconds=0.05)
        surgeon = await asyncpg.connect(postgres_url)
        done = 0
        try:
            while done < ACTIVITIES:
                reached = min(done + EVERY, ACTIVITIES)

                async def progressed(wanted: int = reached) -> int:
                    # The test's own connections are cut as well.
                    try:
                        completed = await field.completed()
                    except BackendUnavailable:
                        return 0
                    return completed if completed >= wanted else 0

                done = await eventually(progressed, within=90)
                cuts += await surgeon.fetchval(CUT) > 0
        finally:
            await surgeon.close()
        runs = workers.runs()
        await field.assert_all_completed_once(ids, runs)
        assert all(worker.poll() is None for worker in running)
        for worker in running:
            worker.terminate()
        assert [worker.wait(60) for worker in running] == [0, 0]
    assert cuts >= 10
    assert sum(len(kept) for kept in runs.values()) <= ACTIVITIES * 1.5
