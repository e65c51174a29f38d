"""A desk at which a test enqueues, claims and acknowledges on one backend, with little ceremony."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import msgspec

from runnerq.ids import IdSource
from runnerq.storage.records import (
    Acknowledged,
    Acknowledgement,
    ActivitySpec,
    Claim,
    ClaimRequest,
    EngineInfo,
    Enqueued,
    OutcomeKind,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from uuid import UUID

    from runnerq.storage.ports import Storage

QUEUE = "desk"
TYPE = "work"
WITHIN = 20.0
"""Seconds for a condition to come true: far more than it takes on a busy machine."""

_ids = IdSource()


def new_spec(**fields: Any) -> ActivitySpec:
    plain = ActivitySpec(id=_ids.next(), type=TYPE, payload=b"{}")
    return msgspec.structs.replace(plain, **fields)


class Desk:
    def __init__(self, backend: Storage) -> None:
        self.backend = backend
        self.engine_id = uuid4()

    async def register(self) -> None:
        info = EngineInfo(engine_id=self.engine_id, host="desk", pid=1, slots=10, types=(TYPE,))
        await self.backend.register_engine(QUEUE, info)

    async def enqueue(self, *specs: ActivitySpec) -> list[Enqueued]:
        return await self.backend.enqueue(QUEUE, specs or (new_spec(),))

    async def claim(self, limit: int = 10) -> list[Claim]:
        return await self.backend.claim(
            ClaimRequest(queue=QUEUE, engine_id=self.engine_id, types=(TYPE,), limit=limit)
        )

    async def claim_one(self) -> Claim:
        [claim] = await self.claim(1)
        return claim

    async def complete(self, *claims: Claim) -> list[Acknowledged]:
        return await self.backend.acknowledge(
            QUEUE,
            [
                Acknowledgement(
                    id=claim.id, token=claim.token, kind=OutcomeKind.COMPLETED, result=b"null"
                )
                for claim in claims
            ],
        )


async def eventually(condition: Callable[[], Awaitable[bool]], within: float = WITHIN) -> None:
    """Until the condition holds. Fails after `within` seconds."""
    deadline = time.monotonic() + within
    while not await condition():
        assert time.monotonic() < deadline, f"not within {within} s: {condition}"
        await asyncio.sleep(0.02)


async def ended(backend: Storage, activity_id: UUID) -> bool:
    return await backend.get_result(QUEUE, activity_id) is not None
