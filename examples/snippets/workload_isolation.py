"""Two engines on one queue, each claiming only its types.

Output:
    light ran: send_email send_sms
    heavy ran: render_video
"""

from __future__ import annotations

import asyncio

from runnerq import ActivityContext, ActivityExecutor, WorkerEngine, open_backend

ran: dict[str, list[str]] = {"light": [], "heavy": []}


def register(engine: WorkerEngine, name: str) -> None:
    """The same handlers in both engines, as one app in two processes would have; each notes its runs."""

    async def handle(payload: object, ctx: ActivityContext) -> None:
        ran[name].append(ctx.activity_type)

    for activity_type in ("send_email", "send_sms", "render_video"):
        engine.register_activity(activity_type, handle)


async def main() -> None:
    backend = open_backend("memory://")
    light = WorkerEngine(backend, activity_types=["send_*"])
    heavy = WorkerEngine(backend, activity_types=["render_video"])
    register(light, "light")
    register(heavy, "heavy")
    executor = ActivityExecutor(backend)
    types = ("send_email", "render_video", "send_sms")
    futures = await executor.execute_many([executor.activity(name) for name in types])
    await light.start()
    await heavy.start()
    await asyncio.gather(*(future.get_result(timeout=10) for future in futures))
    for name in ("light", "heavy"):
        print(f"{name} ran:", *sorted(ran[name]))
    await light.stop()
    await heavy.stop()


if __name__ == "__main__":
    asyncio.run(main())
