"""RunnerQueue: what a person writes.

A field that nothing honours does not stand here. Durations are whole seconds and say so in their name;
secrets are only referred to.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, ClassVar

from msgspec import field

from runnerq_operator.model.pool import NAME_LIMIT, PoolEntry
from runnerq_operator.model.rules import Model, Rule, described, listed, number, text

SCHEMA_NAME = r"^[a-z_][a-z0-9_]*$"


class PausedMode(StrEnum):
    NONE = "None"
    SCALING = "Scaling"


class CoveragePolicy(StrEnum):
    IGNORE = "Ignore"
    WARN = "Warn"


class ConsoleAuthMode(StrEnum):
    NONE = "None"


class SecretKeyRef(Model, frozen=True, kw_only=True):
    """One key of a Secret in the same namespace."""

    name: Annotated[str, text("Name of the Secret.", least=1, most=253)]
    key: Annotated[str, text("Key in the Secret whose value is used.", least=1, most=253)] = "url"


class TokenKeyRef(Model, frozen=True, kw_only=True):
    """One key of a Secret in the same namespace that holds a token."""

    name: Annotated[str, text("Name of the Secret.", least=1, most=253)]
    key: Annotated[str, text("Key in the Secret whose value is used.", least=1, most=253)] = "token"


class PostgresBackend(Model, frozen=True, kw_only=True):
    url_secret_ref: Annotated[
        SecretKeyRef,
        described("Where the connection URL is: `postgresql://user:password@host:5432/database`."),
    ]
    schema: Annotated[
        str,
        text(
            "Schema that holds the queue's tables. Cannot be changed later.",
            least=1,
            most=63,
            pattern=SCHEMA_NAME,
        ),
    ] = "runnerq"
    max_connections: Annotated[
        int,
        number(
            "Connections that all workers of this queue may hold together; each worker process "
            "takes 4. The operator's own two come on top.",
            ge=4,
            le=10000,
        ),
    ] = 100


class RedisBackend(Model, frozen=True, kw_only=True):
    url_secret_ref: Annotated[
        SecretKeyRef,
        described("Where the connection URL is: `redis://:password@host:6379/0`."),
    ]


class Backend(Model, frozen=True, kw_only=True):
    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            rule="has(self.postgres) != has(self.redis)",
            message="backend: give exactly one of postgres and redis",
        ),
    )

    postgres: Annotated[PostgresBackend, described("Postgres 15 or newer.")] | None = None
    redis: (
        Annotated[
            RedisBackend,
            described(
                "Redis. This version of the operator has no such backend: a queue that asks for it "
                "gets the condition BackendReachable=False with the reason BackendUnsupported."
            ),
        ]
        | None
    ) = None


class Slo(Model, frozen=True, kw_only=True):
    max_wait_seconds: Annotated[
        int,
        number(
            "How long an activity may wait, from when it became claimable until it starts. "
            "Scaling aims at 60 % of it.",
            ge=1,
            le=86400,
        ),
    ] = 60


class Coverage(Model, frozen=True, kw_only=True):
    policy: Annotated[
        CoveragePolicy,
        described(
            "What to do about waiting types that no pool serves: Warn says so, Ignore does not."
        ),
    ] = CoveragePolicy.WARN
    required_types: Annotated[
        tuple[Annotated[str, text("", least=1, most=200)], ...],
        listed(
            "Activity types that must be served even while none are waiting.", most=100, kind="set"
        ),
    ] = ()


class ConsoleAuth(Model, frozen=True, kw_only=True):
    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            rule="has(self.tokenSecretRef) != has(self.mode)",
            message="console.auth: give exactly one of tokenSecretRef and mode; "
            "`mode: None` opens the console to whoever reaches it",
        ),
    )

    token_secret_ref: (
        Annotated[TokenKeyRef, described("Token that the console asks of its visitors.")] | None
    ) = None
    mode: (
        Annotated[ConsoleAuthMode, described("None: no token is asked. Say it only knowingly.")]
        | None
    ) = None


class Console(Model, frozen=True, kw_only=True):
    auth: Annotated[ConsoleAuth, described("Who may look. Must be said, one way or the other.")]
    template: Annotated[
        dict[str, Any],
        described("Pod template of the console's Deployment, merged over the operator's."),
    ] = field(default_factory=dict[str, Any])


class RunnerQueueSpec(Model, frozen=True, kw_only=True):
    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            rule="has(self.queueName) == has(oldSelf.queueName) "
            "&& (!has(self.queueName) || self.queueName == oldSelf.queueName)",
            message="queueName: cannot be changed, set or removed later; make a new RunnerQueue",
        ),
        Rule(
            rule="has(self.backend.postgres) == has(oldSelf.backend.postgres)",
            message="backend: its kind cannot be changed later; make a new RunnerQueue",
        ),
        Rule(
            rule="!has(self.backend.postgres) || !has(oldSelf.backend.postgres) "
            "|| self.backend.postgres.schema == oldSelf.backend.postgres.schema",
            message="backend.postgres.schema: cannot be changed later; make a new RunnerQueue",
        ),
        Rule(
            rule="self.pools.filter(p, p.activityTypes.exists(t, t == '*')).size() <= 1",
            message='pools: only one pool may have the catch-all "*" in activityTypes',
            field=".pools",
        ),
        Rule(
            rule="!has(self.maxReplicas) || "
            "self.pools.map(p, p.scaling.minReplicas).sum() <= self.maxReplicas",
            message="maxReplicas: is below the sum of the pools' minReplicas; raise it or lower those",
            field=".maxReplicas",
        ),
    )

    backend: Annotated[
        Backend, described("Where the queue lives: exactly one. Its kind cannot be changed later.")
    ]
    queue_name: (
        Annotated[
            str,
            text(
                "Name of the queue in the backend; default: this object's name. Cannot be changed later.",
                least=1,
                most=NAME_LIMIT,
                pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$",
            ),
        ]
        | None
    ) = None
    paused: Annotated[
        PausedMode, described("Scaling: decide and explain, but leave the replicas as they are.")
    ] = PausedMode.NONE
    slo: Annotated[Slo, described("What scaling aims at.")] = Slo()
    max_replicas: (
        Annotated[
            int,
            number(
                "Workers of all pools together, shared by weight. Absent: no limit.", ge=1, le=10000
            ),
        ]
        | None
    ) = None
    coverage: Annotated[Coverage, described("Whether every waiting type has workers.")] = Coverage()
    console: (
        Annotated[
            Console,
            described("A console for this queue, as Service `<queue>-console`. Absent: none."),
        ]
        | None
    ) = None
    template: Annotated[
        dict[str, Any],
        described("Pod template that the pools' templates are merged over: image, resources, ..."),
    ] = field(default_factory=dict[str, Any])
    pools: Annotated[
        tuple[Annotated[PoolEntry, described("One pool of workers.")], ...],
        listed(
            "Pools of workers, each for its activity types.",
            least=1,
            most=20,
            kind="map",
            keys=("name",),
        ),
    ]


class QueueMeta(Model, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """The part of an object's metadata that counts here."""

    name: str
    namespace: str = ""
    labels: dict[str, str] = field(default_factory=dict[str, str])
    annotations: dict[str, str] = field(default_factory=dict[str, str])
    generation: int = 0
    uid: str = ""


class RunnerQueue(Model, frozen=True, kw_only=True):
    """A queue of activities and the pools of workers that run them."""

    api_version: str
    kind: str
    metadata: QueueMeta
    spec: RunnerQueueSpec

    @property
    def backend_queue(self) -> str:
        """Name of the queue in the backend."""
        return self.spec.queue_name or self.metadata.name
