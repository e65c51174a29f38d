"""A handler that fails until its attempts are used up, and the callback that hears of it.

Output:
    attempt 1
    attempt 2
    dead letter: the mail server is down
    the future says: used up its attempts: ConnectionError: the mail server is down
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from runnerq import (
    ActivityContext,
    ActivityFailed,
    RetryPolicy,
    WorkerEngine,
    activity,
    open_backend,
)
from runnerq.storage.records import ErrorInfo


async def tell_somebody(payload: Any, ctx: ActivityContext, error: ErrorInfo) -> None:
    print(f"dead letter: {error.message}")


@activity(
    "send_email",
    max_attempts=2,
    retry=RetryPolicy(base=timedelta(milliseconds=10)),
    on_dead_letter=tell_somebody,
)
async def send_email(address: str, ctx: ActivityContext) -> None:
    print(f"attempt {ctx.attempt}")
    raise ConnectionError("the mail server is down")


async def main() -> None:
    engine = WorkerEngine(open_backend("memory://"), activities=[send_email])
    await engine.start()
    executor = engine.get_activity_executor()
    future = await send_email.payload("ada@example.org").on(executor).execute()
    try:
        await future
    except ActivityFailed as failure:
        ending = str(failure).partition(": ")[2]
        await engine.stop()  # lets the callback end first
        print(f"the future says: {ending}")


if __name__ == "__main__":
    asyncio.run(main())
