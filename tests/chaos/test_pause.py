"""SIGSTOP of a worker for longer than its liveness: it comes back and finds its work taken over."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest
from tests.chaos.workers import Workers
from tests.conformance.eventually import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from tests.chaos.field import Field

ACTIVITIES = 60
SLOTS = 5


@pytest.mark.timeout(180)
async def test_a_worker_that_was_paused_cannot_complete_what_was_given_to_another(
    field: Field, tmp_path: Path
) -> None:
    with Workers(field.environment, tmp_path, concurrency=SLOTS) as workers:
        paused, other = workers.start(), workers.start()
        await field.until_engines(2)
        ids = await field.enqueue(ACTIVITIES, seconds=0.5)
        await eventually(
            lambda: workers.runs_of(paused) >= SLOTS and workers.runs_of(other) >= SLOTS, within=60
        )
        paused.send_signal(signal.SIGSTOP)
        # Its heartbeat is 15 s old before anybody takes its work.
        await field.until_completed(ACTIVITIES, within=60)
        before = await field.everything()
        runs = workers.runs()
        attempts = await field.assert_all_completed_once(ids, runs)
        assert 1 <= attempts[2] <= SLOTS
        paused.send_signal(signal.SIGCONT)
        await eventually(
            lambda: (
                "claims are lost" in workers.log_of(paused)
                or "came too late" in workers.log_of(paused)
            ),
            within=30,
        )
        # Back in business: with the other one gone, it is the paused one that does the next work.
        other.terminate()
        assert other.wait(60) == 0
        later = await field.enqueue(ACTIVITIES, seconds=0, first=ACTIVITIES)
        await field.until_completed(2 * ACTIVITIES, within=60)
        runs = workers.runs()
        await field.assert_all_completed_once([*ids, *later], runs)
        stored = await field.everything()
        assert all(stored[one] == before[one] for one in ids)
        assert {pid for number in runs if number >= ACTIVITIES for _, pid in runs[number]} == {
            paused.pid
        }
        paused.terminate()
        assert paused.wait(60) == 0
