"""Several processes on one file, and what is left when they are killed."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

import pytest
from tests.conformance.eventually import WITHIN, eventually

from runnerq import BackendUnavailable
from runnerq.storage.sqlite import SqliteBackend, connection, writer

if TYPE_CHECKING:
    from tests.conformance.station import Station

ROOT = Path(__file__).parents[3]


async def start(path: Path, what: str, *rest: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.integration.sqlite.workload", str(path), what, *rest),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )


async def lines(process: asyncio.subprocess.Process) -> list[str]:
    """All it said until it ended, whole lines only."""
    async with asyncio.timeout(WITHIN):
        out, _ = await process.communicate()
    return out.decode().split("\n")[:-1]


async def said(process: asyncio.subprocess.Process, count: int) -> list[str]:
    assert process.stdout is not None
    async with asyncio.timeout(WITHIN):
        return [(await process.stdout.readline()).decode().strip() for _ in range(count)]


async def test_several_processes_enqueue_claim_and_end_without_loss_or_doubling(
    station: Station, path: Path
) -> None:
    producers = [await start(path, "enqueue", "200") for _ in range(2)]
    enqueued = [line for process in producers for line in await lines(process)]
    assert len(set(enqueued)) == 400
    workers = [await start(path, "work") for _ in range(3)]
    ended = [line for process in workers for line in await lines(process)]
    assert sorted(ended) == sorted(enqueued)
    assert {process.returncode for process in (*producers, *workers)} == {0}
    stats = await station.backend.stats(station.queue)
    assert {state.value: count for state, count in stats.counts.items() if count} == {
        "completed": 400
    }


@pytest.mark.parametrize("what", ["enqueue", "work"])
async def test_what_was_answered_before_a_kill_is_there_after_it(
    station: Station, path: Path, what: str
) -> None:
    """The child says each id after the answer; whatever it said must be stored. Killed at a moment
    that nobody chose, in the middle of its writes."""
    if what == "work":
        await station.enqueue_all(*(station.spec() for _ in range(5_000)))
    process = await start(path, what, "1000000")
    first = await said(process, 20)
    process.send_signal(signal.SIGKILL)
    told = [*first, *(line for line in await lines(process) if len(line) == 36)]
    check = sqlite3.connect(path)
    assert check.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    check.close()
    for activity_id in map(UUID, told):
        state = await station.state(activity_id)
        assert state == ("completed" if what == "work" else "pending")


async def test_a_file_is_whole_after_many_kills(station: Station, path: Path) -> None:
    for round_number in range(5):
        process = await start(path, "enqueue", "1000000")
        await said(process, 1 + round_number)
        process.send_signal(signal.SIGKILL)
        await lines(process)
    check = sqlite3.connect(path)
    assert check.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    check.close()
    claims = await station.claim(10)
    assert len(claims) == 10


async def test_work_from_another_process_wakes_a_waiter_here(station: Station, path: Path) -> None:
    work = station.backend.work_signal(station.queue)
    seen = work.version()
    process = await start(path, "enqueue", "1")
    async with asyncio.timeout(WITHIN):
        while (await station.backend.stats(station.queue)).counts["pending"] == 0:  # pyright: ignore[reportArgumentType]
            seen = await work.wait(seen, timeout=WITHIN)
    await lines(process)


async def test_a_writer_that_holds_the_file_is_waited_for_without_blocking_the_loop(
    station: Station, path: Path
) -> None:
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    enqueuing = asyncio.ensure_future(station.try_enqueue())
    longest = 0.0
    for _ in range(20):
        before = time.monotonic()
        await asyncio.sleep(0.01)
        longest = max(longest, time.monotonic() - before)
    assert not enqueuing.done()
    # Reads do not wait for writers.
    assert (await station.backend.stats(station.queue)).counts["pending"] == 0  # pyright: ignore[reportArgumentType]
    holder.execute("COMMIT")
    holder.close()
    assert (await enqueuing).status == "created"
    assert longest < 0.5


async def test_a_file_that_stays_locked_is_reported_as_unavailable(
    station: Station, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "PATIENCE_SECONDS", 0.3)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(BackendUnavailable, match=r"queue\.db.*locked"):
        await station.try_enqueue()
    holder.execute("ROLLBACK")
    holder.close()
    assert (await station.try_enqueue()).status == "created"


async def test_one_refused_job_does_not_spoil_the_others_of_its_commit(station: Station) -> None:
    bad = station.spec(payload=b"x", codec="\ud800")
    results = await asyncio.gather(
        *(station.enqueue_all(station.spec()) for _ in range(5)),
        station.enqueue_all(bad),
        *(station.enqueue_all(station.spec()) for _ in range(5)),
        return_exceptions=True,
    )
    refused = [result for result in results if isinstance(result, BaseException)]
    assert len(refused) == 1
    assert isinstance(refused[0], UnicodeEncodeError)
    assert len(await station.claim(20)) == 10


async def test_concurrent_calls_share_commits(station: Station, path: Path) -> None:
    """Each commit is a sync to disk; a hundred callers must not wait for a hundred of them."""
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    calls = [asyncio.ensure_future(station.try_enqueue()) for _ in range(100)]
    await asyncio.sleep(0)
    # All are handed in while the first waits for the file, so the rest gather behind it.
    before = await commits(path)
    holder.execute("COMMIT")
    holder.close()
    await asyncio.gather(*calls)
    assert await commits(path) - before <= 3


async def commits(path: Path) -> int:
    """How many transactions the write-ahead log holds: its frames that end one."""
    log = path.with_name(path.name + "-wal").read_bytes()
    page = int.from_bytes(log[8:12], "big")
    frames = range(32, len(log), 24 + page)
    salt = log[16:24]
    return sum(
        1
        for frame in frames
        if log[frame + 8 : frame + 16] == salt and any(log[frame + 4 : frame + 8])
    )


async def test_a_claim_whose_caller_is_gone_gives_back_what_it_took(
    station: Station, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    activity_id = await station.enqueue(max_attempts=1)
    begun = threading.Event()

    def begin(to: sqlite3.Connection, statement: str) -> None:
        begun.set()
        connection.patiently(to, statement)

    monkeypatch.setattr(writer, "patiently", begin)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    claiming = asyncio.ensure_future(station.claim())
    await eventually(begun.is_set)  # only then is it too late to call it off
    claiming.cancel()
    await asyncio.wait([claiming])
    holder.execute("COMMIT")
    holder.close()

    async def told() -> bool:
        events = await station.backend.get_activity_events(station.queue, activity_id)
        return [event.kind for event in events] == ["enqueued", "claimed", "released"]

    await eventually(told)
    look = await station.look(activity_id)
    assert (look.status, look.attempt) == ("pending", 0)


async def test_a_closed_backend_says_so_and_can_be_opened_again(path: Path) -> None:
    backend = SqliteBackend(path)
    with pytest.raises(BackendUnavailable, match="not open"):
        await backend.stats("q")
    await backend.migrate()
    await backend.open()
    await backend.open()
    await backend.close()
    await backend.close()
    with pytest.raises(BackendUnavailable, match="not open"):
        await backend.stats("q")
    await backend.open()
    assert (await backend.stats("q")).queue == "q"
    await backend.close()


async def test_a_caller_that_is_cancelled_leaves_the_writer_at_work(station: Station) -> None:
    calls = [asyncio.ensure_future(station.try_enqueue()) for _ in range(20)]
    await asyncio.sleep(0)
    for call in calls[::2]:
        call.cancel()
    kept = await asyncio.gather(*calls[1::2])
    ids = {answer.id for answer in kept}

    async def found() -> bool:
        claimed = {claim.id for claim in await station.claim(50)}
        ids.difference_update(claimed)
        return not ids

    await eventually(found)
