"""Keeps the caches current with kopf's watches, and with a full list now and then.

Of kopf only `on.event` is used: its other handlers act on edges, write annotations or add finalizers. Its
handlers here do nothing but put an object into a cache. The list closes what a watch can lose: objects
that were deleted while it was being opened anew.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable, Collection, Iterator
from typing import TYPE_CHECKING, Any

import aiohttp
import kopf

from runnerq_operator.kube.api import (
    CONNECT_SECONDS,
    REQUEST_SECONDS,
    ApiError,
    KubeApi,
    Unreachable,
)
from runnerq_operator.kube.kinds import POOL, QUEUE, QUEUE_LABEL, WATCHED, Kind
from runnerq_operator.kube.version import user_agent

if TYPE_CHECKING:
    from kubernetes.aio.client import Configuration

    from runnerq_operator.kube.caches import Caches
    from runnerq_operator.kube.watches import WatchAges

logger = logging.getLogger(__name__)

INACTIVITY_SECONDS = 70.0
"""Bookmarks come every minute; a watch that is silent for longer is dead and opened anew."""
RESYNC_SECONDS = 300.0
_RESYNC_RETRY_SECONDS = 2.0
_SAMPLE_SECONDS = 5.0


class Informer:
    """Watches every kind in every scope for ever. One per process, leader or not."""

    def __init__(
        self,
        configuration: Configuration,
        api: KubeApi,
        caches: Caches,
        ages: WatchAges,
        *,
        on_signal: Callable[[], None],
        inactivity_seconds: float = INACTIVITY_SECONDS,
        resync_seconds: float = RESYNC_SECONDS,
    ) -> None:
        self._configuration = configuration
        self._api = api
        self._caches = caches
        self._ages = ages
        self._on_signal = on_signal
        self._inactivity_seconds = inactivity_seconds
        self._resync_seconds = resync_seconds

    async def run(self) -> None:
        """Fill the caches once, then keep them current until cancelled.

        Raises when kopf ends by itself: the process must then end too.
        """
        for kind in WATCHED:
            for scope in self._caches.scopes:
                self._ages.expect(kind.plural, scope or "")
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch(), name="watches")
            group.create_task(self._resync(), name="resync")
            group.create_task(self._sample(), name="watch ages")

    async def _watch(self) -> None:
        scopes = self._caches.scopes
        tasks = await kopf.spawn_tasks(
            registry=self._registry(),
            settings=_settings(self._inactivity_seconds),
            clusterwide=scopes == (None,),
            namespaces=[scope for scope in scopes if scope is not None],
            standalone=True,
        )
        # kopf has just installed handlers that would end its watches first and everything else by
        # surprise; the order of stopping is ours.
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._on_signal)
        await kopf.run_tasks(tasks, ignored=_Everything())
        raise RuntimeError("the watches ended by themselves")

    async def _resync(self) -> None:
        while True:
            try:
                for kind in WATCHED:
                    for scope in self._caches.scopes:
                        items, version = await self._api.list_all(
                            kind, scope, labels=_selector(kind)
                        )
                        self._caches[kind].replace_all(scope, items, version)
            except (ApiError, Unreachable) as error:
                logger.warning("listing failed, trying again: %s", error)
                await asyncio.sleep(_RESYNC_RETRY_SECONDS)
            else:
                await asyncio.sleep(self._resync_seconds)

    async def _sample(self) -> None:
        """A sign of life is noticed only if somebody looks."""
        while True:
            self._ages.ages()
            await asyncio.sleep(_SAMPLE_SECONDS)

    def _registry(self) -> kopf.OperatorRegistry:
        registry = kopf.OperatorRegistry()

        async def login(**_: Any) -> kopf.AiohttpSession:
            return kopf.AiohttpSession(
                server=self._configuration.host, aiohttp_session=self._session()
            )

        kopf.on.login(registry=registry, id="login")(login)
        for kind in WATCHED:
            kopf.on.event(
                kind.group,
                kind.version,
                kind.plural,
                registry=registry,
                id=kind.plural,
            )(self._handler(kind))
        return registry

    def _handler(self, kind: Kind) -> Callable[..., Awaitable[None]]:
        cache = self._caches[kind]

        async def observe(event: kopf.RawEvent, **_: Any) -> None:
            cache.observe(dict(event["object"]), deleted=event["type"] == "DELETED")

        return observe

    def _session(self) -> aiohttp.ClientSession:
        """A session with a fresh token on each request, that shows the watches to `WatchAges`."""

        async def see(
            request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType
        ) -> aiohttp.ClientResponse:
            settings = await self._configuration.auth_settings()
            token: str | None = (settings.get("BearerToken") or {}).get("value")
            if token is not None:
                request.headers["Authorization"] = token
            response = await send(request)
            watch = request.url.query.get("watch") == "true"
            self._ages.answered(request.url.path, response, watch=watch)
            return response

        from kubernetes.aio.client.rest import RESTClientObject

        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0, ssl=RESTClientObject(self._configuration).ssl_context
            ),
            headers={"User-Agent": user_agent()},
            middlewares=[see],
        )


class _Everything(Collection[Any]):
    """kopf cancels, at its end, every task that it does not know to be older than itself. Ours are
    owned by their services, so all are said to be known."""

    def __contains__(self, item: object) -> bool:
        return True

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __len__(self) -> int:
        return 0


class _Patience:
    """Pauses between attempts, in seconds, without end: an unreachable API server comes back."""

    def __iter__(self) -> Iterator[float]:
        yield from (0.5, 1.0, 2.0)
        while True:
            yield 5.0


def _selector(kind: Kind) -> str:
    """Of kinds that are not ours, only what belongs to a queue is cached."""
    return "" if kind in (QUEUE, POOL) else QUEUE_LABEL


def _settings(inactivity_seconds: float) -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.scanning.disabled = True
    settings.watching.inactivity_timeout = inactivity_seconds
    settings.watching.connect_timeout = CONNECT_SECONDS
    settings.networking.connect_timeout = CONNECT_SECONDS
    settings.networking.request_timeout = REQUEST_SECONDS
    settings.networking.error_backoffs = _Patience()
    for kind in WATCHED:
        if labels := _selector(kind):
            settings.watching.label_selectors[kind.group, kind.version, kind.plural] = labels
    return settings
