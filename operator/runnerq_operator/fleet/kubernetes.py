"""Fleet of Deployments: pools become RunnerWorkerPool and Deployment objects, replicas go through /scale.

Observes from the caches, writes by server-side apply under two field managers: the template's never owns
replicas, the scaling one owns nothing else. It never decides a number, and never lets the API server
default one: a field that its only manager stops applying is removed, and replicas would become 1.

    no Deployment --apply with replicas 0--> owned by the template manager
      --/scale by the scaling manager--> owned by both --apply without replicas--> owned by scaling alone
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from runnerq_operator.fleet.port import (
    FleetState,
    FleetUnavailable,
    PoolKey,
    QueueKey,
    ReplicasConflict,
    TemplateRefused,
    WorkerTemplate,
)
from runnerq_operator.kube.api import ApiError, Conflict, Invalid, KubeApi, NotFound, Unreachable
from runnerq_operator.kube.cache import Change
from runnerq_operator.kube.caches import Caches
from runnerq_operator.kube.kinds import (
    DELETION_COST,
    DEPLOYMENT,
    POD,
    POOL,
    POOL_LABEL,
    QUEUE,
    QUEUE_LABEL,
    SCALE_MANAGER,
    TEMPLATE_MANAGER,
)
from runnerq_operator.kube.leadership import NotLeading
from runnerq_operator.kube.objects import (
    Object,
    annotations_of,
    being_deleted,
    labels_of,
    name_of,
    namespace_of,
    owner_uids,
    uid_of,
    version_of,
)
from runnerq_operator.kube.observed import pool_state
from runnerq_operator.kube.owners import conflict_message, owns_replicas
from runnerq_operator.kube.render.pool import pool_object, same_pool
from runnerq_operator.kube.render.worker import user_input, worker_deployment
from runnerq_operator.kube.template_hash import made_from

logger = logging.getLogger(__name__)

VICTIM_COST = "-1000"
"""Deletion cost of a victim; pods without the annotation count as 0."""
_WATCH_SECONDS = 5.0
"""How long an own write may take until the watch shows it."""


class KubernetesFleet:
    """Implements `Fleet` on one cluster. `drift` is told which field somebody else had changed."""

    def __init__(self, api: KubeApi, caches: Caches, *, drift: Callable[[str, str], None]) -> None:
        self._api = api
        self._caches = caches
        self._drift = drift
        self._listeners: list[Callable[[PoolKey], None]] = []
        self._last_set: dict[PoolKey, int] = {}
        self.close = caches.subscribe(self._changed)
        """Stop listening to the caches."""

    def subscribe(self, listener: Callable[[PoolKey], None]) -> None:
        self._listeners.append(listener)

    async def ensure(self, pool: PoolKey, template: WorkerTemplate) -> None:
        try:
            owner = await self._ensure_pool_object(pool)
            await self._ensure_deployment(pool, template, owner)
        except (Invalid, Conflict) as error:
            raise TemplateRefused(conflict_message(error)) from error
        except (ApiError, Unreachable, NotLeading) as error:
            raise FleetUnavailable(str(error)) from error

    async def observe(self, pool: PoolKey) -> FleetState | None:
        if not self._caches.synced:
            raise FleetUnavailable("the objects of the cluster have not all been listed yet")
        deployment = self._deployment(pool)
        if deployment is None:
            return None
        return pool_state(pool, deployment, self._pods(pool), self._requested(pool))

    async def set_replicas(self, pool: PoolKey, replicas: int, *, version: str) -> None:
        deployment = self._deployment(pool)
        if deployment is None:
            raise ReplicasConflict(f"{pool}: its Deployment is gone")
        current = int(deployment["spec"].get("replicas") or 0)
        expected = self._last_set.get(pool)
        if expected is not None and expected != current:
            self._drift(DEPLOYMENT.name, "spec.replicas")
            logger.warning(
                "%s: somebody else set replicas to %d, it was %d; the operator sets them",
                pool,
                current,
                expected,
            )
        body: Object = {"metadata": {"name": pool.object_name}, "spec": {"replicas": replicas}}
        if replicas < current:
            # Going down acts only on what the victims were chosen from; up is never wrong for long.
            body["metadata"]["resourceVersion"] = version
        try:
            scale = await self._api.apply(
                DEPLOYMENT,
                pool.namespace,
                pool.object_name,
                {**body, "apiVersion": "autoscaling/v1", "kind": "Scale"},
                manager=SCALE_MANAGER,
                force=True,
                subresource="scale",
            )
        except (Conflict, NotFound) as error:
            raise ReplicasConflict(f"{pool}: {error}") from error
        except (ApiError, Unreachable, NotLeading) as error:
            raise FleetUnavailable(str(error)) from error
        self._last_set[pool] = replicas
        await self._until_deployment(pool, version_of(scale))

    async def prefer_victims(self, pool: PoolKey, pods: Sequence[str]) -> None:
        victims = set(pods)
        changed: dict[str, str | None] = {}
        for pod in self._pods(pool):
            name = name_of(pod)
            cost = annotations_of(pod).get(DELETION_COST)
            if name in victims and cost != VICTIM_COST:
                changed[name] = VICTIM_COST
            elif name not in victims and cost == VICTIM_COST:
                changed[name] = None
        for name, cost in changed.items():
            await self._set_cost(pool, name, cost)
        if changed and not await self._caches.until(
            lambda: self._shown(pool, changed), seconds=_WATCH_SECONDS
        ):
            # The ReplicaSet controller watches the same objects: what we do not see yet, it may not.
            raise FleetUnavailable(f"{pool}: the watch does not show the victims' mark yet")

    async def pools(self, queue: QueueKey) -> tuple[PoolKey, ...]:
        if not self._caches.synced:
            raise FleetUnavailable("the objects of the cluster have not all been listed yet")
        found = {
            key
            for kind in (POOL, DEPLOYMENT)
            for item in self._caches[kind].of_queue(queue.namespace, queue.name)
            if (key := _pool_key(item)) is not None
        }
        return tuple(sorted(found))

    async def remove(self, pool: PoolKey) -> None:
        self._last_set.pop(pool, None)
        try:
            for kind in (POOL, DEPLOYMENT):
                item = self._caches[kind].get(pool.namespace, pool.object_name)
                if item is None or _pool_key(item) != pool or being_deleted(item):
                    continue
                try:
                    await self._api.delete(kind, pool.namespace, pool.object_name, uid=uid_of(item))
                except NotFound:
                    logger.debug("%s: %s was gone already", pool, kind.name)
        except (ApiError, Unreachable, NotLeading) as error:
            raise FleetUnavailable(str(error)) from error

    async def _ensure_pool_object(self, pool: PoolKey) -> str:
        """Make the RunnerWorkerPool as the queue's entry says; its uid."""
        queue = self._caches[QUEUE].get(pool.namespace, pool.queue)
        if queue is None:
            raise FleetUnavailable(f"{pool.owner}: the RunnerQueue is not seen (any more)")
        wanted = pool_object(queue, pool)
        existing = self._caches[POOL].get(pool.namespace, pool.object_name)
        if existing is not None and same_pool(existing, wanted):
            return uid_of(existing)
        written = await self._api.apply(
            POOL,
            pool.namespace,
            pool.object_name,
            wanted,
            manager=TEMPLATE_MANAGER,
            force=True,
        )
        self._caches[POOL].observe(written, deleted=False)
        return uid_of(written)

    async def _ensure_deployment(
        self, pool: PoolKey, template: WorkerTemplate, owner_uid: str
    ) -> None:
        inputs = user_input(template)
        known = self._deployment(pool)
        if (
            known is not None
            and made_from(annotations_of(known), inputs, template.backend_fingerprint)
            and owner_uid in owner_uids(known)
        ):
            return
        body = worker_deployment(pool, template, owner_uid=owner_uid)
        try:
            # Not from the cache: who owns replicas decides whether leaving them out is safe.
            current = await self._api.get(DEPLOYMENT, pool.namespace, pool.object_name)
        except NotFound:
            body["spec"]["replicas"] = 0
            current = await self._apply_deployment(pool, body)
            await self._hand_over(pool, 0)
            logger.info("%s: made with no workers", pool)
            return
        if _pool_key(current) != pool:
            raise TemplateRefused(
                f"Deployment {pool.object_name} exists and does not belong to this RunnerQueue; "
                "delete or rename it, or rename the pool"
            )
        if not owns_replicas(current, SCALE_MANAGER):
            await self._hand_over(pool, int(current["spec"].get("replicas") or 0))
        await self._apply_deployment(pool, body)
        logger.info("%s: rolling to a new template", pool)

    async def _apply_deployment(self, pool: PoolKey, body: Object) -> Object:
        written = await self._api.apply(
            DEPLOYMENT, pool.namespace, pool.object_name, body, manager=TEMPLATE_MANAGER
        )
        self._caches[DEPLOYMENT].observe(written, deleted=False)
        return written

    async def _hand_over(self, pool: PoolKey, replicas: int) -> None:
        """Let the scaling manager own the replicas that are there."""
        body: Object = {
            "apiVersion": "autoscaling/v1",
            "kind": "Scale",
            "metadata": {"name": pool.object_name},
            "spec": {"replicas": replicas},
        }
        await self._api.apply(
            DEPLOYMENT,
            pool.namespace,
            pool.object_name,
            body,
            manager=SCALE_MANAGER,
            force=True,
            subresource="scale",
        )
        self._last_set[pool] = replicas

    async def _set_cost(self, pool: PoolKey, name: str, cost: str | None) -> None:
        body = {"metadata": {"annotations": {DELETION_COST: cost}}}
        try:
            await self._api.merge(POD, pool.namespace, name, body, manager=SCALE_MANAGER)
        except NotFound:
            logger.debug("%s: pod %s was gone before it was marked", pool, name)
        except (ApiError, Unreachable, NotLeading) as error:
            raise FleetUnavailable(str(error)) from error

    def _shown(self, pool: PoolKey, costs: dict[str, str | None]) -> bool:
        """Whether the watch shows these costs on the pods that still exist."""
        return all(
            annotations_of(pod).get(DELETION_COST) == costs[name_of(pod)]
            for pod in self._pods(pool)
            if name_of(pod) in costs
        )

    async def _until_deployment(self, pool: PoolKey, version: int) -> None:
        """Wait for the own write, so that the next observation does not show the past."""

        def shown() -> bool:
            deployment = self._deployment(pool)
            return deployment is None or version_of(deployment) >= version

        if not await self._caches.until(shown, seconds=_WATCH_SECONDS):
            logger.warning("%s: the watch is behind: it does not show the new replicas yet", pool)

    def _deployment(self, pool: PoolKey) -> Object | None:
        deployment = self._caches[DEPLOYMENT].get(pool.namespace, pool.object_name)
        if deployment is None or _pool_key(deployment) != pool:
            return None
        return deployment

    def _pods(self, pool: PoolKey) -> list[Object]:
        pods = self._caches[POD].of_queue(pool.namespace, pool.queue)
        return [pod for pod in pods if _pool_key(pod) == pool]

    def _requested(self, pool: PoolKey) -> int | None:
        item = self._caches[POOL].get(pool.namespace, pool.object_name)
        return None if item is None else item["spec"].get("replicas")

    def _changed(self, change: Change) -> None:
        if change.kind not in (POOL, DEPLOYMENT, POD):
            return
        keys = {
            key
            for body in (change.old, change.new)
            if body is not None and (key := _pool_key(body)) is not None
        }
        for key in keys:
            for listener in self._listeners:
                listener(key)


def _pool_key(item: Object) -> PoolKey | None:
    """Which pool an object belongs to by its labels; None when to none."""
    labels = labels_of(item)
    queue, pool = labels.get(QUEUE_LABEL), labels.get(POOL_LABEL)
    if not queue or not pool:
        return None
    return PoolKey(namespace_of(item), queue, pool)
