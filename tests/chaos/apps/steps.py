"""The app that the workers under fire run: each run is written down by itself, outside of the queue."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import msgspec

from runnerq import ActivityContext, activity

JOURNAL = "RUNNERQ_CHAOS_JOURNAL"
"""Variable of the environment: the file to which every run adds a line when it begins."""


class Step(msgspec.Struct, frozen=True):
    number: int
    seconds: float


class Done(msgspec.Struct, frozen=True):
    number: int
    pid: int
    attempt: int


@activity("step", timeout=60)
async def step(work: Step, ctx: ActivityContext) -> Done:
    with Path(os.environ[JOURNAL]).open("a") as journal:  # noqa: ASYNC230 - one short line
        journal.write(f"{work.number} {ctx.attempt} {os.getpid()}\n")
    await asyncio.sleep(work.seconds)
    return Done(number=work.number, pid=os.getpid(), attempt=ctx.attempt)
