"""A session's metrics, on loopback: what the control loop measures, and where everything else is.

`/metrics` shows what the leader of a cluster's operator would. `/targets` lists every process of the
session that has metrics, as Prometheus' HTTP service discovery asks for it: workers come and go, each on
a port of its own. It never collects what they measure; that is the scraper's work.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest

from runnerq.errors import ConfigurationError
from runnerq_operator.fleet.process import ProcessFleet

logger = logging.getLogger(__name__)

_HOST = "127.0.0.1"

TargetGroup = Mapping[str, Sequence[str] | Mapping[str, str]]
"""One entry of HTTP service discovery: `targets` (host:port) and their `labels`."""


@asynccontextmanager
async def serving_metrics(
    registry: CollectorRegistry,
    others: Callable[[], Sequence[TargetGroup]],
    *,
    ports: Sequence[int],
) -> AsyncGenerator[str]:
    """Serve on the first of the ports that is free; the address, without a path.

    Raises ConfigurationError when none of the ports is free.
    """
    own = ""

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(
            body=generate_latest(registry),
            headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"},
        )

    async def targets(_: web.Request) -> web.Response:
        return web.json_response([_group("runnerq-control", [own]), *others()])

    app = web.Application()
    app.add_routes([web.get("/metrics", metrics), web.get("/targets", targets)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        own = f"{_HOST}:{await _listen(runner, ports)}"
        yield f"http://{own}"
    finally:
        await runner.cleanup()


def session_targets(fleet: ProcessFleet, console_url: str) -> list[TargetGroup]:
    """The console and the workers. Those of a pool carry its name, as their pods would."""
    workers = [
        _group("runnerq-worker", addresses, pool=pool.object_name)
        for pool, addresses in sorted(fleet.addresses().items())
    ]
    return [_group("runnerq-console", [urlsplit(console_url).netloc]), *workers]


def _group(job: str, addresses: Sequence[str], **labels: str) -> TargetGroup:
    return {"targets": addresses, "labels": {"job": job, **labels}}


async def _listen(runner: web.AppRunner, ports: Sequence[int]) -> int:
    for port in ports:
        try:
            await web.TCPSite(runner, _HOST, port).start()
        except OSError as error:
            logger.debug("metrics cannot have port %d: %s", port, error)
        else:
            return int(runner.addresses[0][1])
    raise ConfigurationError(
        f"cannot listen on {_HOST}:{ports[-1]}; choose another port, or 0 for a free one",
        field="--metrics-port",
    )
