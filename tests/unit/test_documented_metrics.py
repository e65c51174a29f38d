"""docs/metrics.md against what a session on one machine does not show: the operator and a lone console.

The comparison itself is tested too: one that finds nothing proves nothing.
"""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer
from prometheus_client import CollectorRegistry
from tests.conformance.eventually import eventually
from tests.documented_metrics import Documented, documented, problems

from runnerq.console import OpenAuth, create_app
from runnerq.storage.memory import MemoryBackend
from runnerq_operator.kube.caches import Caches
from runnerq_operator.kube.health import Health
from runnerq_operator.kube.kinds import QUEUE
from runnerq_operator.kube.leadership import Leadership
from runnerq_operator.kube.metrics import ObjectGauges, OperatorMetrics
from runnerq_operator.kube.watches import WatchAges

PAGE = """\
# HELP runnerq_things_total Things.
# TYPE runnerq_things_total counter
runnerq_things_total{queue="a"} 1
"""
THINGS = {"runnerq_things_total": Documented("counter", "Things.", frozenset({"queue"}))}


def queue_object() -> dict[str, Any]:
    return {
        "metadata": {
            "namespace": "shop",
            "name": "mail",
            "uid": "1",
            "resourceVersion": "1",
            "generation": 3,
        },
        "status": {
            "observedGeneration": 2,
            "conditions": [{"type": "Ready", "status": "True", "reason": "AllGood"}],
        },
    }


async def page_of(app: Any) -> str:
    async with TestClient(TestServer(app)) as client:
        return await (await client.get("/metrics")).text()


async def test_the_operator_shows_what_is_documented_and_nothing_else() -> None:
    metrics = OperatorMetrics(CollectorRegistry())
    caches, leadership = Caches(None), Leadership()
    ages = WatchAges(restarted=metrics.watch_restarted)
    metrics.registry.register(ObjectGauges(caches, ages, leadership))
    caches[QUEUE].observe(queue_object(), deleted=False)
    leadership.trust_until(leadership.now() + 60)
    ages.expect(QUEUE.plural, "")
    metrics.request("get", QUEUE.plural, "200", 0.01)
    metrics.drift("Deployment", "spec.replicas")
    metrics.watch_restarted(QUEUE.plural)
    page = await page_of(Health(metrics.registry, caches, ages, leadership).app())
    loop = documented("Control loop")
    expected = {
        **documented("Operator"),
        "runnerq_resource_condition": loop["runnerq_resource_condition"],
    }
    assert problems(page, expected) == []
    assert 'runnerq_resource_generation_lag{kind="RunnerQueue"' in page


async def test_a_console_alone_shows_the_queue_too() -> None:
    backend = MemoryBackend("shop")
    await backend.open()
    try:
        app = create_app(backend, auth=OpenAuth())
        async with TestClient(TestServer(app)) as client:

            async def read() -> str:
                page = await (await client.get("/metrics")).text()
                return page if "runnerq_workers" in page else ""

            page = await eventually(read)
    finally:
        await backend.close()
    expected = {**documented("Console"), **documented("Console without an operator")}
    assert problems(page, expected) == []


def test_the_comparison_agrees_with_a_page_that_is_as_documented() -> None:
    assert problems(PAGE, THINGS) == []


@pytest.mark.parametrize(
    ("page", "says"),
    [
        ("", "is documented but not shown"),
        (PAGE.replace("things", "others"), "runnerq_others_total is shown but not documented"),
        (PAGE.replace("queue=", "pod="), "has labels"),
        (PAGE.replace("Things.", "Stuff."), "documented as"),
        (PAGE.replace(" counter", " gauge"), "documented as"),
    ],
)
def test_the_comparison_finds_every_difference(page: str, says: str) -> None:
    assert says in "; ".join(problems(page, THINGS))
