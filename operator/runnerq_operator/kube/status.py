"""Writes statuses and events to the API server, and only those that say something new."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from runnerq_operator.fleet.port import FleetUnavailable, PoolKey
from runnerq_operator.kube.api import ApiError, NotFound, Unreachable
from runnerq_operator.kube.kinds import POOL, QUEUE, STATUS_MANAGER
from runnerq_operator.kube.leadership import NotLeading
from runnerq_operator.kube.render.worker import selector
from runnerq_operator.model.status import RunnerQueueStatus, RunnerWorkerPoolStatus, WorkStatus

if TYPE_CHECKING:
    from runnerq_operator.control.report import QueueReport
    from runnerq_operator.kube.api import KubeApi
    from runnerq_operator.kube.caches import Caches
    from runnerq_operator.kube.events import EventRecorder
    from runnerq_operator.kube.kinds import Kind

logger = logging.getLogger(__name__)

Status = TypeVar("Status", bound=WorkStatus)


class KubernetesStatusSink:
    """Implements `StatusSink`: the status subresources of both kinds, and Events beside them."""

    def __init__(self, api: KubeApi, caches: Caches, events: EventRecorder) -> None:
        self._api = api
        self._caches = caches
        self._events = events

    async def publish(self, report: QueueReport) -> None:
        """Raises FleetUnavailable when not all could be written; what was is skipped the next time."""
        try:
            await self._publish(report)
        except (ApiError, Unreachable, NotLeading) as error:
            raise FleetUnavailable(f"the status could not be written: {error}") from error

    async def _publish(self, report: QueueReport) -> None:
        key = report.queue
        for pool, status in report.pools.items():
            pool_key = PoolKey(key.namespace, key.name, pool)
            labels = ",".join(f"{name}={value}" for name, value in selector(pool_key).items())
            complete = msgspec.structs.replace(status, selector=labels)
            await self._write(
                POOL, key.namespace, pool_key.object_name, complete, RunnerWorkerPoolStatus
            )
        await self._write(QUEUE, key.namespace, key.name, report.status, RunnerQueueStatus)
        for event in report.events:
            await self._events.record(key, event)

    async def _write(
        self, kind: Kind, namespace: str, name: str, status: Status, shape: type[Status]
    ) -> None:
        known = self._caches[kind].get(namespace, name)
        if known is None:
            # Not made yet, or gone: the next report comes when that changes.
            logger.debug(
                "%s %s/%s: no such object to write a status to", kind.name, namespace, name
            )
            return
        if _as_status(known.get("status"), shape) == status:
            return
        body = {"metadata": {"name": name}, "status": complete_builtins(status)}
        try:
            written = await self._api.apply(
                kind,
                namespace,
                name,
                body,
                manager=STATUS_MANAGER,
                force=True,
                subresource="status",
            )
        except NotFound:
            logger.debug("%s %s/%s: gone before its status was written", kind.name, namespace, name)
            return
        self._caches[kind].observe(written, deleted=False)


def complete_builtins(status: WorkStatus) -> dict[str, Any]:
    """The status as JSON values. Figures are written even where they are the default: a column with
    nothing in it would not mean zero."""
    written: dict[str, Any] = {}
    for field in msgspec.structs.fields(status):
        value = getattr(status, field.name)
        if value is not None:
            written[field.encode_name] = msgspec.to_builtins(value)
    return written


def _as_status(written: Any, shape: type[Status]) -> Status | None:
    """What the object says now; None when it says nothing that this version understands."""
    try:
        return msgspec.convert(written or {}, shape)
    except msgspec.ValidationError:
        return None
