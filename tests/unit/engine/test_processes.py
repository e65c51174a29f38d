"""CPU-bound handlers in processes: their ends, their death, and their noise."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.conformance.eventually import eventually
from tests.unit.engine import cpu_activities as cpu
from tests.unit.engine.rig import Rig

from runnerq import ActivityDefinition, ActivityState, ConfigurationError, activity
from runnerq.engine.processes import ProcessSlots
from runnerq.storage.records import ErrorKind

ROOT = Path(__file__).parents[3]


def gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


async def test_a_cpu_handler_runs_in_another_process_which_is_reused(rig: Rig) -> None:
    await rig.start(cpu.square, cpu.pid, cpu_workers=1)
    assert await rig.result(await rig.enqueue("cpu.square", 12)) == 144
    pids = {await rig.result(await rig.enqueue("cpu.pid")) for _ in range(5)}
    assert len(pids) == 1
    assert os.getpid() not in pids


async def test_no_more_processes_run_than_are_allowed(rig: Rig) -> None:
    await rig.start(cpu.pid, cpu_workers=2, max_workers=8)
    futures = [await rig.enqueue("cpu.pid") for _ in range(30)]
    assert len({await rig.result(future) for future in futures}) <= 2


@pytest.mark.parametrize(
    ("how", "state", "words"),
    [
        ("value", ActivityState.RETRYING, "from the process"),
        ("lookup", ActivityState.FAILED, "final"),
        ("non_retryable", ActivityState.FAILED, "never"),
        ("retry", ActivityState.RETRYING, "retry requested"),
        ("snooze", ActivityState.SCHEDULED, None),
        ("system_exit", ActivityState.RETRYING, "3"),
        ("interrupt", ActivityState.RETRYING, ""),
        ("unprintable", ActivityState.RETRYING, "could not be made"),
        ("nan", ActivityState.FAILED, "nan is not a JSON number"),
        ("killed", ActivityState.RETRYING, "ended with code -9"),
        ("exits", ActivityState.RETRYING, "ended with code 7"),
    ],
)
async def test_every_end_in_a_process_is_told_as_it_was(
    rig: Rig, how: str, state: ActivityState, words: str | None
) -> None:
    await rig.start(cpu.end, cpu_workers=1)
    snapshot = await rig.reaches(await rig.enqueue("cpu.end", how), state)
    if words is not None:
        assert snapshot.error is not None
        assert words in snapshot.error.message
        assert snapshot.error.kind is (ErrorKind.RESULT if how == "nan" else ErrorKind.HANDLER)
    # Whatever became of the process, the next activity has one.
    assert await rig.result(await rig.enqueue("cpu.end", "fine")) == "fine"


async def test_a_payload_is_checked_in_the_process_as_well(rig: Rig) -> None:
    await rig.start(cpu.square)
    snapshot = await rig.reaches(await rig.enqueue("cpu.square", "x"), ActivityState.FAILED)
    assert snapshot.error is not None
    assert snapshot.error.kind is ErrorKind.PAYLOAD


async def test_a_timeout_kills_the_process(rig: Rig, tmp_path: Path) -> None:
    await rig.start(cpu.spin, cpu.square, cpu_workers=1)
    path = tmp_path / "pid"
    future = await rig.enqueue("cpu.spin", str(path), timeout=3)
    snapshot = await rig.reaches(future, ActivityState.RETRYING)
    assert snapshot.error is not None
    assert snapshot.error.kind is ErrorKind.TIMEOUT
    await eventually(lambda: gone(int(path.read_text())))
    assert await rig.result(await rig.enqueue("cpu.square", 3)) == 9


async def test_stop_kills_what_does_not_end_and_hands_it_back(rig: Rig, tmp_path: Path) -> None:
    engine = await rig.start(cpu.spin)
    path = tmp_path / "pid"
    future = await rig.enqueue("cpu.spin", str(path))
    await eventually(lambda: path.exists() and path.read_text())
    await engine.stop(grace=0)
    snapshot = await rig.look(future.id)
    assert (snapshot.status, snapshot.attempt) == (ActivityState.PENDING, 0)
    assert gone(int(path.read_text()))


async def test_signals_to_the_whole_group_do_not_end_a_process(rig: Rig, tmp_path: Path) -> None:
    await rig.start(cpu.spin)
    path = tmp_path / "pid"
    future = await rig.enqueue("cpu.spin", str(path))
    await eventually(lambda: path.exists() and path.read_text())
    for number in (signal.SIGINT, signal.SIGTERM):
        os.kill(int(path.read_text()), number)
    assert (await rig.look(future.id)).status is ActivityState.PROCESSING
    assert not gone(int(path.read_text()))


async def test_what_a_handler_prints_or_reads_does_not_disturb_the_frames(rig: Rig) -> None:
    await rig.start(cpu.noise, cpu.square, cpu_workers=1)
    assert await rig.result(await rig.enqueue("cpu.noise", 1000)) == ["", "b''"]
    assert await rig.result(await rig.enqueue("cpu.square", 5)) == 25


async def test_large_values_go_both_ways(rig: Rig) -> None:
    await rig.start(cpu.large, cpu_workers=1)
    text = "x" * (8 * 1024 * 1024)
    assert await rig.result(await rig.enqueue("cpu.large", text)) == text


async def test_a_process_that_died_idle_is_replaced(rig: Rig) -> None:
    await rig.start(cpu.pid, cpu_workers=1)
    first = await rig.result(await rig.enqueue("cpu.pid"))
    os.kill(first, signal.SIGKILL)
    await eventually(lambda: not psutil.pid_exists(first))
    assert await rig.result(await rig.enqueue("cpu.pid")) != first


def local(function: Any) -> ActivityDefinition[Any, Any]:
    return activity("local", cpu=True)(function)


def undecorated(value: int) -> int:
    return value


NOT_IMPORTABLE: list[Any] = [lambda: None, undecorated]


@pytest.mark.parametrize("function", NOT_IMPORTABLE)
async def test_what_another_process_cannot_import_is_refused_at_start(
    rig: Rig, function: Any
) -> None:
    engine = rig.make(local(function))
    with pytest.raises(ConfigurationError, match=r"^cpu: 'local' is cpu=True, but another process"):
        await engine.start()


async def test_a_process_that_cannot_be_started_costs_no_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slots = ProcessSlots(1)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", "/nowhere/python")
        for _ in range(3):
            with pytest.raises(FileNotFoundError):
                await slots.acquire()
    async with asyncio.timeout(30):
        child = await slots.acquire()
        slots.release(child, reusable=False)
        again = await slots.acquire()
    slots.release(again, reusable=True)
    await slots.close()


ORPHANED = """
import asyncio, os, sys
sys.path[:0] = [{root!r}, {worker!r}]
from tests.unit.engine.cpu_activities import spin
from runnerq import WorkerEngine
from runnerq.storage.memory import MemoryBackend

async def main() -> None:
    engine = WorkerEngine(MemoryBackend(), activities=[spin])
    await engine.start()
    await engine.get_activity_executor().activity("cpu.spin").payload({path!r}).execute()
    await asyncio.sleep(3600)

asyncio.run(main())
"""


def test_a_computation_ends_with_the_process_that_wanted_its_result(tmp_path: Path) -> None:
    path = tmp_path / "pid"
    code = ORPHANED.format(root=str(ROOT), worker=str(ROOT / "worker"), path=str(path))
    engine = subprocess.Popen([sys.executable, "-c", code])
    try:
        until(lambda: path.exists() and path.read_text() != "")
    finally:
        engine.kill()
        engine.wait(30)
    until(lambda: gone(int(path.read_text())))


def until(condition: Any) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "the condition was not met within 30 s"
        time.sleep(0.01)
