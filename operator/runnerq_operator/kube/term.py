"""One term of leadership: the control loop, what feeds it, what it reports to. Ends without a trace.

Everything with a memory that another leader may have outdated in between lives here and dies with the
term: the next one starts from what the objects and the backends say.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry

from runnerq.connection import open_backend
from runnerq.storage.ports import Storage
from runnerq_operator.control.controller import Controller
from runnerq_operator.control.desired import BackendAddress
from runnerq_operator.control.leader_metrics import LeaderMetrics
from runnerq_operator.fleet.kubernetes import KubernetesFleet
from runnerq_operator.fleet.port import QueueKey
from runnerq_operator.kube.consoles import Consoles
from runnerq_operator.kube.events import EventRecorder
from runnerq_operator.kube.kinds import QUEUE
from runnerq_operator.kube.queue_feed import QueueFeed
from runnerq_operator.kube.status import KubernetesStatusSink

if TYPE_CHECKING:
    from runnerq_operator.kube.api import KubeApi
    from runnerq_operator.kube.caches import Caches
    from runnerq_operator.kube.metrics import OperatorMetrics
    from runnerq_operator.kube.settings import OperatorSettings

OPERATOR_CONNECTIONS = 2
"""Per backend, whatever number of queues and pools it has."""


class LeaderTerm:
    """Construct it when leadership begins, `run` it until it ends."""

    def __init__(
        self,
        settings: OperatorSettings,
        api: KubeApi,
        caches: Caches,
        metrics: OperatorMetrics,
    ) -> None:
        self._caches = caches
        self._began = time.monotonic()
        # Conditions are shown from the objects themselves, those of the pools too; see metrics.py.
        self._metrics = LeaderMetrics(self._exists, without={"runnerq_resource_condition"})
        self._fleet = KubernetesFleet(api, caches, drift=metrics.drift)
        events = EventRecorder(api, caches, instance=settings.identity)
        self._controller = Controller(
            fleet=self._fleet,
            sink=KubernetesStatusSink(api, caches, events),
            opener=open_for_operator,
            metrics=self._metrics,
            observed=self._metrics.observed,
        )
        self._feed = QueueFeed(
            api,
            caches,
            Consoles(api, caches, image=settings.console_image),
            self._controller,
            metrics=self._metrics,
        )

    @property
    def registry(self) -> CollectorRegistry:
        """Metrics of queues and pools."""
        return self._metrics.registry

    def reconcile_age(self) -> float:
        """Seconds since a pass last ended well, or since the term began."""
        last = self._controller.last_pass_at
        return time.monotonic() - (self._began if last is None else last)

    async def run(self) -> None:
        """Lead until cancelled. The workers stay as they are."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._controller.run(), name="control")
                group.create_task(self._feed.run(), name="feed")
        finally:
            self._fleet.close()

    def _exists(self, key: QueueKey) -> bool:
        return self._caches[QUEUE].get(key.namespace, key.name) is not None


def open_for_operator(address: BackendAddress) -> Storage:
    """The backend of an address, with the operator's few connections. Raises ConfigurationError."""
    return open_backend(address.url, schema=address.schema, max_connections=OPERATOR_CONNECTIONS)
