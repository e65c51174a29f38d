"""Leases: what an engine does so that it never works on a claim that is no longer its own.

- Every heartbeat interval, and after every silence, it asks which long-held claims are still current
  and interrupts those that are not.
- Cut off from the backend for nearly the liveness time, it gives up all its claims: by then others may
  take them.
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
    from collections.abc import Callable

    from runnerq.engine.account import Account
    from runnerq.engine.config import EngineConfig
    from runnerq.engine.gate import Gate
    from runnerq.engine.slots import Slots
    from runnerq.storage.ports import QueueStorage
    from runnerq.storage.records import Claim, HeartbeatReply

log = logging.getLogger(__name__)

GIVE_UP = 0.8
"""Of the liveness time, after which an engine without an answer gives up its claims."""


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
        on_forgotten: Callable[[], None],
    ) -> None:
        super().__init__("leases")
        self._storage = storage
        self._config = config
        self._slots = slots
        self._gate = gate
        self._account = account
        self._on_forgotten = on_forgotten
        self._check = asyncio.Event()

    async def run(self) -> None:
        while True:
            await self._check.wait()
            self._check.clear()
            try:
                await self._revalidate()
            except BackendUnavailable as error:
                log.warning("revalidating claims: %s", error)

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

    def heartbeat_answered(self, reply: HeartbeatReply, *, silent_for: float) -> None:
        self._gate.set(Closed.CORDONED, closed=reply.cordoned)
        if not reply.known:
            log.error("the backend no longer knows this engine; its claims are given up")
            self._lose(self._slots.held, "engine_forgotten")
            self._on_forgotten()
        self._gate.set(Closed.CUT_OFF, closed=False)
        self._check.set()

    def heartbeat_failed(self, error: str, *, silent_for: float) -> None:
        log.warning("heartbeat failed, %.1f s since the last answer: %s", silent_for, error)
        if silent_for >= self._config.liveness_timeout * GIVE_UP:
            self._gate.set(Closed.CUT_OFF, closed=True)
            self._lose(self._slots.held, "cut_off")

    async def _revalidate(self) -> None:
        since = time.monotonic() - self._config.heartbeat_interval
        attempts = [attempt for attempt in self._slots.held if attempt.received < since]
        if not attempts:
            return
        refs = [ClaimRef(attempt.claim.id, attempt.claim.token) for attempt in attempts]
        held = await self._storage.still_held(self._config.queue_name, refs)
        lost = [attempt for attempt, still in zip(attempts, held, strict=True) if not still]
        self._lose(lost, "taken_over")

    def _lose(self, attempts: list[Attempt] | tuple[Attempt, ...], reason: str) -> None:
        still = set(self._slots.held)
        lost = [item for item in attempts if item in still and item.cause is None]
        if not lost:
            return
        log.warning("%d claims are lost (%s); their handlers are cancelled", len(lost), reason)
        self._account.lost(len(lost), reason)
        self._slots.interrupt(Cause.CLAIM_LOST, lost)
