"""Feeds the control loop with RunnerQueues as they are to be, and keeps their consoles.

Level-triggered: a change of any object of a queue, and the time for the next look at its Secrets, put the
queue's key into a keyed work queue; a pass looks at everything anew.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Protocol

import msgspec

from runnerq_operator.control.work_queue import KeyedQueue
from runnerq_operator.fleet.port import QueueKey
from runnerq_operator.kube.api import ApiError, Unreachable
from runnerq_operator.kube.desired import NotUnderstood, desired_queue
from runnerq_operator.kube.kinds import COMPONENT_LABEL, POOL, QUEUE, QUEUE_LABEL
from runnerq_operator.kube.leadership import NotLeading
from runnerq_operator.kube.objects import being_deleted, labels_of, name_of, namespace_of
from runnerq_operator.model.status import RunnerQueueStatus

if TYPE_CHECKING:
    from runnerq.metrics import MetricsSink
    from runnerq_operator.control.desired import DesiredQueue
    from runnerq_operator.kube.api import KubeApi
    from runnerq_operator.kube.cache import Change
    from runnerq_operator.kube.caches import Caches
    from runnerq_operator.kube.consoles import Consoles
    from runnerq_operator.kube.objects import Object

logger = logging.getLogger(__name__)

SECRET_SECONDS = 10.0
"""How often the Secrets of each queue are read again: a changed one rolls the pods this soon."""
_WORKERS = 4
_KIND = "QueueObjects"


class Loop(Protocol):
    """What of the control loop is fed."""

    def apply(self, desired: DesiredQueue, *, known: RunnerQueueStatus | None = None) -> None: ...

    def forget(self, key: QueueKey) -> None: ...


class QueueFeed:
    """One per term of leadership."""

    def __init__(
        self,
        api: KubeApi,
        caches: Caches,
        consoles: Consoles,
        loop: Loop,
        *,
        metrics: MetricsSink,
    ) -> None:
        self._api = api
        self._caches = caches
        self._consoles = consoles
        self._loop = loop
        self._metrics = metrics
        self._queue: KeyedQueue[QueueKey] = KeyedQueue()

    async def run(self) -> None:
        """Feed until cancelled."""
        unsubscribe = self._caches.subscribe(self._changed)
        try:
            for item in self._caches[QUEUE].all():
                self._queue.add(_key(item))
            async with asyncio.TaskGroup() as group:
                for number in range(_WORKERS):
                    group.create_task(self._work(), name=f"feed-{number}")
        finally:
            unsubscribe()

    async def _work(self) -> None:
        while True:
            async with self._queue.take() as key:
                started = time.monotonic()
                outcome = await self._tried(key)
                self._metrics.inc_counter(
                    "runnerq_operator_reconciles_total", labels={"kind": _KIND, "outcome": outcome}
                )
                self._metrics.observe_duration(
                    "runnerq_operator_reconcile_duration_seconds",
                    time.monotonic() - started,
                    labels={"kind": _KIND},
                )

    async def _tried(self, key: QueueKey) -> str:
        """One pass; its outcome as the metric has it."""
        try:
            exists = await self._pass(key)
        except NotUnderstood as error:
            logger.error("%s: %s", key, error)  # noqa: TRY400 - the message says it all
            self._queue.retry(key)
            return "permanent"
        except (Unreachable, NotLeading) as error:
            logger.warning("%s: %s; again in %.1f s", key, error, self._queue.retry(key))
            return "retry"
        except ApiError as error:
            pause = self._queue.retry(key)
            logger.error("%s: %s; again in %.1f s", key, error, pause)  # noqa: TRY400
            return "error"
        self._queue.succeeded(key)
        if exists:
            self._queue.add(key, after=SECRET_SECONDS)
        return "success"

    async def _pass(self, key: QueueKey) -> bool:
        """Whether the queue still exists."""
        item = self._caches[QUEUE].get(key.namespace, key.name)
        if item is None or being_deleted(item):
            self._loop.forget(key)
            return False
        desired = await desired_queue(self._api, item)
        self._loop.apply(desired, known=_shown(item))
        await self._consoles.ensure(item, desired)
        return True

    def _changed(self, change: Change) -> None:
        for body in (change.old, change.new):
            if body is None:
                continue
            if change.kind is QUEUE:
                if change.old is None or change.new is None or _spec_changed(change):
                    self._queue.add(_key(body))
            elif change.kind is not POOL and labels_of(body).get(COMPONENT_LABEL) == "console":
                self._queue.add(QueueKey(namespace_of(body), labels_of(body)[QUEUE_LABEL]))


def _key(item: Object) -> QueueKey:
    return QueueKey(namespace_of(item), name_of(item))


def _spec_changed(change: Change) -> bool:
    """Not only the status, which this operator writes itself."""
    old, new = change.old or {}, change.new or {}
    return (
        old["metadata"].get("generation") != new["metadata"].get("generation")
        or old["metadata"]["uid"] != new["metadata"]["uid"]
        or being_deleted(old) != being_deleted(new)
    )


def _shown(item: Object) -> RunnerQueueStatus | None:
    """The status that the object shows; None when it shows none that this version understands."""
    try:
        return msgspec.convert(item["status"], RunnerQueueStatus) if item.get("status") else None
    except msgspec.ValidationError:
        return None
