"""The operator's process with the rights of the chart, in scope Namespaced, on a real API server.

No backend answers and no pod runs: what is looked at is what the process does to the API server.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.cluster.api.conftest import CHART
from tests.cluster.api.server import ApiServer

from runnerq_operator.kube.program import OperatorProgram
from runnerq_operator.kube.settings import OperatorSettings

pytestmark = pytest.mark.cluster

QUEUE = {
    "apiVersion": "runnerq.dev/v1alpha1",
    "kind": "RunnerQueue",
    "metadata": {"name": "emails"},
    "spec": {
        "backend": {"postgres": {"urlSecretRef": {"name": "database"}}},
        "console": {"auth": {"mode": "None"}},
        "template": {"spec": {"containers": [{"name": "worker", "image": "shop:1"}]}},
        "pools": [{"name": "bulk", "app": "shop", "activityTypes": ["*"]}],
    },
}


class Running:
    def __init__(self, server: ApiServer, settings: OperatorSettings) -> None:
        self.server = server
        self.settings = settings
        self.program = OperatorProgram(settings)

    async def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        return await asyncio.to_thread(self.server.kubectl, *arguments, stdin=stdin)

    async def lease(self) -> dict[str, Any]:
        namespace, name = self.settings.own_namespace, self.settings.lease
        text = await self.kubectl("get", "lease", name, "-n", namespace, "-o", "json")
        return json.loads(text)["spec"]

    async def fetch(self, path: str) -> tuple[int, str]:
        url = f"http://127.0.0.1:{self.settings.metrics_port}{path}"
        async with aiohttp.ClientSession() as session, session.get(url) as response:
            return response.status, await response.text()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@asynccontextmanager
async def running(server: ApiServer, namespace: str, folder: Path) -> AsyncGenerator[Running]:
    """The program under the service account of a release that may only touch `namespace`."""
    release = f"runnerq-{secrets.token_hex(3)}"
    options = ["--set", "scope=Namespaced", "--set", "crds.enabled=false", "--set", "replicas=0"]
    await asyncio.to_thread(
        server.helm, "install", release, CHART, "--namespace", namespace, *options
    )
    token = await asyncio.to_thread(server.kubectl, "create", "token", release, "-n", namespace)
    config = json.loads(server.kubeconfig.read_text())
    config["users"][0]["user"]["token"] = token.strip()
    kubeconfig = folder / f"{release}.json"
    kubeconfig.write_text(json.dumps(config))
    there = Running(
        server,
        OperatorSettings(
            own_namespace=namespace,
            identity=f"{release}_1",
            lease=release,
            namespaces=(namespace,),
            console_image="operator:1",
            metrics_port=free_port(),
            kubeconfig=str(kubeconfig),
        ),
    )
    task = asyncio.create_task(there.program.run())
    try:
        yield there
    finally:
        there.program.stop()
        await asyncio.wait_for(task, 30)


async def until(condition: Any, *, seconds: float, what: str) -> Any:
    """Ask until the answer is something; the same as `tests.cluster.waiting`, without blocking."""
    async with asyncio.timeout(seconds):
        while True:
            try:
                answer = await condition()
            except (aiohttp.ClientError, RuntimeError):
                answer = None
            if answer:
                return answer
            await asyncio.sleep(0.1)
    raise AssertionError(what)


async def test_the_rights_of_one_namespace_are_enough_and_everything_is_made(
    server: ApiServer, namespace: str, tmp_path: Path
):
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "database"}}
    address = {"url": "postgresql://nobody@127.0.0.1:1/none?connect_timeout=1"}
    async with running(server, namespace, tmp_path) as there:
        for body in ({**secret, "stringData": address}, QUEUE):
            await there.kubectl("apply", "-n", namespace, "-f", "-", stdin=json.dumps(body))

        async def made() -> bool:
            names = await there.kubectl("get", "deploy,svc,rwp", "-n", namespace, "-o", "name")
            return {
                "deployment.apps/emails-bulk",
                "deployment.apps/emails-console",
                "service/emails-console",
                "runnerworkerpool.runnerq.dev/emails-bulk",
            } <= set(names.split())

        await until(made, seconds=30, what="deployments, service and pool")

        async def said() -> bool:
            text = await there.kubectl("get", "rq", "emails", "-n", namespace, "-o", "json")
            conditions = json.loads(text).get("status", {}).get("conditions", [])
            reasons = {one["type"]: one["reason"] for one in conditions}
            return reasons.get("BackendReachable") == "NoAnswer"

        await until(said, seconds=30, what="the condition")
        _, metrics = await there.fetch("/metrics")
        refused = [line for line in metrics.splitlines() if 'code="403"' in line]
        assert not refused


async def test_health_and_metrics_are_served_and_are_those_of_the_documentation(
    server: ApiServer, namespace: str, tmp_path: Path
):
    async with running(server, namespace, tmp_path) as there:

        async def leading() -> bool:
            _, text = await there.fetch("/healthz")
            return json.loads(text)["leading"]

        await until(leading, seconds=30, what="leadership")
        assert await there.fetch("/readyz") == (200, "ready\n")
        await there.kubectl("apply", "-n", namespace, "-f", "-", stdin=json.dumps(QUEUE))

        async def conditions() -> str | None:
            _, text = await there.fetch("/metrics")
            wanted = ("runnerq_resource_generation_lag{", "runnerq_operator_reconciles_total{")
            return text if all(name in text for name in wanted) else None

        text = await until(conditions, seconds=30, what="the queue's conditions")
        shown = set(
            re.findall(r"^# TYPE (runnerq_\w+) (?:counter|gauge|histogram)", text, re.MULTILINE)
        )
        shown = {name for name in shown if not name.endswith("_created")}
        page = (CHART.parents[1] / "docs" / "metrics.md").read_text()
        documented = set(re.findall(r"^\| `(runnerq_\w+)`", page, re.MULTILINE))
        assert {name for name in shown if name not in documented} == set()
        operator = set(
            re.findall(r"^\| `(runnerq_operator_\w+|runnerq_resource_\w+)`", page, re.MULTILINE)
        )
        # Shown once there is something to count.
        sometimes = {
            "runnerq_operator_drift_corrections_total",
            "runnerq_operator_watch_restarts_total",
        }
        assert operator - shown - sometimes == set()


async def test_a_stopped_operator_gives_its_lease_back(
    server: ApiServer, namespace: str, tmp_path: Path
):
    async with running(server, namespace, tmp_path) as there:

        async def held() -> bool:
            return (await there.lease())["holderIdentity"] == there.settings.identity

        await until(held, seconds=30, what="the lease")
    assert (await there.lease()).get("holderIdentity", "") == ""
