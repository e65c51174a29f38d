"""CPU-bound activities, importable by the processes that run them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from datetime import timedelta
from typing import Any

from runnerq import NonRetryable, Retry, RetryPolicy, Snooze, activity

LATER = RetryPolicy(base=timedelta(seconds=30), non_retryable=(LookupError,))


class Unprintable(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


@activity("cpu.square", cpu=True)
def square(value: int) -> int:
    return value * value


@activity("cpu.pid", cpu=True)
def pid() -> int:
    return os.getpid()


@activity("cpu.end", cpu=True, retry=LATER)
def end(how: str) -> Any:
    """End in the way that is asked for."""
    match how:
        case "value":
            raise ValueError("from the process")
        case "lookup":
            raise KeyError("final")
        case "non_retryable":
            raise NonRetryable("never")
        case "retry":
            raise Retry(after=60)
        case "snooze":
            raise Snooze(60)
        case "system_exit":
            sys.exit(3)
        case "interrupt":
            raise KeyboardInterrupt
        case "unprintable":
            raise Unprintable
        case "nan":
            return float("nan")
        case "killed":
            os.kill(os.getpid(), 9)
        case "exits":
            os._exit(7)
        case _:
            pass
    return how


@activity("cpu.spin", cpu=True, retry=LATER)
def spin(path: str) -> None:
    """Tell the process id, then compute for ever."""
    with open(path, "w") as file:  # noqa: PTH123 - as plain as an activity of an app
        file.write(str(os.getpid()))
    while True:
        time.sleep(0.01)


@activity("cpu.noise", cpu=True)
def noise(lines: int) -> list[str]:
    """Print, write and read where the frames to the engine might be."""
    for number in range(lines):
        print("x" * 100, number)
    sys.stdout.buffer.write(b"\x00\x00\x00\x05hello")
    sys.stdout.flush()
    os.write(1, b"\xff" * 100)
    subprocess.run(["echo", "from a process of the activity"], check=True)
    return [sys.stdin.read(), str(os.read(0, 10))]


@activity("cpu.large", cpu=True)
def large(text: str) -> str:
    return text
