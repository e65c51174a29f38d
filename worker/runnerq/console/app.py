"""Puts the console together: one aiohttp application with its routes, gate, live part and metrics.

Three ways in: `create_app` for a console of its own, `runnerq_ui` and `observability_api` to mount in
an app of yours at any path. A mounted one is as open as the app around it, and read-only until you say
with `auth=` who may act.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest

from runnerq.console.access import access_middleware, add_headers
from runnerq.console.api import ObservabilityApi
from runnerq.console.auth import HostAuth
from runnerq.console.context import Console
from runnerq.console.hub import Hub
from runnerq.console.metrics import ConsoleMetrics, QueueGauges
from runnerq.console.page import Page, unauthenticated
from runnerq.console.problems import problems_middleware
from runnerq.console.reads import TIMEOUT_SECONDS, Reads
from runnerq.console.sampler import SAMPLE_SECONDS
from runnerq.console.sse import HEARTBEAT_SECONDS, LiveStream

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aiohttp.typedefs import Handler, Middleware

    from runnerq.console.auth import Auth
    from runnerq.inspector import QueueInspector
    from runnerq.storage.ports import Storage

API = "/api/observability"
LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})


def create_app(
    backend: Storage,
    *,
    auth: Auth,
    queue: str | None = None,
    all_queues: bool = True,
    base_path: str = "",
    hosts: Iterable[str] | None = None,
    queue_gauges: bool = True,
    registry: CollectorRegistry | None = None,
    query_timeout: float = TIMEOUT_SECONDS,
    heartbeat_seconds: float = HEARTBEAT_SECONDS,
    sample_seconds: float = SAMPLE_SECONDS,
) -> web.Application:
    """The whole console over an open backend, which stays the caller's to close.

    `queue` is what it opens on, `all_queues` whether others of the backend may be looked at too.
    `base_path` ("/ops/rq") is for a proxy that does not strip its prefix. `hosts` limits the Host
    names that are answered. `queue_gauges` False leaves the queue's depth out of /metrics.
    `sample_seconds` is how often the backend is looked at for all open pages together.
    """
    registry = CollectorRegistry() if registry is None else registry
    console, gauges = _console(
        backend,
        queue=queue,
        auth=auth,
        all_queues=all_queues,
        hosts=hosts,
        queue_gauges=queue_gauges,
        registry=registry,
        query_timeout=query_timeout,
        sample_seconds=sample_seconds,
    )
    registry.register(gauges)
    health = _health_routes(registry)
    app = _application(
        console,
        open_routes=Page(console).routes() + ([] if base_path else health),
        api_prefix=API,
        heartbeat_seconds=heartbeat_seconds,
    )
    if not base_path:
        return app
    root = web.Application()
    root.add_routes(health)
    root.add_subapp(base_path, app)
    return root


def create_health_app(registry: CollectorRegistry) -> web.Application:
    """Health and metrics alone, for a port that only the cluster reaches."""
    app = web.Application()
    app.add_routes(_health_routes(registry))
    return app


def runnerq_ui(inspector: QueueInspector, *, auth: Auth | None = None) -> web.Application:
    """The page and its API over one queue, for `app.add_subapp("/ops/queue", runnerq_ui(...))`."""
    console = _mounted(inspector, auth)
    return _application(console, open_routes=Page(console).routes(), api_prefix=API)


def observability_api(inspector: QueueInspector, *, auth: Auth | None = None) -> web.Application:
    """The API alone, for a page of yours: `app.add_subapp("/api/observability", ...)`."""
    return _application(_mounted(inspector, auth), open_routes=(), api_prefix="")


def _mounted(inspector: QueueInspector, auth: Auth | None) -> Console:
    console, _ = _console(
        inspector.backend,
        queue=inspector.queue,
        auth=HostAuth() if auth is None else auth,
        all_queues=False,
        hosts=None,
        queue_gauges=False,
        registry=CollectorRegistry(),
    )
    return console


def _console(
    backend: Storage,
    *,
    queue: str | None,
    auth: Auth,
    all_queues: bool,
    hosts: Iterable[str] | None,
    queue_gauges: bool,
    registry: CollectorRegistry,
    query_timeout: float = TIMEOUT_SECONDS,
    sample_seconds: float = SAMPLE_SECONDS,
) -> tuple[Console, QueueGauges]:
    metrics = ConsoleMetrics(registry)
    name = backend.default_queue if queue is None else queue
    reads = Reads(backend, metrics, queue=name, all_queues=all_queues, timeout=query_timeout)
    gauges = QueueGauges(name, backend.capabilities.name, detailed=queue_gauges)
    hub = Hub(reads, metrics, gauges, sample_seconds=sample_seconds)
    allowed = None if hosts is None else frozenset(host.lower() for host in hosts)
    return Console(reads, hub, metrics, auth, allowed), gauges


def _application(
    console: Console,
    *,
    open_routes: Iterable[web.RouteDef],
    api_prefix: str,
    heartbeat_seconds: float = HEARTBEAT_SECONDS,
) -> web.Application:
    opened: set[web.AbstractResource] = set()
    app = web.Application(
        middlewares=[
            _measure(console.metrics),
            problems_middleware,
            access_middleware(console, opened=opened, unauthenticated=unauthenticated),
        ]
    )
    for route in app.add_routes(open_routes):
        if route.resource is not None:
            opened.add(route.resource)
    app.add_routes(ObservabilityApi(console).routes(api_prefix))
    app.add_routes(LiveStream(console, heartbeat_seconds=heartbeat_seconds).routes(api_prefix))

    async def start(_: web.Application) -> None:
        await console.hub.start()

    async def shut(_: web.Application) -> None:
        console.hub.close_clients()

    async def stop(_: web.Application) -> None:
        await console.hub.stop()

    app.on_startup.append(start)
    app.on_shutdown.append(shut)
    app.on_cleanup.append(stop)
    app.on_response_prepare.append(add_headers)
    return app


def _health_routes(registry: CollectorRegistry) -> list[web.RouteDef]:
    async def healthy(request: web.Request) -> web.Response:
        # Up means that this process answers. It must not depend on the backend: a console that is
        # restarted because the database is away could not even say so.
        return web.Response(text="ok\n")

    async def metrics(request: web.Request) -> web.Response:
        return web.Response(
            body=generate_latest(registry),
            headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"},
        )

    return [
        web.get("/healthz", healthy),
        web.get("/readyz", healthy),
        web.get("/metrics", metrics),
    ]


def _measure(metrics: ConsoleMetrics) -> Middleware:
    @web.middleware
    async def measure(request: web.Request, handler: Handler) -> web.StreamResponse:
        started = time.perf_counter()
        response = await handler(request)
        resource = request.match_info.route.resource
        route = "unmatched" if resource is None else resource.canonical
        metrics.requests.labels(route, request.method, str(response.status)).inc()
        if response.content_type != "text/event-stream":
            elapsed = time.perf_counter() - started
            metrics.request_seconds.labels(route, request.method).observe(elapsed)
        return response

    return measure
