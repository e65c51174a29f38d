"""One installation and one place with a database for all tests of this folder."""

from __future__ import annotations

import secrets
from collections.abc import Generator

import pytest
from tests.cluster.conftest import LoadImage
from tests.cluster.e2e.installation import Installation
from tests.cluster.e2e.place import Place
from tests.cluster.images.recipes import DOCS_INDEX_IMAGE, OPERATOR_IMAGE, POSTGRES_IMAGE
from tests.cluster.provider import Cluster
from tests.cluster.stages import Stages


@pytest.fixture(scope="session")
def installation(
    cluster: Cluster, load_image: LoadImage, stages: Stages
) -> Generator[Installation]:
    """The operator, installed by the chart."""
    image = load_image(OPERATOR_IMAGE)
    made = Installation(cluster)
    with stages.stage("helm install"):
        made.install(image)
    yield made
    made.remove()


@pytest.fixture(scope="session")
def place(
    cluster: Cluster, installation: Installation, load_image: LoadImage, stages: Stages
) -> Generator[Place]:
    """A namespace with a database, under the restricted Pod Security Standard."""
    load_image(POSTGRES_IMAGE)
    made = Place(cluster, f"e2e-{secrets.token_hex(3)}", load_image(DOCS_INDEX_IMAGE))
    cluster.kubectl("create", "namespace", made.namespace)
    cluster.kubectl(
        "label", "namespace", made.namespace, "pod-security.kubernetes.io/enforce=restricted"
    )
    with stages.stage("database"):
        made.prepare()
    yield made
    cluster.kubectl("delete", "namespace", made.namespace, "--wait=false")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show what the operator said when a test failed: it is what one asks for first."""
    report = yield
    values = getattr(item, "funcargs", {})
    made = values.get("installation")
    if report.when == "call" and report.failed and isinstance(made, Installation):
        report.sections.append(("operator", made.logs()))
    return report
