"""KubernetesFleet against a real API server: who owns replicas, what rolls, what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.cluster.api.server import ApiServer

from runnerq_operator.fleet.kubernetes import KubernetesFleet
from runnerq_operator.fleet.port import (
    FleetState,
    FleetUnavailable,
    PoolKey,
    QueueKey,
    ReplicasConflict,
    SecretKey,
    TemplateRefused,
    WorkerTemplate,
)
from runnerq_operator.kube.api import KubeApi
from runnerq_operator.kube.caches import Caches
from runnerq_operator.kube.connection import cluster_configuration
from runnerq_operator.kube.informer import Informer
from runnerq_operator.kube.kinds import (
    DELETION_COST,
    DEPLOYMENT,
    POD,
    POOL,
    QUEUE,
    SCALE_MANAGER,
    TEMPLATE_MANAGER,
)
from runnerq_operator.kube.objects import annotations_of, name_of
from runnerq_operator.kube.observed import pool_state
from runnerq_operator.kube.owners import owns_replicas
from runnerq_operator.kube.render.worker import worker_deployment
from runnerq_operator.kube.watches import WatchAges

pytestmark = pytest.mark.cluster

WORKER = {"name": "worker", "image": "shop:1"}


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
        "pod_template": {"spec": {"containers": [WORKER]}},
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


async def test_replicas_survive_a_new_template(setup: Setup):
    """The hand-over: a field that its only manager stops applying would become 1."""
    await setup.fleet.ensure(setup.pool, template())
    assert owns_replicas(await setup.deployment(), SCALE_MANAGER)
    await scale(setup, 3)
    await setup.fleet.ensure(setup.pool, template(concurrency=9))
    assert await setup.replicas() == 3


async def test_a_pool_with_min_0_never_gets_a_replica_from_a_template(setup: Setup):
    for round_ in range(4):
        await setup.fleet.ensure(setup.pool, template(concurrency=1 + round_))
        assert await setup.replicas() == 0


async def test_an_operator_that_died_before_the_hand_over_leaves_no_trap(setup: Setup):
    await setup.fleet.ensure(setup.pool, template())
    name = setup.pool.object_name
    await setup.api.delete(
        DEPLOYMENT, setup.pool.namespace, name, uid=(await setup.deployment())["metadata"]["uid"]
    )
    cache = setup.caches[DEPLOYMENT]
    assert await setup.caches.until(lambda: len(cache) == 0, seconds=10)
    pool = await setup.api.get(POOL, setup.pool.namespace, name)
    body = worker_deployment(setup.pool, template(), owner_uid=pool["metadata"]["uid"])
    body["spec"]["replicas"] = 0
    await setup.api.apply(DEPLOYMENT, setup.pool.namespace, name, body, manager=TEMPLATE_MANAGER)
    await setup.fleet.ensure(setup.pool, template(concurrency=9))
    assert await setup.replicas() == 0
    assert owns_replicas(await setup.deployment(), SCALE_MANAGER)


async def test_ensuring_the_same_again_writes_nothing(setup: Setup):
    await setup.fleet.ensure(setup.pool, template())
    before = (await setup.deployment())["metadata"]["resourceVersion"]
    pool = await setup.api.get(POOL, setup.pool.namespace, setup.pool.object_name)
    await setup.fleet.ensure(setup.pool, template())
    after = await setup.api.get(POOL, setup.pool.namespace, setup.pool.object_name)
    assert (await setup.deployment())["metadata"]["resourceVersion"] == before
    assert after["metadata"]["resourceVersion"] == pool["metadata"]["resourceVersion"]


async def test_a_changed_secret_changes_the_pods(setup: Setup):
    await setup.fleet.ensure(setup.pool, template())
    before = (await setup.deployment())["spec"]["template"]
    await setup.fleet.ensure(setup.pool, template(backend_fingerprint="other"))
    assert (await setup.deployment())["spec"]["template"] != before


async def test_what_the_user_no_longer_says_is_removed(setup: Setup):
    labelled = {"nodeSelector": {"disk": "fast"}, "containers": [WORKER]}
    await setup.fleet.ensure(setup.pool, template(pod_template={"spec": labelled}))
    assert "nodeSelector" in (await setup.deployment())["spec"]["template"]["spec"]
    await setup.fleet.ensure(setup.pool, template())
    assert "nodeSelector" not in (await setup.deployment())["spec"]["template"]["spec"]


async def test_going_down_acts_only_on_what_was_observed(setup: Setup):
    await setup.fleet.ensure(setup.pool, template())
    await scale(setup, 3)
    seen = await setup.fleet.observe(setup.pool)
    assert seen is not None
    await setup.api.merge(
        DEPLOYMENT,
        setup.pool.namespace,
        setup.pool.object_name,
        {"metadata": {"labels": {"touched": "yes"}}},
        manager="somebody",
    )
    with pytest.raises(ReplicasConflict):
        await setup.fleet.set_replicas(setup.pool, 1, version=seen.version)
    assert await setup.replicas() == 3
    await scale(setup, 1)
    assert await setup.replicas() == 1


async def test_the_next_observation_shows_what_was_just_set(setup: Setup):
    await setup.fleet.ensure(setup.pool, template())
    for replicas in (1, 5, 2, 0):
        await scale(setup, replicas)
        state = await setup.fleet.observe(setup.pool)
        assert state is not None
        assert state.replicas == replicas


async def test_replicas_that_somebody_else_set_are_put_back_and_counted(setup: Setup):
    await setup.fleet.ensure(setup.pool, template())
    await scale(setup, 2)
    await setup.api.merge(
        DEPLOYMENT,
        setup.pool.namespace,
        setup.pool.object_name,
        {"spec": {"replicas": 7}},
        manager="kubectl",
    )
    await until(setup, lambda state: state.replicas == 7)
    await scale(setup, 2)
    assert await setup.replicas() == 2
    assert setup.drift == [("Deployment", "spec.replicas")]


async def test_a_template_that_cannot_be_is_refused_in_the_api_servers_words(setup: Setup):
    bad = {"spec": {"containers": [{**WORKER, "imagePullPolicy": "Sometimes"}]}}
    with pytest.raises(TemplateRefused, match=r"imagePullPolicy.*Sometimes"):
        await setup.fleet.ensure(setup.pool, template(pod_template=bad))
    await setup.fleet.ensure(setup.pool, template())
    typo: dict[str, Any] = {"spec": {"containers": [WORKER], "nodeSelektor": {}}}
    with pytest.raises(TemplateRefused, match="nodeSelektor"):
        await setup.fleet.ensure(setup.pool, template(pod_template=typo))


async def test_a_field_that_another_manager_changed_is_not_taken_but_said(setup: Setup):
    await setup.fleet.ensure(setup.pool, template())
    await setup.api.merge(
        DEPLOYMENT,
        setup.pool.namespace,
        setup.pool.object_name,
        {"spec": {"template": {"spec": {"enableServiceLinks": True}}}},
        manager="kubectl-edit",
    )
    with pytest.raises(TemplateRefused, match=r'conflict with "kubectl-edit".*Undo its change'):
        await setup.fleet.ensure(setup.pool, template(concurrency=9))


async def test_a_deployment_of_somebody_else_is_left_alone(setup: Setup):
    body = worker_deployment(setup.pool, template(), owner_uid="00000000")
    body["metadata"] = {"name": setup.pool.object_name}
    await setup.api.create(
        DEPLOYMENT,
        setup.pool.namespace,
        {"apiVersion": "apps/v1", "kind": "Deployment", **body},
        manager="somebody",
    )
    with pytest.raises(TemplateRefused, match="does not belong to this RunnerQueue"):
        await setup.fleet.ensure(setup.pool, template())


async def test_what_kubectl_scale_asks_for_is_seen_and_not_owned_by_the_queue(
    setup: Setup, server: ApiServer
):
    await setup.fleet.ensure(setup.pool, template())
    server.kubectl("scale", "-n", setup.pool.namespace, "rwp/emails-bulk", "--replicas=4")
    await until(setup, lambda state: state.requested_replicas == 4)
    await setup.fleet.ensure(setup.pool, template(concurrency=9))
    state = await setup.fleet.observe(setup.pool)
    assert state is not None
    assert state.requested_replicas == 4


async def test_victims_and_no_others_carry_the_deletion_cost(setup: Setup):
    await setup.fleet.ensure(setup.pool, template())
    for name in ("one", "two", "three"):
        await make_pod(setup, name)
    await until(setup, lambda state: len(state.pods) == 3)
    await setup.fleet.prefer_victims(setup.pool, ["one", "two"])
    assert await costs(setup) == {"one": "-1000", "two": "-1000", "three": None}
    await setup.fleet.prefer_victims(setup.pool, ["two"])
    assert await costs(setup) == {"one": None, "two": "-1000", "three": None}
    await setup.fleet.prefer_victims(setup.pool, ["gone", "two"])
    await setup.fleet.prefer_victims(setup.pool, [])
    assert await costs(setup) == {"one": None, "two": None, "three": None}


async def test_a_removed_pool_is_deleted_and_removing_it_again_is_fine(setup: Setup):
    await setup.fleet.ensure(setup.pool, template())
    queue = QueueKey(setup.pool.namespace, "emails")
    assert await setup.fleet.pools(queue) == (setup.pool,)
    await setup.fleet.remove(setup.pool)
    deployments, pools = setup.caches[DEPLOYMENT], setup.caches[POOL]
    assert await setup.caches.until(lambda: len(deployments) + len(pools) == 0, seconds=10)
    assert await setup.fleet.pools(queue) == ()
    assert await setup.fleet.observe(setup.pool) is None
    await setup.fleet.remove(setup.pool)


async def test_listeners_hear_of_pods_and_deployments_of_the_pool(setup: Setup):
    heard: list[PoolKey] = []
    setup.fleet.subscribe(heard.append)
    await setup.fleet.ensure(setup.pool, template())
    heard.clear()
    await make_pod(setup, "one")
    await until(setup, lambda state: len(state.pods) == 1)
    assert set(heard) == {setup.pool}


async def test_before_everything_was_listed_nothing_is_said_to_be_absent(api: KubeApi):
    fleet = KubernetesFleet(api, Caches(["somewhere"]), drift=lambda kind, field: None)
    with pytest.raises(FleetUnavailable):
        await fleet.observe(PoolKey("somewhere", "emails", "bulk"))
    with pytest.raises(FleetUnavailable):
        await fleet.pools(QueueKey("somewhere", "emails"))


async def test_what_was_deleted_while_nobody_watched_is_found_out_by_the_next_list(setup: Setup):
    """A watch that was opened anew after a gap never tells of it."""
    await setup.fleet.ensure(setup.pool, template())
    lost = dict(await setup.deployment())
    lost["metadata"] = {**lost["metadata"], "name": "lost", "uid": "lost", "resourceVersion": "1"}
    cache = setup.caches[DEPLOYMENT]
    cache.observe(lost, deleted=False)
    assert len(cache) == 2
    items, version = await setup.api.list_all(DEPLOYMENT, setup.pool.namespace)
    cache.replace_all(setup.pool.namespace, items, version)
    assert cache.get(setup.pool.namespace, "lost") is None
    assert cache.get(setup.pool.namespace, "emails-bulk") is not None


async def scale(setup: Setup, replicas: int) -> None:
    state = await setup.fleet.observe(setup.pool)
    assert state is not None
    await setup.fleet.set_replicas(setup.pool, replicas, version=state.version)


async def until(setup: Setup, condition: Callable[[FleetState], bool]) -> None:
    """Wait until the fleet's observation is so."""

    def shown() -> bool:
        cache = setup.caches[DEPLOYMENT]
        deployment = cache.get(setup.pool.namespace, setup.pool.object_name)
        if deployment is None:
            return False
        pods = setup.caches[POD].of_queue(setup.pool.namespace, setup.pool.queue)
        pool = setup.caches[POOL].get(setup.pool.namespace, setup.pool.object_name)
        requested = None if pool is None else pool["spec"].get("replicas")
        return condition(pool_state(setup.pool, deployment, pods, requested))

    assert await setup.caches.until(shown, seconds=10)


async def make_pod(setup: Setup, name: str) -> None:
    """A pod as the ReplicaSet controller, which does not run here, would make it."""
    spec = (await setup.deployment())["spec"]["template"]
    await setup.api.create(
        POD,
        setup.pool.namespace,
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, **spec["metadata"]},
            "spec": spec["spec"],
        },
        manager="test",
    )


async def costs(setup: Setup) -> dict[str, str | None]:
    pods, _ = await setup.api.list_all(POD, setup.pool.namespace)
    return {name_of(pod): annotations_of(pod).get(DELETION_COST) for pod in pods}
