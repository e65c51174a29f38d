"""Fixtures of the tests that need a real Kubernetes.

A test that asks for `cluster` carries the marker `cluster`, and its time limit starts when the
cluster is there: the first run on a machine builds it.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import Callable, Generator

import pytest
from _pytest.capture import CaptureManager
from tests.cluster.commands import CommandFailed
from tests.cluster.images.base import BASE_IMAGE
from tests.cluster.images.builder import ImageBuilder, choose_builder
from tests.cluster.local.cluster import DEFAULT_NAME
from tests.cluster.provider import Cluster
from tests.cluster.providers import open_cluster
from tests.cluster.stages import Stages

KEEP_VARIABLE = "RUNNERQ_TEST_KEEP_CLUSTER"
_SECONDS_PER_TEST = 300

LoadImage = Callable[[str], str]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs the cluster, so that `-m "not cluster"` leaves it out."""
    for item in items:
        if isinstance(item, pytest.Function) and "cluster" in item.fixturenames:
            item.add_marker(pytest.mark.cluster)
        if item.get_closest_marker("cluster") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(_SECONDS_PER_TEST, func_only=True))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add what the cluster looked like to the report of a test that failed on it."""
    report = yield
    arguments: dict[str, object] = getattr(item, "funcargs", {})
    running, namespace = arguments.get("cluster"), arguments.get("namespace")
    if report.failed and isinstance(running, Cluster):
        report.sections.append(("cluster", _picture(running, namespace)))
    return report


def _picture(running: Cluster, namespace: object) -> str:
    where = ["-n", namespace] if isinstance(namespace, str) else ["-A"]
    parts: list[str] = []
    for question in (
        ["get", "pods", "-A", "-o", "wide"],
        ["get", "events", *where, "--sort-by=.lastTimestamp"],
    ):
        try:
            lines = running.kubectl(*question, timeout=20).splitlines()
        except (CommandFailed, subprocess.TimeoutExpired) as error:
            lines = [str(error)]
        parts.append("\n".join(lines[:1] + lines[1:][-40:]))
    return "\n\n".join(parts)


@pytest.fixture(scope="session")
def stages(pytestconfig: pytest.Config) -> Stages:
    """Progress of what takes long, past pytest's capture: minutes of silence look like a hang."""
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")
    if not isinstance(capture, CaptureManager):
        return Stages()

    def past_capture(line: str) -> None:
        with capture.global_and_fixture_disabled():
            print(line, file=sys.stderr, flush=True)

    return Stages(write=past_capture)


@pytest.fixture(scope="session")
def cluster(stages: Stages) -> Generator[Cluster]:
    """A running cluster of this session's own, gone afterwards.

    With RUNNERQ_TEST_KEEP_CLUSTER=1 it is the one that `python -m tests.cluster up` starts: found
    running or started, and left running for the next session.
    """
    keep = os.environ.get(KEEP_VARIABLE) == "1"
    name = DEFAULT_NAME if keep else f"tests-{os.getpid()}"
    running = open_cluster(stages, name=name, own=not keep)
    yield running
    if not keep:
        with stages.stage("cluster down"):
            running.down()


@pytest.fixture(scope="session")
def image_builder(stages: Stages) -> ImageBuilder:
    """Builds the images of `tests.cluster.images.recipes`."""
    return choose_builder(stages)


@pytest.fixture(scope="session")
def load_image(cluster: Cluster, image_builder: ImageBuilder, stages: Stages) -> LoadImage:
    """Call it with an image's name: builds it, loads it into the cluster, returns the name.

    The second call for the same image in a session does nothing.
    """
    loaded: set[str] = set()

    def load(image: str) -> str:
        if image not in loaded:
            archive = image_builder.build(image)
            with stages.stage(f"loading {image}"):
                cluster.load_image(archive, image)
            loaded.add(image)
        return image

    return load


@pytest.fixture(scope="session")
def python_image(load_image: LoadImage) -> str:
    """Name of an image with Python 3.11 and nothing else, present on every node."""
    return load_image(BASE_IMAGE)


@pytest.fixture
def namespace(cluster: Cluster) -> Generator[str]:
    """A namespace of this test's own that enforces the restricted Pod Security Standard."""
    name = f"test-{secrets.token_hex(4)}"
    cluster.kubectl("create", "namespace", name)
    cluster.kubectl("label", "namespace", name, "pod-security.kubernetes.io/enforce=restricted")
    yield name
    cluster.kubectl("delete", "namespace", name, "--wait=false")
