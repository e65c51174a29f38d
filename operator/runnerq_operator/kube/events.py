"""Events on RunnerQueues and their pools, aggregated: the same one again counts up instead of piling up."""

from __future__ import annotations

import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from runnerq_operator.fleet.port import PoolKey, QueueKey
from runnerq_operator.kube.api import ApiError, NotFound, Unreachable
from runnerq_operator.kube.kinds import EVENT, POOL, QUEUE
from runnerq_operator.kube.objects import uid_of

if TYPE_CHECKING:
    from runnerq_operator.control.report import QueueEvent
    from runnerq_operator.kube.api import KubeApi
    from runnerq_operator.kube.caches import Caches

logger = logging.getLogger(__name__)

CONTROLLER = "runnerq.dev/operator"
_MANAGER = "runnerq-events"
_SERIES_SECONDS = 360.0
"""How long the same event again belongs to the same series."""
_REMEMBERED = 1000
_NOTE_LIMIT = 1024


@dataclass(slots=True)
class _Series:
    name: str
    count: int
    last: float


class EventRecorder:
    """Writes events. Losing one is logged and harms nothing: statuses are the truth."""

    def __init__(
        self,
        api: KubeApi,
        caches: Caches,
        *,
        instance: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._caches = caches
        self._instance = instance
        self._clock = clock
        self._series: OrderedDict[tuple[str, ...], _Series] = OrderedDict()

    async def record(self, queue: QueueKey, event: QueueEvent) -> None:
        """Record an event on the queue, or on the pool that it names."""
        kind, name = QUEUE, queue.name
        if event.pool:
            kind, name = POOL, PoolKey(queue.namespace, queue.name, event.pool).object_name
        item = self._caches[kind].get(queue.namespace, name)
        if item is None:
            logger.info("%s: %s: %s", queue, event.reason, event.message)
            return
        note = event.message[:_NOTE_LIMIT]
        key = (uid_of(item), event.reason, event.type, note)
        try:
            if not await self._repeated(queue.namespace, key):
                regarding = {
                    "apiVersion": kind.api_version,
                    "kind": kind.name,
                    "namespace": queue.namespace,
                    "name": name,
                    "uid": uid_of(item),
                }
                await self._first(queue.namespace, key, event, regarding, note)
        except (ApiError, Unreachable) as error:
            logger.warning("%s: the event %s was not written: %s", queue, event.reason, error)

    async def _repeated(self, namespace: str, key: tuple[str, ...]) -> bool:
        """Count up the series that this event continues; False when there is none."""
        series = self._series.get(key)
        if series is None or self._clock() - series.last > _SERIES_SECONDS:
            return False
        count = series.count + 1
        body = {"series": {"count": count, "lastObservedTime": _micro_time()}}
        try:
            await self._api.merge(EVENT, namespace, series.name, body, manager=_MANAGER)
        except NotFound:
            del self._series[key]
            return False
        series.count, series.last = count, self._clock()
        return True

    async def _first(
        self,
        namespace: str,
        key: tuple[str, ...],
        event: QueueEvent,
        regarding: dict[str, Any],
        note: str,
    ) -> None:
        name = f"{regarding['name']}.{secrets.token_hex(8)}"
        body = {
            "apiVersion": EVENT.api_version,
            "kind": EVENT.name,
            "metadata": {"name": name, "namespace": namespace},
            "eventTime": _micro_time(),
            "reportingController": CONTROLLER,
            "reportingInstance": self._instance,
            "action": event.reason,
            "reason": event.reason,
            "regarding": regarding,
            "note": note,
            "type": event.type.value,
        }
        await self._api.create(EVENT, namespace, body, manager=_MANAGER)
        self._series[key] = _Series(name, 1, self._clock())
        self._series.move_to_end(key)
        while len(self._series) > _REMEMBERED:
            self._series.popitem(last=False)


def _micro_time() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
