"""The console of a session: on loopback, open, over a backend of its own."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from runnerq.console import ConsoleServer, OpenAuth
from runnerq.errors import ConfigurationError, RunnerQError
from runnerq.storage.ports import Storage

logger = logging.getLogger(__name__)


@asynccontextmanager
async def serving_console(
    storage: Storage, *, queue: str, ports: Sequence[int]
) -> AsyncGenerator[str]:
    """Serve on the first of the ports that is free; the address. Brings the schema up to date first.
    Its /metrics leave out the queue's depth, which the control loop shows, as in a cluster.

    Raises ConfigurationError when none of the ports is free.
    """
    await storage.migrate()
    await storage.open()
    try:
        server = await _started(storage, queue, ports)
        try:
            yield server.url
        finally:
            await server.stop()
    finally:
        try:
            await storage.close()
        except RunnerQError as error:
            logger.debug("closing the console's backend: %s", error)


async def _started(storage: Storage, queue: str, ports: Sequence[int]) -> ConsoleServer:
    *first, last = ports
    for port in first:
        server = _server(storage, queue, port)
        try:
            await server.start()
        except ConfigurationError as error:
            logger.debug("the console cannot have port %d: %s", port, error)
        else:
            return server
    server = _server(storage, queue, last)
    await server.start()
    return server


def _server(storage: Storage, queue: str, port: int) -> ConsoleServer:
    return ConsoleServer(storage, auth=OpenAuth(), queue=queue, port=port, queue_gauges=False)
