"""kill -9 of a worker in the middle of its work: nothing lost, nothing twice, and soon done."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from tests.chaos.workers import Workers
from tests.conformance.eventually import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from tests.chaos.field import Field

ACTIVITIES = 1_000
SLOTS = 10
DONE_WITHIN = 30.0
"""Seconds after the kill in which everything must be completed."""


@pytest.mark.timeout(180)
async def test_work_of_a_killed_worker_is_done_by_the_other_within_30_seconds(
    field: Field, tmp_path: Path
) -> None:
    with Workers(field.environment, tmp_path, concurrency=SLOTS) as workers:
        victim, survivor = workers.start(), workers.start()
        await field.until_engines(2)
        ids = await field.enqueue(ACTIVITIES, seconds=0.1)
        await field.until_completed(300, within=60)
        victim.kill()
        killed = time.monotonic()
        victim.wait(30)
        assert await field.completed() < ACTIVITIES
        await field.until_completed(ACTIVITIES, within=DONE_WITHIN - (time.monotonic() - killed))
        runs = workers.runs()
        attempts = await field.assert_all_completed_once(ids, runs)
        assert survivor.poll() is None
    # Only what the victim held ran again, at most a slot each, and the lost attempt was counted.
    assert set(attempts) == {1, 2}
    assert 1 <= attempts[2] <= SLOTS
    again = {number: kept for number, kept in runs.items() if len(kept) > 1}
    assert all(kept == [(1, victim.pid), (2, survivor.pid)] for kept in again.values()), again
    assert len(again) <= attempts[2]


@pytest.mark.timeout(180)
async def test_a_worker_that_is_killed_at_every_attempt_ends_in_the_dead_letter(
    field: Field, tmp_path: Path
) -> None:
    """A crash loop is bounded by max_attempts, although no handler ever reports anything."""
    with Workers(field.environment, tmp_path, concurrency=1) as workers:
        [poison] = await field.enqueue(1, seconds=600, max_attempts=2)
        for attempt in (1, 2):
            victim = workers.start()
            await eventually(lambda: workers.runs_of(victim) == 1, within=60)  # noqa: B023
            assert (await field.snapshot(poison)).attempt == attempt
            victim.kill()
            victim.wait(30)
        workers.start()
        ended = await field.until_ended(poison, within=40)
    assert ended.status == "dead_letter"
    assert ended.attempt == 2
    assert ended.error is not None
    assert ended.error.kind == "worker_lost"
