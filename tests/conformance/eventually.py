"""Waiting for a condition with a deadline, the only way in which these tests wait."""

from __future__ import annotations

import asyncio
import os
import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")

POLL_SECONDS = 0.01
WITHIN = float(os.environ.get("RUNNERQ_TEST_WITHIN", "40"))
"""Seconds that everything here stays far below, and that a machine busy with other tests may need."""


async def eventually(
    condition: Callable[[], Awaitable[T]] | Callable[[], T], *, within: float = WITHIN
) -> T:
    """The first truthy answer of `condition`. Fails the test after `within` seconds."""
    deadline = time.monotonic() + within
    while True:
        answer = condition()
        if asyncio.iscoroutine(answer):
            answer = await answer
        if answer:
            return answer  # pyright: ignore[reportReturnType]
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within:g} s: {condition!r} is still {answer!r}")
        await asyncio.sleep(POLL_SECONDS)
