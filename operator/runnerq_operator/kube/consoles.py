"""Keeps the console of each queue: a Deployment and a Service, made, rolled and removed as the spec says.

Applies only when what it was made from differs, so a steady state writes nothing.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from runnerq_operator.fleet.port import QueueKey
from runnerq_operator.kube.api import NotFound
from runnerq_operator.kube.kinds import DEPLOYMENT, SERVICE, TEMPLATE_MANAGER
from runnerq_operator.kube.objects import annotations_of, being_deleted, owner_uids, uid_of
from runnerq_operator.kube.render.console import (
    ConsoleWish,
    console_deployment,
    console_service,
    same_service,
)
from runnerq_operator.kube.secrets import SecretMissing, fingerprint, secret_value
from runnerq_operator.kube.template_hash import made_from

if TYPE_CHECKING:
    from runnerq_operator.control.desired import DesiredQueue
    from runnerq_operator.kube.api import KubeApi
    from runnerq_operator.kube.caches import Caches
    from runnerq_operator.kube.objects import Object

logger = logging.getLogger(__name__)


class Consoles:
    """The consoles of all queues. `image` is the operator's own; "" = this installation has none."""

    def __init__(self, api: KubeApi, caches: Caches, *, image: str) -> None:
        self._api = api
        self._caches = caches
        self._image = image

    async def ensure(self, item: Object, desired: DesiredQueue) -> None:
        """Bring the console of one RunnerQueue to what its spec says. Raises what the API raises."""
        console = desired.spec.console
        if console is None:
            await self._remove(desired.key, uid_of(item))
            return
        wish = ConsoleWish(
            queue=desired.key,
            owner_uid=uid_of(item),
            spec=desired.spec,
            console=console,
            image=self._image,
            checksum=await self._checksum(item, desired),
        )
        await self._deployment(wish)
        await self._service(wish)

    async def _deployment(self, wish: ConsoleWish) -> None:
        known = self._caches[DEPLOYMENT].get(wish.queue.namespace, wish.name)
        if (
            known is not None
            and made_from(annotations_of(known), wish.user_input, wish.checksum)
            and wish.owner_uid in owner_uids(known)
        ):
            return
        written = await self._api.apply(
            DEPLOYMENT,
            wish.queue.namespace,
            wish.name,
            console_deployment(wish),
            manager=TEMPLATE_MANAGER,
        )
        self._caches[DEPLOYMENT].observe(written, deleted=False)
        logger.info("%s: console applied", wish.queue)

    async def _service(self, wish: ConsoleWish) -> None:
        wanted = console_service(wish)
        known = self._caches[SERVICE].get(wish.queue.namespace, wish.name)
        if known is not None and same_service(known, wanted):
            return
        written = await self._api.apply(
            SERVICE,
            wish.queue.namespace,
            wish.name,
            wanted,
            manager=TEMPLATE_MANAGER,
        )
        self._caches[SERVICE].observe(written, deleted=False)

    async def _remove(self, queue: QueueKey, owner_uid: str) -> None:
        for kind in (DEPLOYMENT, SERVICE):
            known = self._caches[kind].get(queue.namespace, f"{queue.name}-console")
            if known is None or owner_uid not in owner_uids(known) or being_deleted(known):
                continue
            try:
                await self._api.delete(
                    kind, queue.namespace, f"{queue.name}-console", uid=uid_of(known)
                )
            except NotFound:
                logger.debug("%s: the console's %s was gone already", queue, kind.name)

    async def _checksum(self, item: Object, desired: DesiredQueue) -> str:
        """Of the backend's address and the token. A missing token is the kubelet's to report: the pod
        waits for it and starts once it is there."""
        values = [getattr(desired.backend, "fingerprint", "")]
        token = desired.spec.console.auth.token_secret_ref if desired.spec.console else None
        if token is not None:
            try:
                values.append(
                    await secret_value(self._api, desired.key.namespace, token.name, token.key)
                )
            except SecretMissing as error:
                logger.warning("%s: console token: %s", desired.key, error)
        return fingerprint(uid_of(item), *values)
