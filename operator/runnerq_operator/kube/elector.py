"""Takes, renews and releases the Lease, and runs the leader's work while it is held.

client-go's semantics: nobody takes a lease that changed within 15 s, a leader that could not renew for
10 s stops, both try every 2 s. A connection error never ends the elector; the work is cancelled before
another operator may start it. On stop the lease is released, so that the next one starts within 3 s.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

from runnerq_operator.kube.api import ApiError, Conflict, NotFound, Unreachable
from runnerq_operator.kube.kinds import LEASE
from runnerq_operator.kube.lease import (
    NOTHING_SEEN,
    LeaseRecord,
    LeaseTimes,
    Sighting,
    released,
    taken,
)

if TYPE_CHECKING:
    from runnerq_operator.kube.kinds import Kind
    from runnerq_operator.kube.leadership import Leadership
    from runnerq_operator.kube.objects import Object

logger = logging.getLogger(__name__)

_MANAGER = "runnerq-elector"
_RELEASE_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseName:
    """Which Lease, and who we are in it."""

    namespace: str
    name: str
    identity: str
    """Unique to this process: pod name and a random part, so that a restarted pod is another."""


class LeaseApi(Protocol):
    """What of `KubeApi` the elector needs."""

    async def get(self, kind: Kind, namespace: str, name: str) -> Object: ...

    async def create(self, kind: Kind, namespace: str, body: Object, *, manager: str) -> Object: ...

    async def replace(
        self, kind: Kind, namespace: str, name: str, body: Object, *, manager: str
    ) -> Object: ...


def wall_clock() -> datetime:
    """The time that is written into the Lease for people to read; nothing is decided by it."""
    return datetime.now(UTC)


class Elector:
    """One candidate. `api` must not be gated by the very leadership that is decided here."""

    def __init__(
        self,
        api: LeaseApi,
        name: LeaseName,
        leadership: Leadership,
        *,
        times: LeaseTimes | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        wall: Callable[[], datetime] = wall_clock,
    ) -> None:
        self._api = api
        self._name = name
        self._leadership = leadership
        self._times = times or LeaseTimes()
        self._sleep = sleep
        self._wall = wall
        self._sighting = NOTHING_SEEN
        self._version = ""

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Be a candidate for ever; run `lead` whenever the lease is ours, cancel it when it is not.

        What `lead` raises ends the elector too (the lease is released first).
        """
        try:
            while True:
                await self._acquire()
                logger.info("leading as %s", self._name.identity)
                await self._lead(lead)
                logger.warning("no longer leading: the lease was not renewed or was taken")
        finally:
            held = self._leadership.leading
            self._leadership.end()
            if held:
                # Finishing this matters more than stopping a moment sooner: without it the next
                # leader waits 15 s. It is bounded.
                await asyncio.shield(self._release())

    async def _acquire(self) -> None:
        while not await self._try(self._attempt):
            pause = self._times.retry * random.uniform(1.0, 1.2)  # noqa: S311 - only spreads
            # At the very moment of expiry, not up to a pause after it.
            until_end = self._sighting.ends_at(self._times) - self._leadership.now()
            await self._sleep(min(pause, until_end) if until_end > 0 else pause)

    async def _lead(self, lead: Callable[[], Awaitable[None]]) -> None:
        async with asyncio.TaskGroup() as group:
            work = group.create_task(_endless(lead), name="leader's work")
            group.create_task(self._keep(work), name="lease")

    async def _keep(self, work: asyncio.Task[None]) -> None:
        """Renew until that has failed for too long; then end the work."""
        while self._leadership.leading:
            await self._sleep(min(self._times.retry, self._leadership.seconds_left()))
            if self._leadership.leading:
                # Not a moment beyond the trust: the work must have ended by then.
                await self._try(self._renew, within=self._leadership.seconds_left())
        self._leadership.end()
        work.cancel()

    async def _try(
        self, attempt: Callable[[], Awaitable[bool]], within: float | None = None
    ) -> bool:
        limit = self._times.renew_deadline / 2
        try:
            async with asyncio.timeout(limit if within is None else min(limit, within)):
                return await attempt()
        except Conflict:
            logger.debug("the lease was written by another at the same moment")
        except (ApiError, Unreachable, TimeoutError) as error:
            logger.warning(
                "the lease could not be read or written: %s", error or "no answer in time"
            )
        return False

    async def _attempt(self) -> bool:
        """One try to take the lease: read it, and write it if nobody else's trust is in it."""
        try:
            body = await self._api.get(LEASE, self._name.namespace, self._name.name)
        except NotFound:
            return await self._create()
        sighting = self._remember(body)
        if sighting.held_by_another(self._name.identity, self._leadership.now(), self._times):
            return False
        return await self._write(sighting.record)

    async def _renew(self) -> bool:
        """One try to renew, without a read: the version we wrote last must still be the current one.

        After a conflict it is read again: an own earlier write whose answer was lost is still ours,
        another's holder ends the leadership at once.
        """
        try:
            return await self._write(self._sighting.record)
        except Conflict:
            body = await self._api.get(LEASE, self._name.namespace, self._name.name)
            sighting = self._remember(body)
            if sighting.record.holder != self._name.identity:
                self._leadership.end()
                return False
            return await self._write(sighting.record)

    async def _create(self) -> bool:
        sent_at = self._leadership.now()
        record = taken(None, self._name.identity, self._wall(), self._times)
        body = {"metadata": {"name": self._name.name}, "spec": record.spec()}
        created = await self._api.create(LEASE, self._name.namespace, body, manager=_MANAGER)
        return self._won(created, sent_at)

    async def _write(self, previous: LeaseRecord) -> bool:
        sent_at = self._leadership.now()
        record = taken(previous, self._name.identity, self._wall(), self._times)
        return self._won(await self._replace(record), sent_at)

    async def _replace(self, record: LeaseRecord) -> Object:
        body = {
            "apiVersion": LEASE.api_version,
            "kind": LEASE.name,
            "metadata": {"name": self._name.name, "resourceVersion": self._version},
            "spec": record.spec(),
        }
        return await self._api.replace(
            LEASE, self._name.namespace, self._name.name, body, manager=_MANAGER
        )

    def _won(self, written: Object, sent_at: float) -> bool:
        self._remember(written)
        # Trust counts from before the write was sent: others count from when they see it.
        self._leadership.trust_until(sent_at + self._times.renew_deadline)
        return True

    def _remember(self, body: Object) -> Sighting:
        record = LeaseRecord.from_spec(body.get("spec") or {})
        self._sighting = self._sighting.after(record, self._leadership.now())
        self._version = body["metadata"]["resourceVersion"]
        return self._sighting

    async def _release(self) -> None:
        try:
            async with asyncio.timeout(_RELEASE_SECONDS):
                await self._replace(released(self._sighting.record, self._wall()))
            logger.info("released the lease")
        except (ApiError, Unreachable, TimeoutError) as error:
            logger.warning("the lease could not be released, it expires by itself: %s", error)


async def _endless(lead: Callable[[], Awaitable[None]]) -> None:
    await lead()
    raise RuntimeError("the leader's work ended by itself; it must run until it is cancelled")
