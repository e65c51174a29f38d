"""How many workers a pool has, how fast that changes, and how a worker stops."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar

from runnerq_operator.model.rules import Model, Rule, described, number


class ScalingMode(StrEnum):
    AUTO = "Auto"
    DRY_RUN = "DryRun"
    DISABLED = "Disabled"


class Behavior(Model, frozen=True, kw_only=True):
    """The times of the autoscaler. Defaults suit production; demonstrations set them to a few
    seconds."""

    tick_seconds: Annotated[
        int,
        number("How often to decide. A pool at zero is woken at once all the same.", ge=1, le=300),
    ] = 5
    rise_delay_seconds: Annotated[
        int,
        number(
            "How long a small rise must last before it is followed; large rises and ages near the "
            "SLO are followed at once.",
            ge=0,
            le=3600,
        ),
    ] = 60
    scale_down_window_seconds: Annotated[
        int,
        number(
            "Go down only to the highest recommendation of this window, and not at all in the first "
            "window after the operator started.",
            ge=0,
            le=86400,
        ),
    ] = 240
    scale_down_tolerance_percent: Annotated[
        int, number("Go down only if it saves at least this share.", ge=0, le=100)
    ] = 30
    scale_to_zero_seconds: Annotated[
        int,
        number(
            "Go to zero after this long with nothing waiting, running or due, whatever the window.",
            ge=0,
            le=86400,
        ),
    ] = 120


class Fallback(Model, frozen=True, kw_only=True):
    replicas: Annotated[
        int,
        number("Replicas to hold while the demand cannot be read, also from zero.", ge=0, le=1000),
    ]
    after_failures: Annotated[
        int, number("Failed reads in a row before the fallback is used.", ge=1, le=1000)
    ] = 3


class Scaling(Model, frozen=True, kw_only=True):
    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            rule="self.minReplicas <= self.maxReplicas",
            message="scaling.minReplicas: is above scaling.maxReplicas; lower it or raise maxReplicas",
            field=".minReplicas",
        ),
    )

    mode: Annotated[
        ScalingMode,
        described(
            "Auto: the operator sets the replicas. DryRun: it decides and explains but sets nothing. "
            "Disabled: `kubectl scale` on the RunnerWorkerPool sets them."
        ),
    ] = ScalingMode.AUTO
    min_replicas: Annotated[
        int, number("Never fewer than these; 0 allows none.", ge=0, le=1000)
    ] = 0
    max_replicas: Annotated[int, number("Never more than these.", ge=1, le=1000)] = 10
    expected_seconds: Annotated[
        int,
        number(
            "How long one activity runs, as a guess: used until 20 have been measured.",
            ge=1,
            le=86400,
        ),
    ] = 5
    behavior: Annotated[Behavior, described("The times of the autoscaler.")] = Behavior()
    fallback: (
        Annotated[
            Fallback,
            described(
                "What to do when the demand cannot be read for long. Absent: hold the replicas."
            ),
        ]
        | None
    ) = None


class Drain(Model, frozen=True, kw_only=True):
    timeout_seconds: Annotated[
        int,
        number(
            "How long a worker that is to stop may finish what it runs; what is unfinished then is "
            "handed back without counting the attempt. The pod's grace period is 5 s more.",
            ge=1,
            le=86400,
        ),
    ] = 25
