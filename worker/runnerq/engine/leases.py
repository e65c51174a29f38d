"""Leases: what an engine does so that it never works on a claim that is no longer its own.

- With every heartbeat that is answered it asks which long-held claims are still current, and
  interrupts those that are not.
- Without an answer for nearly the liveness time, or forgotten by the backend, it hands all its claims
  back: by then others may take them.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from runnerq.durations import Duration, milliseconds
from runnerq.engine.attempt import Attempt, Cause
from runnerq.engine.gate import Closed
from runnerq.engine.service import Service
from runnerq.errors import BackendUnavailable, ClaimLost
from runnerq.storage.records import ClaimRef

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from runnerq.engine.account import Account
    from runnerq.engine.config import EngineConfig
    from runnerq.engine.gate import Gate
    from runnerq.engine.slots import Slots
    from runnerq.storage.ports import QueueStorage
    from runnerq.storage.records import Claim, HeartbeatReply

log = logging.getLogger(__name__)

GIVE_UP = 0.8
"""Of the liveness time, after which an engine without an answer gives up its claims."""

LOOKS = 50
"""How often within the liveness time the silence is looked at."""


class Leases(Service):
    """Listens to the heartbeat and keeps claims honest. Also extends them on a handler's behalf."""

    def __init__(
        self,
        *,
        storage: QueueStorage,
        config: EngineConfig,
        slots: Slots,
        gate: Gate,
        account: Account,
        register: Callable[[], Awaitable[None]],
    ) -> None:
        super().__init__("leases")
        self._storage = storage
        self._config = config
        self._slots = slots
        self._gate = gate
        self._account = account
        self._register = register
        self._check = asyncio.Event()
        self._forgotten = False

    async def run(self) -> None:
        while True:
            await self._check.wait()
            self._check.clear()
            try:
                if self._forgotten:
                    await self._register()
                    self._forgotten = False
                await self._revalidate()
            except BackendUnavailable as error:
                log.warning("revalidating claims, tried again with the next heartbeat: %s", error)

    async def extend(self, claim: Claim, by: Duration) -> None:
        """Raises ClaimLost."""
        by_ms = milliseconds(by, field="by", at_least_ms=1) + round(
            self._config.lease_margin * 1000
        )
        [held] = await self._storage.extend_lease(
            claim.queue, [ClaimRef(claim.id, claim.token)], by_ms
        )
        if not held:
            raise ClaimLost(claim.id)

    def heartbeat_answered(self, reply: HeartbeatReply) -> None:
        self._gate.set(Closed.CORDONED, closed=reply.cordoned)
        if not reply.known:
            log.error("the backend no longer knows this engine; its claims are handed back")
            self._account.beat_failed("unknown_engine")
            self._forgotten = True
            self._interrupt(Cause.CUT_OFF, self._slots.held, "engine_forgotten")
        self._gate.set(Closed.CUT_OFF, closed=False)
        self._check.set()

    def heartbeat_failed(self, error: str) -> None:
        log.warning("heartbeat failed: %s", error)
        self._account.beat_failed("no_answer")

    def silent(self, seconds: float) -> None:
        """The backend has not answered a heartbeat for so long; called again and again."""
        if seconds >= self._config.liveness_timeout * GIVE_UP:
            self._gate.set(Closed.CUT_OFF, closed=True)
            self._interrupt(Cause.CUT_OFF, self._slots.held, "cut_off")

    async def _revalidate(self) -> None:
        since = time.monotonic() - self._config.heartbeat_interval
        attempts = [attempt for attempt in self._slots.held if attempt.received < since]
        if not attempts:
            return
        refs = [ClaimRef(attempt.claim.id, attempt.claim.token) for attempt in attempts]
        held = await self._storage.still_held(self._config.queue_name, refs)
        lost = [attempt for attempt, still in zip(attempts, held, strict=True) if not still]
        self._interrupt(Cause.CLAIM_LOST, lost, "taken_over")

    def _interrupt(self, cause: Cause, attempts: Sequence[Attempt], reason: str) -> None:
        fresh = [attempt for attempt in attempts if attempt.cause is None]
        if not fresh:
            return
        log.warning("%d claims are lost (%s); their handlers are cancelled", len(fresh), reason)
        self._account.lost(len(fresh), reason)
        self._slots.interrupt(cause, fresh)


class SilenceWatch(Service):
    """Looks at the silence of the backend from the loop: the heartbeat's own thread may be stuck in a
    call that never returns, and then reports nothing."""

    def __init__(
        self, *, leases: Leases, silent_for: Callable[[], float], liveness_timeout: float
    ) -> None:
        super().__init__("silence-watch")
        self._leases = leases
        self._silent_for = silent_for
        self._every = liveness_timeout / LOOKS

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._every)
            self._leases.silent(self._silent_for())
