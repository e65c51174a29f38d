"""A pool of workers: as an entry of a RunnerQueue, and as the object RunnerWorkerPool.

The queue makes the object as a Deployment makes ReplicaSets. It exists because the scale subresource
takes one path per object; a person edits the RunnerQueue instead.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from msgspec import field

from runnerq_operator.model.rules import Model, Rule, described, listed, number, text
from runnerq_operator.model.scaling import Drain, Scaling

NAME_LIMIT = 40
"""Of a queue: its pools' objects are `<queue>-<pool>` and must fit a label (63)."""
POOL_NAME_LIMIT = 20
DNS_LABEL = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
TYPE_PATTERN = r"^([A-Za-z0-9_][A-Za-z0-9_.:/-]*)?[*]?$"
_APP_PART = r"[A-Za-z_][A-Za-z0-9_.]*(:[A-Za-z_][A-Za-z0-9_]*)?"
APP = rf"^{_APP_PART}(,{_APP_PART})*$"


class PoolFields(Model, frozen=True, kw_only=True):
    """What a RunnerQueue's pool and a RunnerWorkerPool have in common."""

    name: Annotated[
        str,
        text(
            "Name of the pool, unique in its queue. Its objects are called `<queue>-<pool>`.",
            least=1,
            most=POOL_NAME_LIMIT,
            pattern=DNS_LABEL,
        ),
    ]
    activity_types: Annotated[
        tuple[
            Annotated[
                str,
                text(
                    "An exact type, a prefix with one trailing star, or `*`.",
                    least=1,
                    most=200,
                ),
            ],
            ...,
        ],
        listed(
            'What this pool runs: exact types, prefixes with one trailing star (`report.*`), or "*" for '
            "all that its app registers (in one pool of a queue only).",
            least=1,
            most=50,
            kind="set",
        ),
    ]
    app: Annotated[
        str,
        text(
            "Python module with the activities, as `runnerq worker` imports it: `shop.activities`, "
            "`shop.tasks:registry`, or several with commas.",
            least=1,
            most=500,
            pattern=APP,
        ),
    ]
    concurrency: Annotated[
        int, number("Activities that one worker runs at the same time.", ge=1, le=1000)
    ] = 10
    weight: Annotated[
        int,
        number(
            "Share of the queue's maxReplicas when the pools want more than that.", ge=1, le=100
        ),
    ] = 1
    scaling: Annotated[Scaling, described("How many workers, and how fast that changes.")] = (
        Scaling()
    )
    drain: Annotated[Drain, described("How a worker stops.")] = Drain()
    template: Annotated[
        dict[str, Any],
        described(
            "Pod template of the workers (metadata, spec), merged over the queue's. The container is "
            "called `worker`; its image must be given here or in the queue's template."
        ),
    ] = field(default_factory=dict[str, Any])


class PoolEntry(PoolFields, frozen=True, kw_only=True):
    """One pool of workers, as an entry of `spec.pools`."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            rule="self.name != 'console'",
            message="name: `console` is taken by the queue's console; choose another name",
            field=".name",
        ),
        Rule(
            rule=f"self.activityTypes.all(t, t.matches('{TYPE_PATTERN}'))",
            message='activityTypes: give exact types, prefixes with one trailing star, or "*"; '
            "of letters, digits and _ . : / -",
            field=".activityTypes",
        ),
    )


class QueueRef(Model, frozen=True, kw_only=True):
    name: Annotated[
        str,
        text("Name of the RunnerQueue in this namespace.", least=1, most=NAME_LIMIT),
    ]


class RunnerWorkerPoolSpec(PoolFields, frozen=True, kw_only=True):
    queue_ref: Annotated[QueueRef, described("The RunnerQueue this pool belongs to.")]
    replicas: (
        Annotated[
            int,
            number(
                "Workers asked for by hand or by a HorizontalPodAutoscaler (`kubectl scale`). Honoured "
                "in scaling.mode Disabled only; otherwise the operator decides, and says so in the "
                "Event ManualScaleIgnored.",
                ge=0,
                le=1000,
            ),
        ]
        | None
    ) = None
