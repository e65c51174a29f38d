"""What the loop measures of itself and of the pools, as metrics. Names are those of docs/metrics.md."""

from __future__ import annotations

from runnerq.metrics import MetricsSink
from runnerq_operator.autoscale.decide import Decision
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
        for name, value in gauges.items():
            self._metrics.set_gauge(name, value, labels=labels)
