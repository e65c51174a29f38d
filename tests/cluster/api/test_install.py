"""The chart on a real API server: installed, upgraded, and what is refused afterwards."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from tests.cluster.api.conftest import CHART, RELEASE
from tests.cluster.api.server import ApiServer
from tests.cluster.commands import CommandFailed

pytestmark = pytest.mark.cluster

ROOT = CHART.parents[1]


def queue(**spec: Any) -> dict[str, Any]:
    """A RunnerQueue that is valid but for what is given."""
    base: dict[str, Any] = {
        "backend": {"postgres": {"urlSecretRef": {"name": "database"}}},
        "pools": [pool()],
    }
    return {
        "apiVersion": "runnerq.dev/v1alpha1",
        "kind": "RunnerQueue",
        "metadata": {"name": "emails"},
        "spec": {**base, **spec},
    }


def pool(**fields: Any) -> dict[str, Any]:
    return {"name": "bulk", "app": "shop.activities", "activityTypes": ["send_*"], **fields}


def test_the_notes_say_how_to_go_on(server: ApiServer):
    notes = server.helm("get", "notes", RELEASE, "--namespace", RELEASE)
    commands = [line.strip() for line in notes.splitlines() if line.startswith("     ")]
    assert [command.split()[0] for command in commands] == ["kubectl"] * 4
    assert f"rollout status deployment/{RELEASE}" in commands[0]


def test_an_upgrade_changes_what_is_asked_and_keeps_the_crds(server: ApiServer):
    server.helm("upgrade", RELEASE, CHART, "--namespace", RELEASE, "--set", "replicas=1")
    try:
        made = json.loads(server.kubectl("get", "deployment", RELEASE, "-n", RELEASE, "-o", "json"))
        assert made["spec"]["replicas"] == 1
        assert server.kubectl("get", "crd", "runnerqueues.runnerq.dev")
    finally:
        server.helm("upgrade", RELEASE, CHART, "--namespace", RELEASE, "--set", "replicas=2")


def test_everything_that_the_chart_renders_passes_a_server_side_dry_run(
    server: ApiServer, namespace: str
):
    values = ["--set", "networkPolicy.enabled=true", "--set", "dashboards.enabled=true"]
    values += ["--set", "scope=Namespaced", "--set", "crds.enabled=false"]
    values += ["--kube-version", "1.36.3"]
    text = server.helm("template", "other", CHART, "--namespace", namespace, *values)
    server.kubectl("apply", "--dry-run=server", "-f", "-", stdin=text)


def test_the_examples_queue_is_accepted_and_kubectl_knows_its_columns(
    server: ApiServer, namespace: str
):
    example = (ROOT / "examples" / "docs_index" / "queue.yaml").read_text()
    server.kubectl("apply", "-n", namespace, "-f", "-", stdin=example)
    header = server.kubectl("get", "rq", "-n", namespace).splitlines()[0].split()
    assert header == [
        *("NAME", "BACKEND", "POOLS", "BACKLOG", "OLDEST", "WORKERS", "COVERAGE", "READY", "AGE")
    ]
    text = server.kubectl("explain", "runnerqueue.spec.pools.scaling.minReplicas")
    assert "0 allows none" in text


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        pytest.param(
            {"pools": [pool(scaling={"minReplicas": 5, "maxReplicas": 2})]},
            r"minReplicas.*is above scaling\.maxReplicas",
            id="min above max",
        ),
        pytest.param(
            {
                "backend": {
                    "postgres": {"urlSecretRef": {"name": "a"}},
                    "redis": {"urlSecretRef": {"name": "b"}},
                }
            },
            "backend: give exactly one of postgres and redis",
            id="two backends",
        ),
        pytest.param({"backend": {}}, "backend: give exactly one", id="no backend"),
        pytest.param(
            {"pools": [pool(activityTypes=["send*mail"])]},
            r"activityTypes.*one trailing star",
            id="a star in the middle",
        ),
        pytest.param(
            {"pools": [pool(), pool(activityTypes=["other"])]},
            r'spec\.pools\[1\]: Duplicate value.*"bulk"',
            id="the same pool twice",
        ),
        pytest.param(
            {"pools": [pool(name="console")]}, "console` is taken", id="the console's name"
        ),
        pytest.param(
            {"pools": [pool(activityTypes=["*"]), pool(name="b", activityTypes=["*"])]},
            "only one pool may have the catch-all",
            id="two catch-alls",
        ),
        pytest.param(
            {"console": {"auth": {}}},
            r"console\.auth: give exactly one of tokenSecretRef and mode",
            id="a console without auth",
        ),
        pytest.param(
            {"maxReplicas": 1, "pools": [pool(scaling={"minReplicas": 3})]},
            "maxReplicas: is below the sum",
            id="a budget below the minimum",
        ),
        pytest.param({"pools": []}, "spec.pools", id="no pools"),
        pytest.param({"pool": []}, 'unknown field "spec.pool"', id="a misspelt field"),
    ],
)
def test_a_queue_that_cannot_be_meant_is_refused_by_kubectl_apply(
    server: ApiServer, namespace: str, wrong: dict[str, Any], named: str
):
    with pytest.raises(CommandFailed, match=named):
        server.kubectl("apply", "-n", namespace, "-f", "-", stdin=json.dumps(queue(**wrong)))
    assert (
        "No resources" in server.kubectl("get", "rq", "-n", namespace)
        or not json.loads(server.kubectl("get", "rq", "-n", namespace, "-o", "json"))["items"]
    )


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"queueName": "other"}, "queueName: cannot be changed"),
        (
            {"backend": {"postgres": {"urlSecretRef": {"name": "database"}, "schema": "other"}}},
            r"backend\.postgres\.schema: cannot be changed",
        ),
        (
            {"backend": {"redis": {"urlSecretRef": {"name": "database"}}}},
            "backend: its kind cannot be changed",
        ),
    ],
)
def test_what_cannot_change_is_refused_later(
    server: ApiServer, namespace: str, change: dict[str, Any], named: str
):
    server.kubectl("apply", "-n", namespace, "-f", "-", stdin=json.dumps(queue()))
    with pytest.raises(CommandFailed, match=named):
        server.kubectl("apply", "-n", namespace, "-f", "-", stdin=json.dumps(queue(**change)))


def test_the_crds_in_the_cluster_are_the_files_of_the_repository(server: ApiServer):
    for path in sorted((ROOT / "crds").glob("*.yaml")):
        wanted = yaml.safe_load(path.read_text())
        name = wanted["metadata"]["name"]
        stored = json.loads(server.kubectl("get", "crd", name, "-o", "json"))
        assert stored["spec"]["names"]["shortNames"] == wanted["spec"]["names"]["shortNames"]
        assert stored["spec"]["versions"][0]["schema"] == wanted["spec"]["versions"][0]["schema"]
