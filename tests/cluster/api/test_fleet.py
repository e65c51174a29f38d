"""KubernetesFleet against a real API server: who owns replicas, what rolls, what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.cluster.api.server import ApiServer

from runnerq_operator.fleet.kubernetes import KubernetesFleet
from runnerq_operator.fleet.port import (
    PoolKey,
    SecretKey,
    WorkerTemplate,
)
from runnerq_operator.kube.api import KubeApi
from runnerq_operator.kube.caches import Caches
from runnerq_operator.kube.connection import cluster_configuration
from runnerq_operator.kube.informer import Informer
from runnerq_operator.kube.kinds import DEPLOYMENT, POOL, QUEUE
from runnerq_operator.kube.watches import WatchAges

pytestmark = pytest.mark.cluster


def template(**changes: Any) -> WorkerTemplate:
    values: dict[str, Any] = {
        "app": "shop.activities",
        "queue_name": "emails",
        "activity_types": ("send_*",),
        "concurrency": 8,
        "drain_seconds": 25,
        "schema": "runnerq",
        "backend_secret": SecretKey("backend", "url"),
        "backend_fingerprint": "abc",
        "pod_template": {"spec": {"containers": [{"name": "worker", "image": "shop:1"}]}},
    }
    return WorkerTemplate(**{**values, **changes})


def queue_object() -> dict[str, Any]:
    return {
        "metadata": {"name": "emails"},
        "spec": {
            "backend": {"postgres": {"urlSecretRef": {"name": "backend", "key": "url"}}},
            "pools": [{"name": "bulk", "app": "shop.activities", "activityTypes": ["send_*"]}],
        },
    }


class Setup:
    """A fleet whose caches are kept current by a real informer."""

    def __init__(self, api: KubeApi, caches: Caches, namespace: str) -> None:
        self.api = api
        self.caches = caches
        self.drift: list[tuple[str, str]] = []
        self.fleet = KubernetesFleet(
            api, caches, drift=lambda kind, field: self.drift.append((kind, field))
        )
        self.pool = PoolKey(namespace, "emails", "bulk")

    async def deployment(self) -> dict[str, Any]:
        return await self.api.get(DEPLOYMENT, self.pool.namespace, self.pool.object_name)

    async def replicas(self) -> int:
        return (await self.deployment())["spec"]["replicas"]


@asynccontextmanager
async def informed(server: ApiServer, api: KubeApi, namespace: str) -> AsyncGenerator[Setup, None]:
    caches = Caches([namespace])
    configuration = await cluster_configuration(str(server.kubeconfig))
    informer = Informer(configuration, api, caches, WatchAges(), on_signal=lambda: None)
    task = asyncio.create_task(informer.run())
    try:
        assert await caches.until(lambda: caches.synced, seconds=20)
        yield Setup(api, caches, namespace)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
async def setup(server: ApiServer, api: KubeApi, namespace: str) -> AsyncGenerator[Setup, None]:
    async with informed(server, api, namespace) as ready:
        await api.create(
            QUEUE,
            namespace,
            {"apiVersion": QUEUE.api_version, "kind": QUEUE.name, **queue_object()},
            manager="test",
        )
        cache = ready.caches[QUEUE]
        assert await ready.caches.until(lambda: len(cache) == 1, seconds=10)
        yield ready


async def test_a_new_pool_is_made_with_no_replicas_and_its_owner(setup: Setup):
    await setup.fleet.ensure(setup.pool, template())
    made = await setup.deployment()
    pool = await setup.api.get(POOL, setup.pool.namespace, "emails-bulk")
    queue = await setup.api.get(QUEUE, setup.pool.namespace, "emails")
    assert made["spec"]["replicas"] == 0
    assert made["metadata"]["ownerReferences"][0]["uid"] == pool["metadata"]["uid"]
    assert pool["metadata"]["ownerReferences"][0]["uid"] == queue["metadata"]["uid"]
    assert "replicas" not in pool["spec"]
    state = await setup.fleet.observe(setup.pool)
    assert state is not None
    assert (state.replicas, state.image, state.pods) == (0, "shop:1", ())
