"""One API server with the project's CRDs for all tests of this folder, a namespace for each test."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import pytest
from tests.cluster.api.server import ApiServer, api_server

from runnerq_operator.kube.api import KubeApi
from runnerq_operator.kube.connection import api_client, cluster_configuration

CHART = Path(__file__).parents[3] / "charts" / "runnerq"
RELEASE = "runnerq"


class NoObserver:
    """Requests are not counted in these tests."""

    def request(self, verb: str, resource: str, code: str, seconds: float) -> None:
        pass


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[ApiServer, None, None]:
    """With the chart installed, so that the CRDs are those that users get."""
    with api_server(tmp_path_factory.mktemp("api-server")) as running:
        running.helm("install", RELEASE, CHART, "--namespace", RELEASE, "--create-namespace")
        for crd in ("runnerqueues", "runnerworkerpools"):
            name = f"crd/{crd}.runnerq.dev"
            running.kubectl("wait", "--for=condition=Established", "--timeout=30s", name)
        yield running


@pytest.fixture
def namespace(server: ApiServer) -> str:
    name = f"test-{uuid.uuid4().hex[:8]}"
    server.kubectl("create", "namespace", name)
    return name


@pytest.fixture
async def api(server: ApiServer) -> AsyncGenerator[KubeApi, None]:
    """The API as the operator uses it, always allowed to write."""
    client = api_client(await cluster_configuration(str(server.kubeconfig)))
    yield KubeApi(client, may_write=lambda: 60.0, observer=NoObserver())
    await client.close()
