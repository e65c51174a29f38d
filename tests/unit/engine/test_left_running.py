"""An engine that nobody stopped must not keep its process alive."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import asyncio
from runnerq import WorkerEngine, activity, open_backend

began = asyncio.Event()

@activity("hang")
async def hang() -> None:
    began.set()
    try:
        await asyncio.sleep(3600)
    finally:
        await asyncio.sleep(0)
        print("cleaned up")

async def main() -> None:
    engine = WorkerEngine(open_backend("memory://"), activities=[hang], max_workers=2)
    await engine.start()
    if {busy}:
        await engine.get_activity_executor().activity("hang").execute()
        await began.wait()
    raise RuntimeError("the app failed")

asyncio.run(main())
"""


@pytest.mark.parametrize("busy", [False, True], ids=["idle", "busy"])
def test_an_app_that_fails_without_stopping_its_engine_ends(busy: bool) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(busy=busy)],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 1
    assert "RuntimeError: the app failed" in done.stderr
    assert done.stdout.strip() == ("cleaned up" if busy else "")
