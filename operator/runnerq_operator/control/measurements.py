"""What the loop measures of itself and of the pools, as metrics. Names are those of docs/metrics.md."""

from __future__ import annotations

import math

from runnerq.metrics import MetricsSink
from runnerq_operator.autoscale.decide import Decision
from runnerq_operator.autoscale.explanation import LIMITS
from runnerq_operator.control.observation import Observation, PoolObservation
from runnerq_operator.control.queue_loop import PassResult
from runnerq_operator.control.report import QueueEvent
from runnerq_operator.control.verdicts import verdicts
from runnerq_operator.fleet.port import PoolKey
from runnerq_operator.model.status import ConditionStatus

_KIND = "RunnerQueue"
_DIRECTIONS = {
    "ScaledUp": "up",
    "ActivatedFromZero": "up",
    "ScaledDown": "down",
    "ScaledToZero": "down",
}
_TERMS = ("steady", "headroom", "schedule", "drain", "hold")
"""Of an explanation, what each alone asks for."""


class Measurements:
    def __init__(self, metrics: MetricsSink) -> None:
        self._metrics = metrics

    def passed(self, result: PassResult, seconds: float) -> None:
        """A pass ended well."""
        metrics, observation = self._metrics, result.observation
        metrics.inc_counter(
            "runnerq_operator_reconciles_total", labels={"kind": _KIND, "outcome": "success"}
        )
        metrics.observe_duration(
            "runnerq_operator_reconcile_duration_seconds", seconds, labels={"kind": _KIND}
        )
        self._conditions(observation)
        for event in result.events:
            if event.reason in _DIRECTIONS:
                self._decided(observation, event)
        for pool in observation.pools:
            if pool.entry is not None:
                self._pool(observation, pool, observation.decisions.get(pool.key.pool))

    def failed(self, seconds: float) -> None:
        """A pass ended early and is tried again."""
        self._metrics.inc_counter(
            "runnerq_operator_reconciles_total", labels={"kind": _KIND, "outcome": "retry"}
        )
        self._metrics.observe_duration(
            "runnerq_operator_reconcile_duration_seconds", seconds, labels={"kind": _KIND}
        )

    def _decided(self, observation: Observation, event: QueueEvent) -> None:
        key = observation.desired.key
        self._metrics.inc_counter(
            "runnerq_autoscaler_decisions_total",
            labels={
                "pool": PoolKey(key.namespace, key.name, event.pool).object_name,
                "resource_namespace": key.namespace,
                "direction": _DIRECTIONS[event.reason],
                "reason": observation.decisions[event.pool].reason,
            },
        )

    def _conditions(self, observation: Observation) -> None:
        key = observation.desired.key
        for name, verdict in verdicts(observation).items():
            for status in ConditionStatus:
                self._metrics.set_gauge(
                    "runnerq_resource_condition",
                    float(verdict.status is status),
                    labels={
                        "kind": _KIND,
                        "name": key.name,
                        "resource_namespace": key.namespace,
                        "condition": name,
                        "status": status.value,
                    },
                )

    def _pool(
        self, observation: Observation, pool: PoolObservation, decision: Decision | None
    ) -> None:
        labels = {"pool": pool.key.object_name, "resource_namespace": pool.key.namespace}
        gauges: dict[str, float] = {
            "runnerq_pool_replicas_current": len(pool.live),
            "runnerq_pool_replicas_ready": pool.fleet.ready if pool.fleet else 0,
        }
        if pool.entry is not None:
            gauges["runnerq_pool_replicas_min"] = pool.entry.scaling.min_replicas
            gauges["runnerq_pool_replicas_max"] = pool.entry.scaling.max_replicas
        if decision is not None:
            gauges["runnerq_pool_replicas_desired"] = decision.replicas
            gauges["runnerq_autoscaler_last_evaluation_timestamp_seconds"] = (
                observation.at.timestamp()
            )
            self._explanation(decision, labels)
        for name, value in gauges.items():
            self._metrics.set_gauge(name, value, labels=labels)

    def _explanation(self, decision: Decision, labels: dict[str, str]) -> None:
        """Why: each term, and the limit that the number met."""
        explanation = decision.explanation
        terms = explanation.terms
        for term in _TERMS:
            # Without a reading there are no terms; the last ones must not stay on show.
            asked = math.nan if terms is None else getattr(terms, term) / terms.slots_per_worker
            self._metrics.set_gauge(
                "runnerq_autoscaler_recommended_replicas", asked, labels={**labels, "term": term}
            )
        for limit in sorted(LIMITS):
            self._metrics.set_gauge(
                "runnerq_autoscaler_limited",
                float(explanation.clamped_by == limit),
                labels={**labels, "by": limit},
            )


DESCRIPTIONS = {
    "runnerq_operator_reconciles_total": "Passes of the loops, by outcome.",
    "runnerq_operator_reconcile_duration_seconds": "Time of one pass.",
    "runnerq_resource_condition": "1 for the current status of each condition.",
    "runnerq_autoscaler_decisions_total": "Changes of a pool's replicas, with the deciding reason.",
    "runnerq_autoscaler_recommended_replicas": "What one term alone asks for, before limits.",
    "runnerq_autoscaler_limited": "1 for the limit that the decision met.",
    "runnerq_autoscaler_last_evaluation_timestamp_seconds": "When the pool was last decided on.",
    "runnerq_pool_replicas_current": "Workers that exist and are not on their way out.",
    "runnerq_pool_replicas_ready": "Workers that are ready.",
    "runnerq_pool_replicas_desired": "What the autoscaler decided.",
    "runnerq_pool_replicas_min": "The pool's minimum.",
    "runnerq_pool_replicas_max": "The pool's maximum.",
}
"""Help texts of what is measured here; docs/metrics.md is compared with what is shown."""
