"""Pods and Deployments as the fleet's states: every way of not working is told apart from starting."""

from __future__ import annotations

from typing import Any

import pytest

from runnerq_operator.fleet.port import FleetState, PodPhase, PoolKey
from runnerq_operator.kube.observed import pod_state, pool_state

POOL = PoolKey("shop", "emails", "bulk")
CREATED = "2030-01-01T00:00:00Z"


def pod(
    name: str = "p", *, hash_: str = "h1", metadata: dict[str, Any] | None = None, **status: Any
) -> dict[str, Any]:
    return {
        "metadata": {
            "name": name,
            "creationTimestamp": CREATED,
            "annotations": {"runnerq.dev/template-hash": hash_},
            **(metadata or {}),
        },
        "status": {"phase": "Pending", **status},
    }


def ready(at: str = "2030-01-01T00:00:05Z") -> list[dict[str, Any]]:
    return [{"type": "Ready", "status": "True", "lastTransitionTime": at}]


def waiting(reason: str, message: str = "", **more: Any) -> list[dict[str, Any]]:
    state = {"waiting": {"reason": reason, "message": message}}
    return [{"name": "worker", "image": "shop:1", "restartCount": 2, "state": state, **more}]


def deployment(*, replicas: int = 2, generation: int = 3, **status: Any) -> dict[str, Any]:
    return {
        "metadata": {
            "name": "emails-bulk",
            "creationTimestamp": CREATED,
            "resourceVersion": "17",
            "generation": generation,
            "annotations": {"runnerq.dev/template-hash": "h1"},
        },
        "spec": {
            "replicas": replicas,
            "template": {
                "spec": {
                    "containers": [
                        {"name": "proxy", "image": "proxy:1"},
                        {"name": "worker", "image": "shop:1"},
                    ]
                }
            },
        },
        "status": {
            "observedGeneration": 3,
            "replicas": replicas,
            "updatedReplicas": replicas,
            **status,
        },
    }


def state(*pods: dict[str, Any], **changes: Any) -> FleetState:
    return pool_state(POOL, deployment(**changes), pods, None)


def test_a_young_pod_is_starting_since_it_was_created():
    seen = pod_state(pod())
    assert seen is not None
    assert (seen.phase, seen.since) == (PodPhase.STARTING, seen.created_at)


def test_a_ready_pod_is_ready_since_its_condition_says_so():
    seen = pod_state(pod(conditions=ready()))
    assert seen is not None
    assert seen.phase is PodPhase.READY
    assert (seen.since - seen.created_at).total_seconds() == 5


def test_a_pod_asked_to_stop_drains_since_then_and_not_since_its_grace_ends():
    leaving = {"deletionTimestamp": "2030-01-01T00:01:30Z", "deletionGracePeriodSeconds": 30}
    seen = pod_state(pod(metadata=leaving, conditions=ready()))
    assert seen is not None
    assert seen.phase is PodPhase.DRAINING
    assert (seen.since - seen.created_at).total_seconds() == 60


def test_a_pod_without_a_node_is_unschedulable_in_the_schedulers_words():
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/3 nodes are available: Insufficient cpu.",
        "lastTransitionTime": "2030-01-01T00:00:01Z",
    }
    seen = pod_state(pod(conditions=[condition]))
    assert seen is not None
    assert seen.phase is PodPhase.UNSCHEDULABLE
    assert "Insufficient cpu" in seen.detail


def test_a_pod_that_waits_for_the_scheduler_is_starting():
    condition = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
    seen = pod_state(pod(conditions=[condition]))
    assert seen is not None
    assert seen.phase is PodPhase.STARTING


@pytest.mark.parametrize(
    "reason", ["ImagePullBackOff", "CrashLoopBackOff", "CreateContainerConfigError"]
)
def test_a_container_that_cannot_start_is_hopeless_for_the_next_pod_too(reason: str):
    seen = pod_state(pod(containerStatuses=waiting(reason, "because")))
    assert seen is not None
    assert seen.phase is PodPhase.UNSCHEDULABLE
    assert seen.detail == f"{reason}: because"
    assert seen.restarts == 2


def test_a_container_that_is_being_created_is_starting():
    seen = pod_state(pod(containerStatuses=waiting("ContainerCreating")))
    assert seen is not None
    assert seen.phase is PodPhase.STARTING


def test_a_crash_tells_how_the_container_ended_last():
    ended = {"terminated": {"exitCode": 1, "message": "Traceback\nModuleNotFoundError: no shop\n"}}
    seen = pod_state(
        pod(containerStatuses=waiting("CrashLoopBackOff", "back-off", lastState=ended))
    )
    assert seen is not None
    assert seen.detail == ("CrashLoopBackOff: back-off (exit code 1: ModuleNotFoundError: no shop)")


def test_an_init_container_that_cannot_start_counts_too():
    seen = pod_state(pod(initContainerStatuses=waiting("ImagePullBackOff")))
    assert seen is not None
    assert seen.phase is PodPhase.UNSCHEDULABLE


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_the_record_of_a_pod_that_ended_is_not_a_pod(phase: str):
    assert pod_state(pod(phase=phase)) is None


def test_a_pool_tells_its_image_version_and_pods_in_the_order_of_their_age():
    young = pod("a", metadata={"creationTimestamp": "2030-01-01T00:00:09Z"})
    seen = state(young, pod("b"))
    assert [one.name for one in seen.pods] == ["b", "a"]
    assert (seen.image, seen.version, seen.replicas) == ("shop:1", "17", 2)
    assert not seen.rolling


def test_a_new_template_is_rolling_until_its_controller_saw_it_and_no_old_pod_is_left():
    assert state(generation=4).rolling
    assert state(updatedReplicas=1).rolling
    assert state(pod(hash_="h0")).rolling
    assert not state(pod(hash_="h1")).rolling


def test_an_old_pod_that_is_leaving_does_not_hold_the_rollout():
    leaving = {"deletionTimestamp": "2030-01-01T00:01:30Z"}
    assert not state(pod(hash_="h0", metadata=leaving)).rolling


def test_pods_that_could_not_even_be_created_are_shown_by_one_that_stands_in():
    condition = {
        "type": "ReplicaFailure",
        "status": "True",
        "reason": "FailedCreate",
        "message": "exceeded quota: pods=1",
        "lastTransitionTime": "2030-01-01T00:00:02Z",
    }
    seen = state(conditions=[condition])
    assert [(one.phase, one.detail) for one in seen.pods] == [
        (PodPhase.UNSCHEDULABLE, "FailedCreate: exceeded quota: pods=1")
    ]


def test_a_deployment_that_nobody_has_looked_at_yet_is_read_too():
    bare = deployment(replicas=0)
    del bare["status"]
    seen = pool_state(POOL, bare, [], 4)
    assert (seen.replicas, seen.requested_replicas) == (0, 4)
