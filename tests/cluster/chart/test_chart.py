"""What the chart renders for which values, and which values it refuses."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.cluster.commands import CommandFailed, run
from tests.cluster.provider import find_helm

from runnerq_operator.kube.settings import settings_from

ROOT = Path(__file__).parents[3]
CHART = ROOT / "charts" / "runnerq"
KUBERNETES = "1.36.3"

Manifest = dict[str, Any]


def rendered(values: Mapping[str, Any] | None = None, *flags: str) -> list[Manifest]:
    """Every manifest of a release `runnerq` in namespace `ops`."""
    command = [find_helm(), "template", "runnerq", CHART, "--namespace", "ops"]
    command += ["--kube-version", KUBERNETES, "--values", "-", *flags]
    text = run(command, stdin=json.dumps(values or {}), timeout=60)
    return [one for one in yaml.safe_load_all(text) if one]


def of_kind(manifests: list[Manifest], kind: str, name: str | None = None) -> list[Manifest]:
    return [
        one for one in manifests if one["kind"] == kind and name in (None, one["metadata"]["name"])
    ]


def operator_of(manifests: list[Manifest]) -> Manifest:
    (deployment,) = of_kind(manifests, "Deployment")
    return deployment["spec"]["template"]["spec"]


def environment(manifests: list[Manifest]) -> dict[str, Any]:
    (container,) = operator_of(manifests)["containers"]
    return {one["name"]: one.get("value", one.get("valueFrom")) for one in container["env"]}


def test_helm_lint_finds_nothing_in_strict_mode():
    run([find_helm(), "lint", "--strict", CHART], timeout=60)


def test_the_crd_templates_equal_a_fresh_generation():
    run([sys.executable, ROOT / "charts" / "generate_crds.py", "--check"])


def test_a_stale_crd_template_is_noticed(tmp_path: Path):
    """The check above can fail."""
    for part in ("charts", "crds"):
        subprocess.run(["cp", "-r", ROOT / part, tmp_path], check=True)
    target = tmp_path / "charts" / "runnerq" / "templates" / "crds" / "runnerqueues.yaml"
    target.write_text(target.read_text() + "# changed\n")
    with pytest.raises(CommandFailed, match=r"out of date.*runnerqueues\.yaml"):
        run([sys.executable, tmp_path / "charts" / "generate_crds.py", "--check"])


def test_the_crds_are_those_of_the_models_and_stay_when_the_release_goes():
    crds = of_kind(rendered(), "CustomResourceDefinition")
    for crd in crds:
        source = ROOT / "crds" / f"{crd['spec']['names']['plural']}.yaml"
        assert crd["spec"] == yaml.safe_load(source.read_text())["spec"]
        assert crd["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    assert len(crds) == len(list((ROOT / "crds").glob("*.yaml"))) == 2


def test_crds_can_be_left_to_somebody_else():
    assert not of_kind(rendered({"crds": {"enabled": False}}), "CustomResourceDefinition")


def test_the_operator_passes_the_restricted_pod_security_standard():
    spec = operator_of(rendered())
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"]["type"] == "RuntimeDefault"
    (container,) = spec["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_cluster_scope_grants_by_a_cluster_role_and_watches_everything():
    manifests = rendered()
    (role,) = of_kind(manifests, "ClusterRole")
    (binding,) = of_kind(manifests, "ClusterRoleBinding")
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert binding["subjects"][0]["namespace"] == "ops"
    assert "RUNNERQ_OPERATOR_NAMESPACES" not in environment(manifests)
    assert [one["metadata"]["name"] for one in of_kind(manifests, "Role")] == ["runnerq-lease"]


def test_namespaced_scope_grants_only_where_it_watches():
    manifests = rendered({"scope": "Namespaced", "namespaces": ["a", "b"]})
    assert not of_kind(manifests, "ClusterRole")
    assert not of_kind(manifests, "ClusterRoleBinding")
    for kind in ("Role", "RoleBinding"):
        places = [one["metadata"]["namespace"] for one in of_kind(manifests, kind, "runnerq")]
        assert places == ["a", "b"]
    assert environment(manifests)["RUNNERQ_OPERATOR_NAMESPACES"] == "a,b"


def test_namespaced_scope_without_names_is_the_namespace_of_the_release():
    manifests = rendered({"scope": "Namespaced"})
    (role,) = of_kind(manifests, "Role", "runnerq")
    assert role["metadata"]["namespace"] == "ops"
    assert environment(manifests)["RUNNERQ_OPERATOR_NAMESPACES"] == "ops"


def test_both_scopes_grant_the_same_rules():
    (cluster,) = of_kind(rendered(), "ClusterRole")
    (role,) = of_kind(rendered({"scope": "Namespaced"}), "Role", "runnerq")
    assert cluster["rules"] == role["rules"]


def test_secrets_are_read_by_name_only_and_the_lease_is_its_own_only():
    manifests = rendered()
    (cluster,) = of_kind(manifests, "ClusterRole")
    granted = {
        (group, resource): set(rule["verbs"])
        for rule in cluster["rules"]
        for group, resource in itertools.product(rule["apiGroups"], rule["resources"])
    }
    assert granted["", "secrets"] == {"get"}
    everything = [verb for verbs in granted.values() for verb in verbs]
    assert "*" not in everything
    assert "deletecollection" not in everything
    (lease,) = of_kind(manifests, "Role", "runnerq-lease")
    assert [(rule.get("resourceNames"), rule["verbs"]) for rule in lease["rules"]] == [
        (None, ["create"]),
        (["runnerq"], ["get", "update"]),
    ]
    assert environment(manifests)["RUNNERQ_OPERATOR_LEASE"] == "runnerq"


def test_rights_can_be_left_to_somebody_else():
    manifests = rendered(
        {"rbac": {"create": False}, "serviceAccount": {"create": False, "name": "given"}}
    )
    kinds = {one["kind"] for one in manifests}
    assert kinds.isdisjoint({"Role", "RoleBinding", "ClusterRole", "ServiceAccount"})
    assert operator_of(manifests)["serviceAccountName"] == "given"


def test_the_consoles_run_the_operators_image_unless_another_is_given():
    manifests = rendered({"image": {"repository": "there/operator", "tag": "7"}})
    (container,) = operator_of(manifests)["containers"]
    assert container["image"] == "there/operator:7"
    assert environment(manifests)["RUNNERQ_OPERATOR_IMAGE"] == "there/operator:7"
    other = rendered({"consoleImage": "there/console:8"})
    assert environment(other)["RUNNERQ_OPERATOR_IMAGE"] == "there/console:8"


def test_the_operator_understands_every_variable_that_the_chart_gives():
    manifests = rendered({"scope": "Namespaced", "namespaces": ["a", "b"]})
    values = {
        name: value if isinstance(value, str) else "from-the-pod"
        for name, value in environment(manifests).items()
    }
    settings = settings_from(values)
    assert settings.namespaces == ("a", "b")
    assert settings.lease == "runnerq"
    assert settings.own_namespace == "from-the-pod"
    assert settings.identity.startswith("from-the-pod_")
    assert settings.console_image == "runnerq/operator:0.1.0"


def test_a_disruption_budget_exists_only_where_one_of_several_may_go():
    assert of_kind(rendered(), "PodDisruptionBudget")
    assert not of_kind(rendered({"replicas": 1}), "PodDisruptionBudget")
    assert not of_kind(rendered({"podDisruptionBudget": {"enabled": False}}), "PodDisruptionBudget")


def test_dashboards_are_shipped_for_the_sidecar_when_asked_for():
    assert not of_kind(rendered(), "ConfigMap")
    (shipped,) = of_kind(rendered({"dashboards": {"enabled": True}}), "ConfigMap")
    assert shipped["metadata"]["labels"]["grafana_dashboard"] == "1"
    for path in (ROOT / "dashboards").glob("*.json"):
        assert json.loads(shipped["data"][path.name]) == json.loads(path.read_text())


def test_a_pod_monitor_finds_the_operator_workers_and_consoles():
    values = {"metrics": {"podMonitor": {"enabled": True, "labels": {"release": "prom"}}}}
    manifests = rendered(values, "--api-versions", "monitoring.coreos.com/v1")
    (monitor,) = of_kind(manifests, "PodMonitor")
    assert monitor["spec"]["namespaceSelector"] == {"any": True}
    assert monitor["metadata"]["labels"]["release"] == "prom"
    chosen = monitor["spec"]["selector"]["matchLabels"].items()
    (deployment,) = of_kind(manifests, "Deployment")
    assert chosen <= deployment["spec"]["template"]["metadata"]["labels"].items()


def test_a_pod_monitor_without_its_kind_is_refused_with_what_to_do():
    with pytest.raises(CommandFailed, match=r"metrics\.podMonitor\.enabled.*Prometheus operator"):
        rendered({"metrics": {"podMonitor": {"enabled": True}}})


def test_extra_objects_are_installed_and_expanded():
    extra = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "{{ .Release.Name }}-extra"},
    }
    (made,) = of_kind(rendered({"extraObjects": [extra]}), "ConfigMap")
    assert made["metadata"]["name"] == "runnerq-extra"


def test_a_network_policy_lets_in_only_metrics_and_probes():
    (policy,) = of_kind(rendered({"networkPolicy": {"enabled": True}}), "NetworkPolicy")
    assert policy["spec"]["ingress"] == [{"ports": [{"port": "metrics", "protocol": "TCP"}]}]


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"replica": 2}, "replica"),
        ({"replicas": "two"}, "replicas"),
        ({"replicas": 9}, "replicas"),
        ({"scope": "cluster"}, "scope"),
        ({"namespaces": ["Shop"]}, "namespaces"),
        ({"image": {"repo": "x"}}, "repo"),
        ({"log": {"level": "loud"}}, "level"),
        ({"resources": {"limit": {}}}, "limit"),
        ({"metrics": {"podMonitor": {"interval": "often"}}}, "interval"),
        ({"extraEnv": [{"value": "x"}]}, "extraEnv"),
        ({"namespaces": ["a"]}, "namespaces: is only for scope Namespaced"),
        ({"serviceAccount": {"create": False}}, r"serviceAccount\.name: give the account"),
    ],
)
def test_a_value_that_cannot_be_meant_is_refused_by_name(values: dict[str, Any], named: str):
    with pytest.raises(CommandFailed, match=named):
        rendered(values)


def test_every_value_is_described_by_the_schema_and_in_the_readme():
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = json.loads((CHART / "values.schema.json").read_text())
    readme = (CHART / "README.md").read_text()
    for name in values:
        assert name in schema["properties"]
        assert f"`{name}" in readme
