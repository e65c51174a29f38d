"""Completer: stores how attempts ended, many in one statement.

What cannot be stored because the backend does not answer is kept and tried again, in order, and the
gate is closed meanwhile so that the pile cannot grow. Repeating an acknowledgement is harmless: the
backend recognises the attempt by its token.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING

import msgspec

from runnerq.engine.gate import Closed
from runnerq.engine.service import Service
from runnerq.errors import BackendUnavailable, SchemaMismatch, StorageError
from runnerq.failure import describe
from runnerq.storage.records import ErrorKind, OutcomeKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from runnerq.engine.attempt import Attempt
    from runnerq.engine.gate import Gate
    from runnerq.metrics import MetricsSink
    from runnerq.storage.ports import QueueStorage
    from runnerq.storage.records import Acknowledged, Acknowledgement

    _Ended = tuple[Attempt, Acknowledgement]
    Stored = Callable[[list[tuple[Attempt, Acknowledgement, Acknowledged]]], None]

log = logging.getLogger(__name__)

LARGEST_BATCH = 500
LARGEST_BATCH_BYTES = 16 * 1024 * 1024
"""Of results, reached with the last outcome of a batch."""
LINGER = 0.002
"""Seconds to wait for company before a small batch, while other handlers run."""
SMALL = 50
MOST_UNSTORED = 4 * LARGEST_BATCH
"""Outcomes from which on the gate is closed: handlers are faster than the backend takes their ends."""
DOUBTS = 5
"""How often an outcome is tried again after an error that no backend should raise."""
FIRST_PAUSE = 0.05
LONGEST_PAUSE = 2.0


class Completer:
    """`flushers` loops share one pile, so that one statement is prepared while another commits."""

    def __init__(
        self,
        *,
        storage: QueueStorage,
        queue: str,
        gate: Gate,
        metrics: MetricsSink,
        busy: Callable[[], int],
        on_stored: Stored,
        flushers: int = 2,
    ) -> None:
        self._storage = storage
        self._queue = queue
        self._gate = gate
        self._metrics = metrics
        self._busy = busy
        self._on_stored = on_stored
        self._pile: deque[_Ended] = deque()
        self._arrived = asyncio.Event()
        self._in_flight: list[list[_Ended]] = [[] for _ in range(flushers)]
        self._empty = asyncio.Event()
        self._empty.set()
        self._failing: set[int] = set()
        self._loops = [_Flusher(self, number) for number in range(flushers)]

    @property
    def unstored(self) -> int:
        """Outcomes that the backend has not confirmed yet."""
        return len(self._pile) + sum(len(batch) for batch in self._in_flight)

    def add(self, attempt: Attempt, acknowledgement: Acknowledgement) -> None:
        self._pile.append((attempt, acknowledgement))
        self._empty.clear()
        self._arrived.set()
        if len(self._pile) >= MOST_UNSTORED:
            self._set_gate()

    def start(self) -> None:
        for loop in self._loops:
            loop.start()

    async def flush(self) -> None:
        """Until everything added so far is stored."""
        await self._empty.wait()

    async def stop(self) -> None:
        for loop in self._loops:
            await loop.stop()

    async def flush_next(self, flusher: int) -> None:
        """Take what is there and store it, however long that takes."""
        batch = self._in_flight[flusher]
        if not batch:
            await self._take(batch)
        together = True
        doubts = 0
        pause = FIRST_PAUSE
        while batch:
            part = list(batch) if together else batch[:1]
            try:
                answers = await self._storage.acknowledge(self._queue, [item for _, item in part])
            except (BackendUnavailable, SchemaMismatch) as error:
                log.warning("%s: %d outcomes are kept: %s", self._queue, len(batch), error)
                self._failing.add(flusher)
                self._set_gate()
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)
                continue
            except Exception as error:  # noqa: BLE001 - whatever a backend raises, it will not take this
                answers = None
                if together and len(batch) > 1:
                    together = False  # one outcome the backend refuses must not hold up the others
                elif not isinstance(error, StorageError) and doubts < DOUBTS:
                    doubts += 1  # no refusal but a fault, which may not come again
                    await asyncio.sleep(pause)
                else:
                    self._refused(batch, error)
                    doubts = 0
            else:
                del batch[: len(part)]
                doubts = 0
            self._failing.discard(flusher)
            self._set_gate()
            if self.unstored == 0:
                self._empty.set()
            if answers is not None:
                self._stored(part, answers)

    async def _take(self, batch: list[_Ended]) -> None:
        while not self._pile:
            self._arrived.clear()
            await self._arrived.wait()
        if len(self._pile) < SMALL and self._busy() > 0:
            await asyncio.sleep(LINGER)
        size = 0
        while self._pile and len(batch) < LARGEST_BATCH and size < LARGEST_BATCH_BYTES:
            ended = self._pile.popleft()
            batch.append(ended)
            size += len(ended[1].result or b"")

    def _stored(self, part: list[_Ended], answers: list[Acknowledged]) -> None:
        self._metrics.observe_size(
            "runnerq_acknowledge_batch_size", len(part), {"queue": self._queue}
        )
        self._on_stored(
            [(attempt, item, answer) for (attempt, item), answer in zip(part, answers, strict=True)]
        )

    def _refused(self, batch: list[_Ended], error: Exception) -> None:
        """The backend will not store this outcome as it is: the attempt fails with that reason. If
        even this is refused, the claim runs out and the reaper decides."""
        attempt, outcome = batch.pop(0)
        log.error(
            "activity %s: its outcome is refused by the backend",
            outcome.id,
            exc_info=None if isinstance(error, StorageError) else error,
        )
        if outcome.error is None or outcome.error.kind is not ErrorKind.RESULT:
            failed = msgspec.structs.replace(
                outcome,
                kind=OutcomeKind.FAILED,
                result=None,
                error=describe(error, ErrorKind.RESULT),
                delay_ms=0,
            )
            batch.insert(0, (attempt, failed))

    def _set_gate(self) -> None:
        behind = len(self._pile) >= MOST_UNSTORED
        self._gate.set(Closed.UNFLUSHED, closed=behind or bool(self._failing))


class _Flusher(Service):
    def __init__(self, completer: Completer, number: int) -> None:
        super().__init__(f"completer-{number}")
        self._completer = completer
        self._number = number

    async def run(self) -> None:
        while True:
            await self._completer.flush_next(self._number)
