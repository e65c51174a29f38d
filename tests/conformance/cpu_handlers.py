"""CPU-bound handlers: they run in other processes, which must be able to import them."""

from __future__ import annotations

import os
import signal

from runnerq import NonRetryable, Retry, Snooze, activity


@activity("cpu.add", cpu=True)
def add(numbers: list[int]) -> dict[str, int]:
    return {"sum": sum(numbers), "pid": os.getpid()}


@activity("cpu.spin", cpu=True, timeout=0.5, max_attempts=1)
def spin() -> None:
    while True:
        pass


@activity("cpu.raise", cpu=True, max_attempts=1)
def raise_as_told(how: str) -> None:
    match how:
        case "retry":
            raise Retry("again", after=30)
        case "final":
            raise NonRetryable("never")
        case "snooze":
            raise Snooze(30)
        case _:
            raise LookupError("ordinary")


@activity("cpu.die", cpu=True, max_attempts=1)
def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
