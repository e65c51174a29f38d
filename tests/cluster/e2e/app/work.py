"""The activities."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass

from runnerq import ActivityContext, activity


@dataclass(frozen=True)
class Job:
    number: int
    seconds: float


@dataclass(frozen=True)
class Done:
    number: int
    pod: str
    attempt: int


@activity("job", timeout=600, max_attempts=5)
async def job(wanted: Job, ctx: ActivityContext) -> Done:
    """Take a while, then say where and at which attempt. The log tells at once that it runs."""
    print(f"runs {ctx.activity_id}", flush=True)
    await asyncio.sleep(wanted.seconds)
    return Done(wanted.number, os.environ["RUNNERQ_POD_NAME"], ctx.attempt)
