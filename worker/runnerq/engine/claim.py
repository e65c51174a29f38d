"""Claimer: keeps the free slots fed, in batches.

Woken by the backend when there may be work; polls all the same, more rarely the longer nothing comes
(with jitter, so that idle engines do not poll in step). Never claims more than there are free slots,
never while the engine is cordoned, stopping, cut off, or behind with its acknowledgements.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from typing import TYPE_CHECKING

from runnerq.engine.service import Service
from runnerq.errors import BackendUnavailable
from runnerq.storage.records import ClaimRequest

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from runnerq.engine.config import EngineConfig
    from runnerq.engine.gate import Gate
    from runnerq.engine.slots import Slots
    from runnerq.metrics import MetricsSink
    from runnerq.storage.ports import QueueStorage
    from runnerq.storage.records import Claim

log = logging.getLogger(__name__)

GATHER = 0.002
"""Seconds to let more slots become free before a small claim, when most are busy."""


class Claimer(Service):
    def __init__(
        self,
        *,
        storage: QueueStorage,
        config: EngineConfig,
        engine_id: UUID,
        types: tuple[str, ...],
        slots: Slots,
        gate: Gate,
        metrics: MetricsSink,
        on_claimed: Callable[[list[Claim]], None],
    ) -> None:
        super().__init__("claimer")
        self._storage = storage
        self._config = config
        self._engine_id = engine_id
        self._types = types
        self._slots = slots
        self._gate = gate
        self._metrics = metrics
        self._on_claimed = on_claimed
        self._labels = {"queue": config.queue_name}
        self._in_flight = asyncio.Lock()

    async def run(self) -> None:
        config = self._config
        signal = self._storage.work_signal(config.queue_name)
        pause = config.shortest_poll
        while True:
            await self._gate.wait_open()
            await self._slots.wait_free()
            if self._slots.free < self._slots.count // 4 and self._slots.free < config.claim_batch:
                await asyncio.sleep(GATHER)
            seen = signal.version()
            try:
                claims = await self._claim()
            except BackendUnavailable as error:
                log.warning("claiming from %s: %s", config.queue_name, error)
                await asyncio.sleep(pause)
                pause = min(pause * 2, config.longest_poll)
                continue
            if claims:
                pause = config.shortest_poll
            else:
                jittered = pause * random.uniform(0.7, 1.3)  # noqa: S311 - spreading load, not a secret
                if await signal.wait(seen, jittered) == seen:
                    pause = min(pause * 2, config.longest_poll)
                else:
                    pause = config.shortest_poll

    async def settled(self) -> None:
        """Until no claim is under way; what it brought has been delivered then."""
        async with self._in_flight:
            return

    async def _claim(self) -> list[Claim]:
        # Shielded: a claim that the backend has granted must not be dropped when this loop is stopped.
        return await asyncio.shield(asyncio.ensure_future(self._claim_and_deliver()))

    async def _claim_and_deliver(self) -> list[Claim]:
        async with self._in_flight:
            if not self._gate.is_open:
                return []
            config = self._config
            request = ClaimRequest(
                queue=config.queue_name,
                engine_id=self._engine_id,
                types=self._types,
                limit=min(self._slots.free, config.claim_batch),
                lease_floor_ms=round(config.lease_floor * 1000),
                lease_margin_ms=round(config.lease_margin * 1000),
                ageing_ms=None if config.ageing is None else round(config.ageing * 1000),
            )
            if request.limit < 1:
                return []
            started = time.perf_counter()
            try:
                claims = await self._storage.claim(request)
            except BackendUnavailable:
                self._metrics.inc_counter(
                    "runnerq_fetches_total", 1, {**self._labels, "outcome": "error"}
                )
                raise
            self._metrics.observe_duration(
                "runnerq_fetch_duration_seconds", time.perf_counter() - started, self._labels
            )
            outcome = "hit" if claims else "empty"
            self._metrics.inc_counter(
                "runnerq_fetches_total", 1, {**self._labels, "outcome": outcome}
            )
            if claims:
                self._metrics.observe_size("runnerq_fetch_batch_size", len(claims), self._labels)
                self._slots.deliver(claims)
                self._on_claimed(claims)
            return claims
