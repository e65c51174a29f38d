"""One key, one activity: the second enqueue gets the first one's future.

Output:
    created existing
    same activity: True
    refused: idempotency_key: 'order-42' of type 'charge' is held
"""

from __future__ import annotations

import asyncio

from runnerq import ActivityExecutor, DuplicateActivity, activity, open_backend


@activity("charge")
async def charge(order: str) -> None: ...


async def main() -> None:
    executor = ActivityExecutor(open_backend("memory://"))
    builder = charge.payload("42").idempotency_key("order-42", behavior="return_existing")
    first = await builder.on(executor).execute()
    second = await builder.on(executor).execute()
    print(first.status, second.status)
    print("same activity:", first.id == second.id)
    try:
        await builder.idempotency_key("order-42", behavior="no_reuse").on(executor).execute()
    except DuplicateActivity as refusal:
        print("refused:", str(refusal).partition(" by ")[0])


if __name__ == "__main__":
    asyncio.run(main())
