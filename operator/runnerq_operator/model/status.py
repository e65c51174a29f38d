"""Status of both kinds: conditions, figures for the columns, and the last scaling decision.

Every condition type and every reason that may stand in one is listed in `conditions.py`.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

from msgspec import field

from runnerq_operator.model.rules import Model, described, listed, number, text


class ConditionStatus(StrEnum):
    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(Model, frozen=True, kw_only=True):
    """One aspect of the state, as Kubernetes' own conditions are."""

    type: Annotated[str, text("Which aspect.", least=1, most=64)]
    status: Annotated[ConditionStatus, described("True, False or Unknown.")]
    reason: Annotated[
        str, text("One word for programs; docs/runnerqueue.md has them all.", most=64)
    ]
    message: Annotated[str, text("A sentence for people.", most=2048)] = ""
    last_transition_time: Annotated[datetime, described("When the status last changed.")]
    observed_generation: Annotated[
        int, number("Generation of the spec it was judged by.", ge=0)
    ] = 0


class DecisionStatus(Model, frozen=True, kw_only=True):
    """The last scaling decision of a pool, as it was explained."""

    pool: Annotated[str, text("Which pool.", most=64)]
    at: Annotated[datetime, described("When, by the backend's clock.")]
    from_replicas: Annotated[int, number("Replicas before.", ge=0)]
    to_replicas: Annotated[int, number("Replicas decided.", ge=0)]
    reason: Annotated[str, text("One word: which term or clamp decided.", most=64)]
    summary: Annotated[str, text("The decision in a sentence.", most=1024)]
    explanation: Annotated[
        dict[str, Any],
        described(
            "Inputs, terms, clamps and result; the result can be computed again from the rest."
        ),
    ] = field(default_factory=dict[str, Any])


_CONDITIONS = listed(
    "What holds and what does not; docs/runnerqueue.md explains each.",
    most=32,
    kind="map",
    keys=("type",),
)


class WorkStatus(Model, frozen=True, kw_only=True):
    """Figures that queue and pool have in common."""

    observed_generation: Annotated[
        int, number("Generation of the spec this was judged by.", ge=0)
    ] = 0
    conditions: Annotated[tuple[Condition, ...], _CONDITIONS] = ()
    backlog: Annotated[
        int,
        number("Activities that wait and could start now; a lower bound beyond 10,000.", ge=0),
    ] = 0
    oldest_seconds: (
        Annotated[int, number("How long the oldest of them has been claimable.", ge=0)] | None
    ) = None
    oldest: Annotated[str, text("The same for people: `1m5s`.", most=32)] = ""
    running: Annotated[int, number("Activities held by workers.", ge=0)] = 0


class RunnerQueueStatus(WorkStatus, frozen=True, kw_only=True):
    backend: Annotated[str, text("Kind of the backend.", most=32)] = ""
    pools: Annotated[int, number("Pools in the spec.", ge=0)] = 0
    workers: Annotated[int, number("Workers that are ready.", ge=0)] = 0
    desired_workers: Annotated[int, number("Workers decided on, all pools together.", ge=0)] = 0
    coverage: Annotated[
        str, text("`Complete`, or the waiting types without workers.", most=256)
    ] = ""
    decision: (
        Annotated[DecisionStatus, described("The last scaling decision of any pool.")] | None
    ) = None


class RunnerWorkerPoolStatus(WorkStatus, frozen=True, kw_only=True):
    selector: Annotated[str, text("Label selector of the workers, for autoscalers.", most=512)] = ""
    replicas: Annotated[int, number("Workers that exist.", ge=0)] = 0
    desired_replicas: Annotated[int, number("Workers decided on.", ge=0)] = 0
    ready_replicas: Annotated[int, number("Workers that are ready.", ge=0)] = 0
    busy_slots: Annotated[int, number("Slots in use, all workers together.", ge=0)] = 0
    reason: Annotated[str, text("Why so many: the term or clamp that decided.", most=64)] = ""
    clamped_by: Annotated[
        str, text("What kept the number from being the recommended one.", most=64)
    ] = ""
    types: Annotated[str, text("The activity types, with commas.", most=1024)] = ""
    image: Annotated[str, text("Image of the workers.", most=512)] = ""
    decision: Annotated[DecisionStatus, described("The last scaling decision.")] | None = None
