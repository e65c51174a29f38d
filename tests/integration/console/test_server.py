"""The console's own sockets: which addresses it takes, and how it starts and stops."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import aiohttp
import pytest

from runnerq.console import ConsoleServer, OpenAuth, TokenAuth, serve
from runnerq.errors import ConfigurationError
from runnerq.storage.memory import MemoryBackend


async def status_of(url: str, headers: dict[str, str] | None = None) -> int:
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as response:
        return response.status


async def test_a_free_port_is_taken_and_told() -> None:
    server = ConsoleServer(MemoryBackend("q"), auth=OpenAuth(), port=0, metrics_port=0)
    await server.start()
    try:
        assert await status_of(server.url) == 200
        assert await status_of(server.metrics_url) == 200
        assert await status_of(server.metrics_url.replace("/metrics", "/healthz")) == 200
        assert await status_of(server.metrics_url.replace("/metrics", "/readyz")) == 200
    finally:
        await server.stop()
    with pytest.raises(aiohttp.ClientConnectionError):
        await status_of(server.url)


async def test_the_metrics_port_serves_nothing_that_needs_a_login() -> None:
    server = ConsoleServer(
        MemoryBackend("q"), auth=TokenAuth("operator-token"), port=0, metrics_port=0
    )
    await server.start()
    try:
        base = server.metrics_url.removesuffix("/metrics")
        assert await status_of(f"{base}/api/observability/stats") == 404
        assert await status_of(f"{base}/") == 404
    finally:
        await server.stop()


async def test_a_taken_port_is_an_error_that_names_it() -> None:
    first = ConsoleServer(MemoryBackend("q"), auth=OpenAuth(), port=0)
    await first.start()
    port = int(first.url.rstrip("/").rsplit(":", 1)[1])
    try:
        with pytest.raises(ConfigurationError, match=rf"^port: cannot listen on .*:{port}"):
            await ConsoleServer(MemoryBackend("q"), auth=OpenAuth(), port=port).start()
    finally:
        await first.stop()


async def test_it_can_be_started_and_stopped_again() -> None:
    server = ConsoleServer(MemoryBackend("q"), auth=OpenAuth(), port=0)
    for _ in range(2):
        await server.start()
        assert await status_of(server.url) == 200
        await server.stop()
        await server.stop()


async def test_an_open_console_on_this_machine_answers_to_its_own_names_only() -> None:
    server = ConsoleServer(
        MemoryBackend("q"), auth=OpenAuth(), port=0, allowed_hosts=["Ops.Example"]
    )
    await server.start()
    try:
        assert await status_of(server.url, headers={"Host": "evil.example"}) == 421
        assert await status_of(server.url, headers={"Host": "ops.example"}) == 200
    finally:
        await server.stop()


async def test_serving_ends_with_its_task() -> None:
    started: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    serving = asyncio.ensure_future(
        serve(
            MemoryBackend("q"),
            auth=OpenAuth(),
            port=0,
            started=lambda server: started.set_result(server.url),
        )
    )
    url = await started
    assert await status_of(url) == 200
    serving.cancel()
    with suppress(asyncio.CancelledError):
        await serving
    with pytest.raises(aiohttp.ClientConnectionError):
        await status_of(url)


@pytest.mark.parametrize("path", ["ops", "//ops", "/ops//rq", "/ops?x", "/{ops}", "/a b"])
def test_a_path_in_front_that_cannot_be_one_is_refused(path: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^base_path: "):
        ConsoleServer(MemoryBackend("q"), auth=OpenAuth(), base_path=path)


async def test_a_path_in_front_is_part_of_the_address() -> None:
    server = ConsoleServer(MemoryBackend("q"), auth=OpenAuth(), port=0, base_path="/ops/rq/")
    await server.start()
    try:
        assert server.url.endswith("/ops/rq/")
        assert await status_of(server.url) == 200
    finally:
        await server.stop()


@pytest.mark.parametrize("host", ["no-such-host.invalid", "192.0.2.1"])
async def test_a_host_that_is_not_this_machine_is_named_instead_of_the_port(host: str) -> None:
    server = ConsoleServer(MemoryBackend(), auth=OpenAuth(), host=host, port=0)
    with pytest.raises(ConfigurationError, match=rf"^host: '{host}' is no address"):
        await server.start()
