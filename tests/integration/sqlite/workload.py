"""A process that uses a file: enqueues, or works on what is there, and says each id once it is stored.

python -m tests.integration.sqlite.workload PATH enqueue|work COUNT
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from uuid import uuid4

from runnerq.ids import IdSource
from runnerq.storage.records import (
    Acknowledgement,
    ActivitySpec,
    ClaimRequest,
    EngineInfo,
    OutcomeKind,
)
from runnerq.storage.sqlite import SqliteBackend

QUEUE = "q"


def say(what: object) -> None:
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


async def enqueue(backend: SqliteBackend, count: int) -> None:
    ids = IdSource()
    for _ in range(count):
        spec = ActivitySpec(id=ids.next(), type="work", payload=b"{}")
        await backend.enqueue(QUEUE, [spec])
        say(spec.id)


async def work(backend: SqliteBackend) -> None:
    engine = uuid4()
    info = EngineInfo(engine_id=engine, host="h", pid=1, slots=1, types=("work",))
    await backend.register_engine(QUEUE, info)
    request = ClaimRequest(queue=QUEUE, engine_id=engine, types=("work",), limit=7)
    while claims := await backend.claim(request):
        acks = [
            Acknowledgement(id=one.id, token=one.token, kind=OutcomeKind.COMPLETED, result=b"1")
            for one in claims
        ]
        for answer in await backend.acknowledge(QUEUE, acks):
            if answer.status != "accepted":
                raise SystemExit(f"{answer} was refused")
            say(answer.id)


async def main(path: str, what: str, count: str = "0") -> None:
    backend = SqliteBackend(Path(path))
    await backend.open()
    await (enqueue(backend, int(count)) if what == "enqueue" else work(backend))
    await backend.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
