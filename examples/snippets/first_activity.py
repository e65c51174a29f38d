"""Declare an activity, enqueue it, await its result; engine and app in one process.

Output:
    Receipt(sent_to='ada@example.org', attempt=1)
"""

from __future__ import annotations

import asyncio

import msgspec

from runnerq import ActivityContext, WorkerEngine, activity, open_backend


class Email(msgspec.Struct):
    to: str


class Receipt(msgspec.Struct):
    sent_to: str
    attempt: int


@activity("send_email", timeout=30, max_attempts=5)
async def send_email(email: Email, ctx: ActivityContext) -> Receipt:
    return Receipt(sent_to=email.to, attempt=ctx.attempt)


async def main() -> None:
    engine = WorkerEngine(open_backend("memory://"), activities=[send_email])
    await engine.start()
    executor = engine.get_activity_executor()
    future = await send_email.payload(Email(to="ada@example.org")).on(executor).execute()
    print(await future)
    await engine.stop()


if __name__ == "__main__":
    asyncio.run(main())
