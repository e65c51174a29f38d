"""Activities with every kind of end, for tests of what is measured."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

from runnerq import ActivityContext, RetryPolicy, activity

QUICKLY = RetryPolicy(base=timedelta(milliseconds=300))
GATE_SECONDS = 60.0
_LOOK_SECONDS = 0.05


@activity("hold", timeout=GATE_SECONDS * 2)
async def hold(gate: str, ctx: ActivityContext) -> None:
    """Enqueues a short one, waits until the file `gate` exists, enqueues another one, twice."""
    await short.payload(0.05).on(ctx.executor).execute()
    await _opened(Path(gate))
    keyed = short.payload(0.05).idempotency_key(str(ctx.activity_id), behavior="return_existing")
    await keyed.on(ctx.executor).execute()
    await keyed.on(ctx.executor).execute()


@activity("short")
async def short(seconds: float) -> None:
    await asyncio.sleep(seconds)


@activity("flaky", max_attempts=3, retry=QUICKLY)
async def flaky(_: None, ctx: ActivityContext) -> None:
    """Succeeds at the second attempt."""
    if ctx.attempt == 1:
        raise ConnectionError("not yet")


@activity("hopeless", max_attempts=2, retry=QUICKLY)
async def hopeless(_: None) -> None:
    raise ConnectionError("never")


async def _opened(gate: Path) -> None:
    for _ in range(round(GATE_SECONDS / _LOOK_SECONDS)):
        if await asyncio.to_thread(gate.exists):
            return
        await asyncio.sleep(_LOOK_SECONDS)
    raise TimeoutError(f"{gate} was not there within {GATE_SECONDS:.0f} s")
