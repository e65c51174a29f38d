"""Reads Pods and Deployments as the fleet's states. Pure; the newest object seen comes in as JSON.

starting -> ready -> draining -> (gone)       starting -> unschedulable -> starting
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

import msgspec

from runnerq_operator.fleet.port import FleetState, PodPhase, PodState, PoolKey
from runnerq_operator.kube.kinds import TEMPLATE_HASH
from runnerq_operator.kube.objects import Object

HOPELESS: Final = frozenset(
    {
        "CrashLoopBackOff",
        "CreateContainerConfigError",
        "CreateContainerError",
        "ErrImageNeverPull",
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "RunContainerError",
    }
)
"""Reasons of a waiting container that would meet its next pod too."""
_DETAIL_LIMIT: Final = 1024


class _Read(msgspec.Struct, frozen=True, rename="camel"):
    """Base of the parts of API objects that are read here; all else in them is passed over."""


class _Metadata(_Read, frozen=True, kw_only=True):
    name: str
    creation_timestamp: datetime
    resource_version: str = ""
    generation: int = 0
    annotations: dict[str, str] | None = None
    deletion_timestamp: datetime | None = None
    deletion_grace_period_seconds: int | None = None


class _Condition(_Read, frozen=True):
    type: str
    status: str
    reason: str | None = None
    message: str | None = None
    last_transition_time: datetime | None = None

    def since(self, otherwise: datetime) -> datetime:
        return self.last_transition_time or otherwise


class _Waiting(_Read, frozen=True):
    reason: str = ""
    message: str = ""


class _Terminated(_Read, frozen=True):
    exit_code: int = 0
    message: str = ""


class _ContainerState(_Read, frozen=True):
    waiting: _Waiting | None = None
    terminated: _Terminated | None = None


class _Container(_Read, frozen=True):
    name: str
    image: str = ""
    restart_count: int = 0
    state: _ContainerState = _ContainerState()
    last_state: _ContainerState = _ContainerState()


class _PodStatus(_Read, frozen=True):
    phase: str = ""
    conditions: tuple[_Condition, ...] = ()
    init_container_statuses: tuple[_Container, ...] = ()
    container_statuses: tuple[_Container, ...] = ()


class _Pod(_Read, frozen=True):
    metadata: _Metadata
    status: _PodStatus = _PodStatus()


class _Image(_Read, frozen=True):
    name: str
    image: str = ""


class _PodSpec(_Read, frozen=True):
    containers: tuple[_Image, ...]


class _PodTemplate(_Read, frozen=True):
    spec: _PodSpec


class _DeploymentSpec(_Read, frozen=True):
    template: _PodTemplate
    replicas: int = 0


class _DeploymentStatus(_Read, frozen=True):
    observed_generation: int = 0
    replicas: int = 0
    updated_replicas: int = 0
    conditions: tuple[_Condition, ...] = ()


class _Deployment(_Read, frozen=True):
    metadata: _Metadata
    spec: _DeploymentSpec
    status: _DeploymentStatus = _DeploymentStatus()


def pod_state(item: Object) -> PodState | None:
    """The state of one pod; None when it has ended and only its record is left."""
    pod = msgspec.convert(item, _Pod)
    if pod.status.phase in ("Succeeded", "Failed"):
        return None
    phase, since, detail = _phase(pod)
    return PodState(
        name=pod.metadata.name,
        phase=phase,
        created_at=pod.metadata.creation_timestamp,
        since=since,
        detail=detail[:_DETAIL_LIMIT],
        template_hash=(pod.metadata.annotations or {}).get(TEMPLATE_HASH, ""),
        restarts=sum(container.restart_count for container in pod.status.container_statuses),
    )


def pool_state(
    pool: PoolKey, item: Object, pods: Iterable[Object], requested: int | None
) -> FleetState:
    """The pool as its Deployment and pods show it. `requested` is the RunnerWorkerPool's replicas."""
    deployment = msgspec.convert(item, _Deployment)
    states = [state for pod in pods if (state := pod_state(pod)) is not None]
    refused = _refused_pods(deployment)
    if refused is not None:
        states.append(refused)
    images = (c.image for c in deployment.spec.template.spec.containers if c.name == "worker")
    return FleetState(
        pool=pool,
        replicas=deployment.spec.replicas,
        pods=tuple(sorted(states, key=lambda state: (state.created_at, state.name))),
        version=deployment.metadata.resource_version,
        rolling=_rolling(deployment, states),
        requested_replicas=requested,
        image=next(images, ""),
    )


def _phase(pod: _Pod) -> tuple[PodPhase, datetime, str]:
    created = pod.metadata.creation_timestamp
    if pod.metadata.deletion_timestamp is not None:
        # The timestamp is when the grace ends, not when the pod was asked to stop.
        grace = timedelta(seconds=pod.metadata.deletion_grace_period_seconds or 0)
        return PodPhase.DRAINING, pod.metadata.deletion_timestamp - grace, ""
    conditions = {condition.type: condition for condition in pod.status.conditions}
    ready = conditions.get("Ready", _Condition("Ready", "Unknown"))
    if ready.status == "True":
        return PodPhase.READY, ready.since(created), ""
    placed = conditions.get("PodScheduled")
    if placed is not None and placed.status == "False" and placed.reason == "Unschedulable":
        detail = f"Unschedulable: {placed.message or 'no node fits'}"
        return PodPhase.UNSCHEDULABLE, placed.since(created), detail
    for container in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        waiting = container.state.waiting
        if waiting is not None and waiting.reason in HOPELESS:
            return PodPhase.UNSCHEDULABLE, ready.since(created), _why(container, waiting)
    return PodPhase.STARTING, ready.since(created), ""


def _why(container: _Container, waiting: _Waiting) -> str:
    """The reason, its message, and how the container ended last time."""
    text = f"{waiting.reason}: {waiting.message or container.image}"
    ended = container.last_state.terminated
    if ended is not None:
        words = ended.message.strip().splitlines()
        text += f" (exit code {ended.exit_code}{': ' + words[-1] if words else ''})"
    return text


def _refused_pods(deployment: _Deployment) -> PodState | None:
    """Pods that could not even be created (quota, policy): no object shows them, so one stands in."""
    for condition in deployment.status.conditions:
        if condition.type == "ReplicaFailure" and condition.status == "True":
            since = condition.since(deployment.metadata.creation_timestamp)
            return PodState(
                # No pod is ever called like its Deployment.
                name=deployment.metadata.name,
                phase=PodPhase.UNSCHEDULABLE,
                created_at=since,
                since=since,
                detail=f"{condition.reason}: {condition.message}"[:_DETAIL_LIMIT],
            )
    return None


def _rolling(deployment: _Deployment, states: list[PodState]) -> bool:
    status = deployment.status
    if status.observed_generation < deployment.metadata.generation:
        return True
    if status.updated_replicas != status.replicas:
        return True
    wanted = (deployment.metadata.annotations or {}).get(TEMPLATE_HASH, "")
    return any(
        state.template_hash not in ("", wanted) and state.phase is not PodPhase.DRAINING
        for state in states
    )
