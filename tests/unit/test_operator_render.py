"""What is sent to the API server for pools and consoles, and when a Deployment counts as made from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runnerq_operator.fleet.port import PoolKey, QueueKey, SecretKey, WorkerTemplate
from runnerq_operator.kube.merge import merged
from runnerq_operator.kube.render.console import (
    ConsoleWish,
    console_deployment,
    console_service,
    same_service,
)
from runnerq_operator.kube.render.pool import pool_object, same_pool
from runnerq_operator.kube.render.worker import user_input, worker_deployment
from runnerq_operator.kube.secrets import fingerprint
from runnerq_operator.kube.template_hash import CURRENT, made_from, marks, template_hash
from runnerq_operator.model.queue import RunnerQueueSpec

POOL = PoolKey("shop", "emails", "bulk")
Pod = dict[str, Any]


def template(**changes: Any) -> WorkerTemplate:
    values: dict[str, Any] = {
        "app": "shop.activities",
        "queue_name": "mails",
        "activity_types": ("send_*", "report"),
        "concurrency": 8,
        "drain_seconds": 25,
        "schema": "runnerq",
        "backend_secret": SecretKey("backend", "url"),
        "backend_fingerprint": "f1",
        "pod_template": pods(image="shop:1"),
    }
    return WorkerTemplate(**{**values, **changes})


def pods(*, spec: Mapping[str, Any] | None = None, **container: Any) -> Pod:
    return {"spec": {**(spec or {}), "containers": [{"name": "worker", **container}]}}


def deployment(**changes: Any) -> Pod:
    return worker_deployment(POOL, template(**changes), owner_uid="u1")


def pod_spec(made: Pod) -> Pod:
    return made["spec"]["template"]["spec"]


def container(made: Pod, name: str = "worker") -> Pod:
    return next(one for one in pod_spec(made)["containers"] if one["name"] == name)


def environment(made: Pod) -> dict[str, Any]:
    return {one["name"]: one.get("value", one.get("valueFrom")) for one in container(made)["env"]}


def console_wish(**changes: Any) -> ConsoleWish:
    spec = msgspec.convert(
        {
            "backend": {"postgres": {"urlSecretRef": {"name": "backend"}}},
            "console": {"auth": {"tokenSecretRef": {"name": "console", "key": "token"}}},
            "pools": [{"name": "bulk", "app": "shop", "activityTypes": ["*"]}],
        },
        RunnerQueueSpec,
    )
    assert spec.console is not None
    values: dict[str, Any] = {
        "queue": QueueKey("shop", "emails"),
        "owner_uid": "u1",
        "spec": spec,
        "console": spec.console,
        "image": "operator:1",
        "checksum": "c1",
    }
    return ConsoleWish(**{**values, **changes})


def test_the_worker_contract_is_in_the_environment():
    values = environment(deployment())
    assert values.pop("RUNNERQ_BUILD_ID") == template_hash(user_input(template()))
    assert values == {
        "RUNNERQ_QUEUE": "mails",
        "RUNNERQ_ACTIVITY_TYPES": "send_*,report",
        "RUNNERQ_CONCURRENCY": "8",
        "RUNNERQ_POOL": "bulk",
        "RUNNERQ_SCHEMA": "runnerq",
        "RUNNERQ_DRAIN_SECONDS": "25",
        "RUNNERQ_POD_NAME": {"fieldRef": {"fieldPath": "metadata.name"}},
        "RUNNERQ_BACKEND_URL": {"secretKeyRef": {"name": "backend", "key": "url"}},
    }
    assert container(deployment())["command"] == ["runnerq", "worker", "shop.activities"]


def test_a_pod_may_live_five_seconds_longer_than_its_drain_whatever_the_user_says():
    made = deployment(
        drain_seconds=40, pod_template=pods(spec={"terminationGracePeriodSeconds": 3}, image="i")
    )
    assert pod_spec(made)["terminationGracePeriodSeconds"] == 45


def test_the_contract_cannot_be_overridden_and_more_can_be_added():
    made = deployment(
        pod_template=pods(
            image="i",
            command=["sleep"],
            env=[
                {"name": "RUNNERQ_BACKEND_URL", "value": "postgres://elsewhere"},
                {"name": "RUNNERQ_POOL", "value": "other"},
                {"name": "LOG", "value": "debug"},
            ],
        )
    )
    values = environment(made)
    assert values["RUNNERQ_BACKEND_URL"] == {"secretKeyRef": {"name": "backend", "key": "url"}}
    assert values["RUNNERQ_POOL"] == "bulk"
    assert values["LOG"] == "debug"
    assert container(made)["command"][0] == "runnerq"


def test_pods_pass_the_restricted_pod_security_standard():
    for made in (deployment(), console_deployment(console_wish())):
        spec = pod_spec(made)
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert spec["automountServiceAccountToken"] is False
        for one in spec["containers"]:
            assert one["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }


def test_defaults_give_way_to_the_users_template():
    made = deployment(
        pod_template={
            "metadata": {"labels": {"team": "mail"}, "annotations": {"note": "x"}},
            "spec": {
                "automountServiceAccountToken": True,
                "securityContext": {"fsGroup": 5},
                "tolerations": [{"operator": "Exists"}],
                "volumes": [{"name": "models", "emptyDir": {}}],
                "containers": [
                    {"name": "proxy", "image": "proxy:1"},
                    {
                        "name": "worker",
                        "image": "i",
                        "resources": {"limits": {"memory": "1Gi"}},
                        "volumeMounts": [{"name": "models", "mountPath": "/models"}],
                        "livenessProbe": {"exec": {"command": ["true"]}},
                    },
                ],
            },
        }
    )
    spec = pod_spec(made)
    assert spec["automountServiceAccountToken"] is True
    assert spec["securityContext"]["fsGroup"] == 5
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert [volume["name"] for volume in spec["volumes"]] == ["tmp", "models"]
    assert [mount["mountPath"] for mount in container(made)["volumeMounts"]] == ["/tmp", "/models"]
    assert container(made)["livenessProbe"]["exec"] == {"command": ["true"]}
    assert "httpGet" not in container(made)["livenessProbe"]
    assert container(made, "proxy")["image"] == "proxy:1"
    metadata = made["spec"]["template"]["metadata"]
    assert metadata["labels"]["team"] == "mail"
    assert metadata["annotations"]["note"] == "x"


def test_the_selector_is_on_the_pods_and_never_says_more_than_which_pool():
    made = deployment()
    selector = made["spec"]["selector"]["matchLabels"]
    assert selector.items() <= made["spec"]["template"]["metadata"]["labels"].items()
    assert selector == {
        "runnerq.dev/queue": "emails",
        "runnerq.dev/pool": "bulk",
        "app.kubernetes.io/component": "worker",
    }


def test_a_users_label_cannot_take_a_pod_out_of_its_pool():
    made = deployment(
        pod_template={
            "metadata": {"labels": {"runnerq.dev/pool": "other"}},
            **pods(image="i"),
        }
    )
    assert made["spec"]["template"]["metadata"]["labels"]["runnerq.dev/pool"] == "bulk"


def test_a_deployment_says_nothing_about_replicas():
    assert "replicas" not in deployment()["spec"]


def test_a_template_that_is_rendered_twice_is_not_changed_by_it():
    wish = template()
    before = msgspec.to_builtins(wish)
    worker_deployment(POOL, wish, owner_uid="u1")
    worker_deployment(POOL, wish, owner_uid="u1")
    assert msgspec.to_builtins(wish) == before


@pytest.mark.parametrize(
    "change",
    [
        {"app": "shop.other"},
        {"activity_types": ("send_*",)},
        {"concurrency": 9},
        {"drain_seconds": 26},
        {"schema": "other"},
        {"backend_secret": SecretKey("backend", "other")},
        {"pod_template": pods(image="shop:2")},
    ],
    ids=lambda change: next(iter(change)),
)
def test_whatever_the_user_changes_rolls_the_pods(change: dict[str, Any]):
    annotations = deployment()["metadata"]["annotations"]
    assert made_from(annotations, user_input(template()), "f1")
    assert not made_from(annotations, user_input(template(**change)), "f1")


def test_a_changed_secret_rolls_the_pods():
    annotations = deployment()["metadata"]["annotations"]
    assert not made_from(annotations, user_input(template()), "f2")
    before = deployment()["spec"]["template"]
    assert deployment(backend_fingerprint="f2")["spec"]["template"] != before


def test_the_hash_of_an_input_never_changes_within_a_version():
    """Golden: a new operator must recognise what an old one made, or every worker restarts."""
    assert CURRENT == "1"
    assert template_hash(user_input(template()), "1") == "d80d423475c29911"


def test_a_deployment_marked_by_an_unknown_version_counts_as_different():
    annotations = {**marks({"a": 1}, ""), "runnerq.dev/hash-version": "99"}
    assert not made_from(annotations, {"a": 1}, "")
    assert not made_from({}, {"a": 1}, "")


def test_a_fingerprint_changes_with_any_value_and_differs_between_queues():
    assert fingerprint("u1", "a", "b") != fingerprint("u1", "ab", "")
    assert fingerprint("u1", "a") != fingerprint("u2", "a")
    assert fingerprint("u1", "a") == fingerprint("u1", "a")


def test_lists_with_names_merge_by_name_and_others_are_replaced():
    lower = {"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}], "args": ["x", "y"]}
    upper = {"env": [{"name": "B", "valueFrom": {"k": 1}}, {"name": "C"}], "args": ["z"]}
    assert merged(lower, upper) == {
        "env": [
            {"name": "A", "value": "1"},
            {"name": "B", "valueFrom": {"k": 1}},
            {"name": "C"},
        ],
        "args": ["z"],
    }


def test_ports_without_a_protocol_are_those_of_tcp():
    lower = {"ports": [{"containerPort": 80, "protocol": "TCP"}]}
    assert merged(lower, {"ports": [{"containerPort": 80, "name": "http"}]}) == {
        "ports": [{"containerPort": 80, "protocol": "TCP", "name": "http"}]
    }


def test_null_removes_what_lies_below():
    assert merged({"a": {"b": 1, "c": 2}}, {"a": {"b": None}}) == {"a": {"c": 2}}


def test_a_list_of_nonsense_is_passed_on_for_the_api_server_to_judge():
    assert merged({}, {"containers": ["worker"]}) == {"containers": ["worker"]}


JSON = st.recursive(
    st.integers(0, 3) | st.text("ab", max_size=2),
    lambda inner: (
        st.dictionaries(st.sampled_from(["a", "b", "env"]), inner, max_size=3)
        | st.lists(st.fixed_dictionaries({"name": st.sampled_from("xy")}), max_size=3)
    ),
    max_leaves=8,
)
MAPS = st.dictionaries(st.sampled_from(["a", "b", "env"]), JSON, max_size=3)


@given(MAPS, MAPS)
def test_laying_the_same_over_again_changes_nothing(lower: dict[str, Any], upper: dict[str, Any]):
    once = merged(lower, upper)
    assert merged(once, upper) == once


@given(MAPS, MAPS)
def test_merging_changes_neither_of_its_inputs(lower: dict[str, Any], upper: dict[str, Any]):
    before = msgspec.json.encode((lower, upper))
    merged(lower, upper)
    assert msgspec.json.encode((lower, upper)) == before


def test_a_pool_object_has_the_entrys_fields_and_never_replicas():
    queue = {
        "metadata": {"name": "emails", "namespace": "shop", "uid": "q1"},
        "spec": {"pools": [{"name": "bulk", "app": "shop", "concurrency": 3}]},
    }
    made = pool_object(queue, POOL)
    assert made["spec"] == {
        "name": "bulk",
        "app": "shop",
        "concurrency": 3,
        "queueRef": {"name": "emails"},
    }
    assert made["metadata"]["ownerReferences"][0]["uid"] == "q1"
    scaled = {**made, "spec": {**made["spec"], "replicas": 4}}
    assert same_pool(scaled, made)
    assert not same_pool({**made, "spec": {**made["spec"], "concurrency": 4}}, made)


def test_a_console_reads_its_token_and_backend_from_the_secrets():
    made = console_deployment(console_wish())
    values = {
        one["name"]: one.get("value", one.get("valueFrom"))
        for one in container(made, "console")["env"]
    }
    assert values["RUNNERQ_CONSOLE_TOKEN"] == {"secretKeyRef": {"name": "console", "key": "token"}}
    assert values["RUNNERQ_BACKEND_URL"] == {"secretKeyRef": {"name": "backend", "key": "url"}}
    assert values["RUNNERQ_QUEUE"] == "emails"
    arguments = container(made, "console")["args"]
    assert arguments[arguments.index("--auth") + 1] == "token"


def test_a_console_is_open_only_when_that_was_said():
    spec = msgspec.to_builtins(console_wish().spec)
    spec["console"] = {"auth": {"mode": "None"}}
    said = msgspec.convert(spec, RunnerQueueSpec)
    assert said.console is not None
    made = console_deployment(console_wish(spec=said, console=said.console))
    arguments = container(made, "console")["args"]
    assert arguments[arguments.index("--auth") + 1] == "none"


def test_a_console_rolls_with_the_operator_and_with_its_secrets():
    annotations = console_deployment(console_wish())["metadata"]["annotations"]
    assert made_from(annotations, console_wish().user_input, "c1")
    assert not made_from(annotations, console_wish(image="operator:2").user_input, "c1")
    assert not made_from(annotations, console_wish().user_input, "c2")


def test_a_service_is_the_same_with_what_the_api_server_filled_in():
    wanted = console_service(console_wish())
    assert wanted["metadata"]["name"] == "emails-console"
    stored = msgspec.json.decode(msgspec.json.encode(wanted))
    stored["spec"] |= {"clusterIP": "10.96.0.9", "type": "ClusterIP"}
    stored["spec"]["ports"][0]["nodePort"] = 30000
    assert same_service(stored, wanted)
    stored["spec"]["ports"][0]["port"] = 81
    assert not same_service(stored, wanted)
