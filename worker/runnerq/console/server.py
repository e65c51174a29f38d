"""Serves the console on a port of its own, and health and metrics on another when asked.

Refuses an address that others can reach unless the auth was said. The backend is opened and closed by
the caller; this only owns its sockets.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import logging
import socket
from typing import TYPE_CHECKING

from aiohttp import web
from prometheus_client import CollectorRegistry

from runnerq.console.app import LOOPBACK_HOSTS, create_app, create_health_app
from runnerq.console.auth import OpenAuth, is_loopback
from runnerq.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from runnerq.console.auth import Auth
    from runnerq.storage.ports import Storage

logger = logging.getLogger(__name__)

SHUTDOWN_SECONDS = 5.0


class ConsoleServer:
    """A console with `start` and `stop`. `port` 0 takes a free one; `url` tells which."""

    def __init__(
        self,
        backend: Storage,
        *,
        auth: Auth,
        queue: str | None = None,
        host: str = "127.0.0.1",
        port: int = 8080,
        metrics_port: int | None = None,
        base_path: str = "",
        all_queues: bool = True,
        queue_gauges: bool = True,
        allowed_hosts: Iterable[str] = (),
    ) -> None:
        self._backend = backend
        self._auth = auth
        self._queue = queue
        self._host = host
        self._port = port
        self._metrics_port = metrics_port
        self._base_path = _checked_base_path(base_path)
        self._all_queues = all_queues
        self._queue_gauges = queue_gauges
        self._allowed_hosts = tuple(allowed_hosts)
        self._runners: list[web.AppRunner] = []
        self.url = ""
        """Where the page is, once started."""
        self.metrics_url = ""
        """Where health and metrics are, if they have a port of their own."""

    async def start(self) -> None:
        """Listen. Raises ConfigurationError when the port cannot be had."""
        registry = CollectorRegistry()
        app = create_app(
            self._backend,
            auth=self._auth,
            queue=self._queue,
            all_queues=self._all_queues,
            base_path=self._base_path,
            hosts=self._hosts(),
            queue_gauges=self._queue_gauges,
            registry=registry,
        )
        port = await self._listen(app, self._port, field="port")
        self.url = f"http://{_shown(self._host)}:{port}{self._base_path}/"
        if self._metrics_port is not None:
            health = create_health_app(registry)
            port = await self._listen(health, self._metrics_port, field="metrics_port")
            self.metrics_url = f"http://{_shown(self._host)}:{port}/metrics"

    async def stop(self) -> None:
        """End open streams, then close the sockets."""
        while self._runners:
            await self._runners.pop().cleanup()

    async def _listen(self, app: web.Application, port: int, *, field: str) -> int:
        # A request whose client is gone is cancelled, and its query with it.
        runner = web.AppRunner(
            app, handler_cancellation=True, access_log=None, shutdown_timeout=SHUTDOWN_SECONDS
        )
        await runner.setup()
        self._runners.append(runner)
        site = web.TCPSite(runner, self._host or None, port)
        try:
            await site.start()
        except OSError as error:
            await self.stop()
            if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
                raise ConfigurationError(
                    f"{self._host!r} is no address of this machine ({error.strerror or error}); "
                    "127.0.0.1 is this machine only, 0.0.0.0 all of its addresses",
                    field="host",
                ) from error
            raise ConfigurationError(
                f"cannot listen on {self._host or '*'}:{port}: {error.strerror or error}; "
                "choose another port, or 0 for a free one",
                field=field,
            ) from error
        address: tuple[object, ...] = runner.addresses[0]
        bound = address[1]
        return bound if isinstance(bound, int) else port

    def _hosts(self) -> frozenset[str] | None:
        if isinstance(self._auth, OpenAuth) and is_loopback(self._host):
            return LOOPBACK_HOSTS | {self._host.strip("[]")} | set(self._allowed_hosts)
        return None


async def serve(
    backend: Storage,
    *,
    auth: Auth,
    queue: str | None = None,
    host: str = "127.0.0.1",
    port: int = 8080,
    metrics_port: int | None = None,
    base_path: str = "",
    queue_gauges: bool = True,
    allowed_hosts: Iterable[str] = (),
    started: Callable[[ConsoleServer], None] | None = None,
) -> None:
    """Serve until cancelled; `started` is called once the sockets listen."""
    server = ConsoleServer(
        backend,
        auth=auth,
        queue=queue,
        host=host,
        port=port,
        metrics_port=metrics_port,
        base_path=base_path,
        queue_gauges=queue_gauges,
        allowed_hosts=allowed_hosts,
    )
    await server.start()
    try:
        logger.info("console of queue %r at %s", queue or backend.default_queue, server.url)
        if started is not None:
            started(server)
        await asyncio.Event().wait()
    finally:
        await server.stop()


def _shown(host: str) -> str:
    try:
        everywhere = host == "" or ipaddress.ip_address(host.strip("[]")).is_unspecified
    except ValueError:
        return host
    if everywhere:
        return "127.0.0.1"
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def _checked_base_path(path: str) -> str:
    if not path or path == "/":
        return ""
    path = path.rstrip("/")
    if not path.startswith("/") or "//" in path or set(path) & set("{}?# "):
        raise ConfigurationError(
            f"{path!r} is not a path like /ops/rq: it starts with one slash, without ?, # or braces",
            field="base_path",
        )
    return path
