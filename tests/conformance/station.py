"""A queue with an engine at it, and the verbs in which the conformance tests speak."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

from runnerq.ids import IdSource
from runnerq.storage.records import (
    Acknowledged,
    Acknowledgement,
    ActivityResult,
    ActivitySnapshot,
    ActivitySpec,
    ActivityState,
    Claim,
    ClaimRef,
    ClaimRequest,
    EngineInfo,
    EngineState,
    Enqueued,
    ErrorInfo,
    ErrorKind,
    Heartbeat,
    HeartbeatReply,
    Idempotency,
    IdempotencyBehavior,
    OutcomeKind,
    Reaped,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.conformance.stores import Store

    from runnerq.storage.ports import Storage

LIVENESS_MS = 15_000
BOOM = ErrorInfo(kind=ErrorKind.HANDLER, type="Boom", message="it broke")


class Station:
    """Made registered: `engine` may claim. Times are seconds."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.backend: Storage = store.backend
        self.queue = store.queue
        self.engine = uuid4()
        self._ids = IdSource()

    def new_id(self) -> UUID:
        return self._ids.next()

    async def register(self, engine: UUID | None = None, **details: Any) -> UUID:
        engine = engine or uuid4()
        info = EngineInfo(
            engine_id=engine, host="host", pid=7, slots=10, types=("work",), **details
        )
        await self.backend.register_engine(self.queue, info)
        return engine

    async def beat(
        self, engine: UUID | None = None, *, state: EngineState = EngineState.RUNNING, busy: int = 0
    ) -> HeartbeatReply:
        beat = Heartbeat(engine_id=engine or self.engine, state=state, busy=busy)
        return await self.backend.heartbeat(self.queue, beat)

    async def advance(self, seconds: float) -> None:
        """Let time pass, with this station's engine alive all the while."""
        await self.store.advance(timedelta(seconds=seconds))
        await self.beat()

    async def silence(self, seconds: float) -> None:
        """Let time pass without a sign of life."""
        await self.store.advance(timedelta(seconds=seconds))

    def spec(
        self,
        activity_type: str = "work",
        *,
        key: str | None = None,
        behavior: IdempotencyBehavior = IdempotencyBehavior.RETURN_EXISTING,
        ttl_ms: int | None = None,
        **fields: Any,
    ) -> ActivitySpec:
        held = None if key is None else Idempotency(key=key, behavior=behavior, ttl_ms=ttl_ms)
        values: dict[str, Any] = {"payload": b"{}", "id": self.new_id(), **fields}
        return ActivitySpec(type=activity_type, idempotency=held, **values)

    async def enqueue(self, activity_type: str = "work", **fields: Any) -> UUID:
        """One activity that must be new."""
        [stored] = await self.enqueue_all(self.spec(activity_type, **fields))
        assert stored.status == "created"
        return stored.id

    async def try_enqueue(self, activity_type: str = "work", **fields: Any) -> Enqueued:
        [stored] = await self.enqueue_all(self.spec(activity_type, **fields))
        return stored

    async def enqueue_all(self, *specs: ActivitySpec) -> list[Enqueued]:
        return await self.backend.enqueue(self.queue, specs)

    async def claim(
        self,
        limit: int = 1,
        *,
        types: Sequence[str] = ("work",),
        engine: UUID | None = None,
        **request: Any,
    ) -> list[Claim]:
        return await self.backend.claim(
            ClaimRequest(
                queue=self.queue,
                engine_id=engine or self.engine,
                types=tuple(types),
                limit=limit,
                **request,
            )
        )

    async def claim_one(self, **request: Any) -> Claim:
        [claim] = await self.claim(1, **request)
        return claim

    async def acknowledge(self, *acks: Acknowledgement) -> list[Acknowledged]:
        return await self.backend.acknowledge(self.queue, acks)

    async def end(
        self, claim: Claim, kind: OutcomeKind = OutcomeKind.COMPLETED, **fields: Any
    ) -> Acknowledged:
        [answer] = await self.acknowledge(outcome(claim, kind, **fields))
        return answer

    async def retry(self, claim: Claim, *, delay: float = 0, **fields: Any) -> Acknowledged:
        return await self.end(claim, OutcomeKind.RETRIED, delay_ms=round(delay * 1000), **fields)

    async def fail_until_dead(self, activity_id: UUID, activity_type: str = "work") -> None:
        """Retry without delay until the dead letter has it."""
        while (await self.state(activity_id)) is not ActivityState.DEAD_LETTER:
            await self.retry(await self.claim_one(types=(activity_type,)))

    async def reap(self, limit: int = 100, *, liveness_ms: int = LIVENESS_MS) -> list[Reaped]:
        return await self.backend.reap(self.queue, limit=limit, liveness_ms=liveness_ms)

    async def steal(self, claim: Claim) -> Claim:
        """Let the claim's owner fall silent, take its work back, and give it to a second engine."""
        await self.silence(LIVENESS_MS / 1000)
        assert claim.id in [reaped.id for reaped in await self.reap()]
        rescuer = await self.register()
        return await self.claim_one(types=(claim.type,), engine=rescuer)

    async def held(self, claim: Claim) -> bool:
        [answer] = await self.backend.still_held(self.queue, [ref(claim)])
        return answer

    async def look(self, activity_id: UUID) -> ActivitySnapshot:
        return await self.backend.get_activity(self.queue, activity_id)

    async def state(self, activity_id: UUID) -> ActivityState:
        return (await self.look(activity_id)).status

    async def result(self, activity_id: UUID) -> ActivityResult | None:
        return await self.backend.get_result(self.queue, activity_id)


def ref(claim: Claim) -> ClaimRef:
    return ClaimRef(claim.id, claim.token)


def outcome(
    claim: Claim, kind: OutcomeKind = OutcomeKind.COMPLETED, **fields: Any
) -> Acknowledgement:
    """An acknowledgement as an engine would make it."""
    filled: dict[str, Any] = {}
    match kind:
        case OutcomeKind.COMPLETED:
            filled = {"result": b'"done"'}
        case OutcomeKind.FAILED | OutcomeKind.RETRIED:
            filled = {"error": BOOM}
        case _:
            pass
    return Acknowledgement(id=claim.id, token=claim.token, kind=kind, **{**filled, **fields})
