"""The worker's HTTP port."""

from __future__ import annotations

import http.client
import socket
import threading
from typing import TYPE_CHECKING

import pytest
from tests.unit.engine.rig import Rig

from runnerq import NoopMetrics, PrometheusMetrics, activity
from runnerq.engine.health import HealthServer

if TYPE_CHECKING:
    from collections.abc import Iterator


@activity("work")
async def work() -> None: ...


def ask(server: HealthServer, path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


@pytest.fixture
def threads() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    assert not [thread for thread in set(threading.enumerate()) - before if "health" in thread.name]


@pytest.mark.usefixtures("threads")
async def test_readiness_follows_the_engine_and_not_its_load(rig: Rig) -> None:
    metrics = PrometheusMetrics()
    engine = rig.make(work, metrics=metrics)
    server = HealthServer(engine, metrics, port=0, host="127.0.0.1")
    server.start()
    try:
        assert ask(server, "/healthz") == (200, "new")
        assert ask(server, "/readyz") == (503, "new")
        await engine.start()
        assert ask(server, "/readyz") == (200, "running")
        rig.backend.cut_off()
        assert ask(server, "/readyz") == (200, "running")
        rig.backend.heal()
        await rig.result(await rig.enqueue("work"))
        status, text = ask(server, "/metrics?format=text")
        assert status == 200
        assert 'runnerq_activities_started_total{queue="q",type="work"} 1.0' in text
        assert ask(server, "/elsewhere")[0] == 404
        await engine.stop()
        assert ask(server, "/healthz") == (503, "stopped")
        assert ask(server, "/readyz") == (503, "stopped")
    finally:
        server.stop()


@pytest.mark.usefixtures("threads")
async def test_metrics_that_go_elsewhere_are_not_shown_here(rig: Rig) -> None:
    server = HealthServer(rig.make(work), NoopMetrics(), port=0, host="127.0.0.1")
    server.start()
    assert ask(server, "/metrics")[0] == 501
    server.stop()


@pytest.mark.usefixtures("threads")
async def test_a_server_that_never_started_stops(rig: Rig) -> None:
    HealthServer(rig.make(work), NoopMetrics(), port=0, host="127.0.0.1").stop()


@pytest.mark.usefixtures("threads")
async def test_a_port_in_use_is_an_error_at_once(rig: Rig) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match="in use"):
            HealthServer(rig.make(work), NoopMetrics(), port=port, host="127.0.0.1")


@pytest.mark.usefixtures("threads")
async def test_a_client_that_says_nothing_does_not_hold_up_the_others(rig: Rig) -> None:
    server = HealthServer(rig.make(work), NoopMetrics(), port=0, host="127.0.0.1")
    server.start()
    try:
        with socket.create_connection(("127.0.0.1", server.port)):
            assert ask(server, "/healthz") == (200, "new")
    finally:
        server.stop()
