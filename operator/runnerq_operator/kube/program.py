"""The operator as a process: watches always, leads when it holds the Lease, stops in the right order.

start: health -> watches, caches filled -> candidate -> leader
stop:  the term ends -> the Lease is released -> watches end -> health ends
"""

from __future__ import annotations

import asyncio
import logging

from aiohttp import web
from prometheus_client import CollectorRegistry

from runnerq_operator.kube.api import KubeApi
from runnerq_operator.kube.caches import Caches
from runnerq_operator.kube.connection import api_client, cluster_configuration
from runnerq_operator.kube.elector import Elector, LeaseName
from runnerq_operator.kube.health import Health
from runnerq_operator.kube.informer import Informer
from runnerq_operator.kube.leadership import Leadership
from runnerq_operator.kube.metrics import ObjectGauges, OperatorMetrics
from runnerq_operator.kube.settings import OperatorSettings
from runnerq_operator.kube.term import LeaderTerm
from runnerq_operator.kube.watches import WatchAges

logger = logging.getLogger(__name__)

_ALWAYS_SECONDS = 3600.0


class OperatorProgram:
    """One operator process."""

    def __init__(self, settings: OperatorSettings) -> None:
        self._settings = settings
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """Stop in order; `run` returns when done."""
        self._stopping.set()

    async def run(self) -> None:
        """Run until `stop`. Raises NoCluster, or what made it impossible to go on."""
        settings = self._settings
        configuration = await cluster_configuration(settings.kubeconfig)
        client = api_client(configuration)
        leadership = Leadership()
        metrics = OperatorMetrics(CollectorRegistry())
        caches = Caches(settings.namespaces)
        ages = WatchAges(restarted=metrics.watch_restarted)
        metrics.registry.register(ObjectGauges(caches, ages, leadership))
        health = Health(metrics.registry, caches, ages, leadership)
        # Reads and the Lease itself are not gated by the leadership that the Lease decides.
        ungated = KubeApi(client, may_write=lambda: _ALWAYS_SECONDS, observer=metrics)
        gated = KubeApi(client, may_write=leadership.check, observer=metrics)
        informer = Informer(configuration, ungated, caches, ages, on_signal=self.stop)
        elector = Elector(
            ungated,
            LeaseName(
                namespace=settings.own_namespace, name=settings.lease, identity=settings.identity
            ),
            leadership,
        )

        async def lead() -> None:
            health.term = LeaderTerm(settings, gated, caches, metrics)
            try:
                await health.term.run()
            finally:
                health.term = None

        async def compete() -> None:
            await caches.until(lambda: caches.synced, seconds=None)
            logger.info("all objects are listed; competing for the lease")
            await elector.run(lead)

        runner = web.AppRunner(health.app(), access_log=None)
        try:
            await runner.setup()
            await web.TCPSite(runner, None, settings.metrics_port).start()
            async with asyncio.TaskGroup() as group:
                watching = group.create_task(informer.run(), name="informer")
                competing = group.create_task(compete(), name="elector")
                await self._stopping.wait()
                competing.cancel()
                await asyncio.wait({competing})
                watching.cancel()
        finally:
            await runner.cleanup()
            await client.close()
