"""The informers on a real API server: what they see, and what they survive."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from tests.cluster.api.proxy import SilentProxy
from tests.cluster.api.server import ApiServer

from runnerq_operator.kube.api import KubeApi
from runnerq_operator.kube.caches import Caches
from runnerq_operator.kube.connection import cluster_configuration
from runnerq_operator.kube.informer import Informer
from runnerq_operator.kube.kinds import QUEUE, SERVICE, WATCHED
from runnerq_operator.kube.watches import WatchAges

pytestmark = pytest.mark.cluster


def service(name: str, **labels: str) -> str:
    body = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "labels": labels},
        "spec": {"ports": [{"port": 80}]},
    }
    return json.dumps(body)


class Watching:
    def __init__(self, server: ApiServer, namespace: str, caches: Caches, ages: WatchAges) -> None:
        self._server = server
        self._namespace = namespace
        self.caches = caches
        self.ages = ages

    async def kubectl(self, *arguments: str, stdin: str | None = None) -> None:
        await asyncio.to_thread(
            self._server.kubectl, "-n", self._namespace, *arguments, stdin=stdin
        )

    async def shows(self, name: str, *, seconds: float) -> bool:
        """Whether the cache has such a Service within that time."""
        cache, namespace = self.caches[SERVICE], self._namespace
        return await self.caches.until(
            lambda: cache.get(namespace, name) is not None, seconds=seconds
        )


@asynccontextmanager
async def watching(
    server: ApiServer,
    api: KubeApi,
    namespace: str,
    *,
    port: int | None = None,
    inactivity: float = 70.0,
    restarts: list[str] | None = None,
) -> AsyncGenerator[Watching]:
    configuration = await cluster_configuration(str(server.kubeconfig))
    if port is not None:
        configuration.host = f"https://127.0.0.1:{port}"
    heard = restarts if restarts is not None else []
    caches, ages = Caches([namespace]), WatchAges(restarted=heard.append)
    informer = Informer(
        configuration,
        api,
        caches,
        ages,
        on_signal=lambda: None,
        inactivity_seconds=inactivity,
    )
    task = asyncio.create_task(informer.run())
    try:
        assert await caches.until(lambda: caches.synced, seconds=20)
        yield Watching(server, namespace, caches, ages)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_change_is_seen_at_once_and_a_deletion_too(
    server: ApiServer, api: KubeApi, namespace: str
):
    async with watching(server, api, namespace) as there:
        await there.kubectl("apply", "-f", "-", stdin=service("one", **{"runnerq.dev/queue": "q"}))
        assert await there.shows("one", seconds=5)
        await there.kubectl("delete", "service", "one")
        cache = there.caches[SERVICE]
        assert await there.caches.until(lambda: len(cache) == 0, seconds=5)


async def test_what_does_not_carry_our_label_is_not_kept(
    server: ApiServer, api: KubeApi, namespace: str
):
    async with watching(server, api, namespace) as there:
        await there.kubectl("apply", "-f", "-", stdin=service("other", app="x"))
        await there.kubectl("apply", "-f", "-", stdin=service("ours", **{"runnerq.dev/queue": "q"}))
        assert await there.shows("ours", seconds=5)
        assert there.caches[SERVICE].get(namespace, "other") is None


async def test_objects_carry_nothing_of_kopf(server: ApiServer, api: KubeApi, namespace: str):
    """Neither finalizers nor annotations: an operator that is down must hold up nothing."""
    async with watching(server, api, namespace) as there:
        queue = {
            "apiVersion": QUEUE.api_version,
            "kind": QUEUE.name,
            "metadata": {"name": "q"},
            "spec": {
                "backend": {"postgres": {"urlSecretRef": {"name": "d"}}},
                "pools": [{"name": "p", "app": "a", "activityTypes": ["*"]}],
            },
        }
        await there.kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(queue))
        cache = there.caches[QUEUE]
        assert await there.caches.until(lambda: len(cache) == 1, seconds=5)
        await there.kubectl("label", "rq", "q", "touched=yes")
        assert await there.caches.until(
            lambda: "touched" in (cache.get(namespace, "q") or {})["metadata"].get("labels", {}),
            seconds=5,
        )
        stored = await api.get(QUEUE, namespace, "q")
        assert "finalizers" not in stored["metadata"]
        assert "annotations" not in stored["metadata"]
        await there.kubectl("delete", "rq", "q", "--timeout=5s")


async def test_a_watch_that_went_silent_is_opened_anew_and_nothing_is_missed(
    server: ApiServer, api: KubeApi, namespace: str
):
    restarts: list[str] = []
    async with (
        SilentProxy(server.port).running() as proxy,
        watching(
            server, api, namespace, port=proxy.port, inactivity=3.0, restarts=restarts
        ) as there,
    ):
        await there.kubectl("apply", "-f", "-", stdin=service("one", **{"runnerq.dev/queue": "q"}))
        assert await there.shows("one", seconds=5)
        proxy.freeze()
        restarts.clear()
        await there.kubectl("apply", "-f", "-", stdin=service("two", **{"runnerq.dev/queue": "q"}))
        # Silent for 3 s, then anew: with the 70 s of production that is well below 90.
        assert await there.shows("two", seconds=15)
        assert "services" in restarts


async def test_the_age_of_every_watch_is_known_and_small_while_it_lives(
    server: ApiServer, api: KubeApi, namespace: str
):
    async with watching(server, api, namespace) as there:
        await there.kubectl("apply", "-f", "-", stdin=service("one", **{"runnerq.dev/queue": "q"}))
        assert await there.shows("one", seconds=5)
        ages = there.ages.ages()
        assert set(ages) == {(kind.plural, namespace) for kind in WATCHED}
        assert max(ages.values()) < 30
