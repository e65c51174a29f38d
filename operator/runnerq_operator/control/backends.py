"""Backends as the loop uses them: opened once per address, migrated first, read once per tick for all.

Several queues with one address share one backend object and one read of the demand. A read that failed
is a failure for everybody who would have shared it; it is never turned into an empty demand.

    new --migrate, open--> open --close--> closed     what failed is tried again at the next read
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import Counter
from collections.abc import Callable
from datetime import datetime

import msgspec

from runnerq.errors import BackendUnavailable, ConfigurationError, RunnerQError, SchemaMismatch
from runnerq.storage.ports import Storage
from runnerq.storage.records import QueueDemand
from runnerq_operator.control.desired import BackendAddress

logger = logging.getLogger(__name__)

_READ_SECONDS = 10.0
_MIGRATE_SECONDS = 300.0
_HORIZON_SECONDS = 15.0
_LONGEST_HORIZON_SECONDS = 300.0

Opener = Callable[[BackendAddress], Storage]
"""Makes the backend of an address without connecting. Raises ConfigurationError for a bad URL."""


class DemandRead(msgspec.Struct, frozen=True, kw_only=True):
    """One read of a queue's demand, or why there is none."""

    number: int
    """Different for every read that was made; the same for those who shared it."""
    demand: QueueDemand | None = None
    reason: str = ""
    """When there is no demand: a reason of the conditions BackendReachable or SchemaCompatible."""
    message: str = ""

    @property
    def as_of(self) -> datetime | None:
        return self.demand.as_of if self.demand else None


class _Shared(msgspec.Struct, frozen=True):
    """What one read found, for all queues of the backend."""

    number: int
    at: float
    demands: dict[str, QueueDemand] | None
    reason: str
    message: str


class BackendLink:
    """One backend: opened on first use, read for all its queues at once."""

    def __init__(self, storage: Storage, clock: Callable[[], float], numbers: Callable[[], int]):
        self.storage = storage
        self._clock = clock
        self._numbers = numbers
        self._queues: Counter[str] = Counter()
        self._horizons: dict[str, float] = {}
        self._reading = asyncio.Lock()
        self._last: _Shared | None = None
        self.ready = False
        """Migrated and open. Stays true when the backend is away for a while."""

    def join(self, queue: str) -> None:
        self._queues[queue] += 1

    def leave(self, queue: str) -> bool:
        """Whether that was the last queue of the backend."""
        self._queues[queue] -= 1
        if self._queues[queue] <= 0:
            del self._queues[queue]
            self._horizons.pop(queue, None)
        return not self._queues

    def look_ahead(self, queue: str, seconds: float) -> None:
        """How far ahead of its due time work of this queue wants to be known."""
        self._horizons[queue] = min(seconds, _LONGEST_HORIZON_SECONDS)

    async def read(self, queue: str, *, max_age: float) -> DemandRead:
        """The demand, not older than `max_age` seconds; 0 = from now on."""
        wanted_after = self._clock() - max_age
        async with self._reading:
            shared = self._last
            if shared is None or shared.at < wanted_after or not _answers(shared, queue):
                shared = self._last = await self._read_all()
        if shared.demands is None:
            return DemandRead(number=shared.number, reason=shared.reason, message=shared.message)
        return DemandRead(number=shared.number, demand=shared.demands[queue])

    async def close(self) -> None:
        self.ready = False
        await self.storage.close()

    async def _read_all(self) -> _Shared:
        number, started = self._numbers(), self._clock()
        queues = sorted(self._queues)
        horizon = max(self._horizons.values(), default=_HORIZON_SECONDS)
        try:
            await self._make_ready()
            async with asyncio.timeout(_READ_SECONDS):
                answers = await self.storage.demand(queues, horizon_ms=int(horizon * 1000))
        except SchemaMismatch as error:
            return _Shared(number, started, None, "Mismatch", str(error))
        except TimeoutError:
            message = f"no answer within {_READ_SECONDS:.0f} s"
            return _Shared(number, started, None, "NoAnswer", message)
        except (RunnerQError, OSError) as error:
            return _Shared(number, started, None, "NoAnswer", str(error))
        return _Shared(number, started, {one.queue: one for one in answers}, "", "")

    async def _make_ready(self) -> None:
        if self.ready:
            return
        try:
            async with asyncio.timeout(_MIGRATE_SECONDS):
                steps = await self.storage.migrate()
        except TimeoutError as error:
            raise BackendUnavailable(
                f"the schema could not be brought up to date within {_MIGRATE_SECONDS:.0f} s"
            ) from error
        if steps:
            logger.info("brought the schema up to date: %s", ", ".join(steps))
        async with asyncio.timeout(_READ_SECONDS):
            await self.storage.open()
        self.ready = True


class BackendHub:
    """The links of all addresses in use. Who joins must leave."""

    def __init__(self, opener: Opener, clock: Callable[[], float]) -> None:
        self._opener = opener
        self._clock = clock
        self._counter = itertools.count(1)
        self._links: dict[tuple[str, str], BackendLink] = {}

    def join(self, address: BackendAddress, queue: str) -> BackendLink:
        """The link for this queue. Raises ConfigurationError for an address that cannot be used."""
        key = (address.url, address.schema)
        link = self._links.get(key)
        if link is None:
            try:
                storage = self._opener(address)
            except ConfigurationError:
                raise
            except ValueError as error:
                raise ConfigurationError(str(error), field="url") from error
            link = self._links[key] = BackendLink(storage, self._clock, lambda: next(self._counter))
        link.join(queue)
        return link

    async def leave(self, address: BackendAddress, queue: str) -> None:
        """Close the link if nobody else uses it."""
        key = (address.url, address.schema)
        link = self._links.get(key)
        if link is not None and link.leave(queue):
            del self._links[key]
            await link.close()

    async def close(self) -> None:
        links, self._links = list(self._links.values()), {}
        for link in links:
            await link.close()


def _answers(shared: _Shared, queue: str) -> bool:
    """Whether the read was also for this queue; one that joined later has to read again."""
    return shared.demands is None or queue in shared.demands
