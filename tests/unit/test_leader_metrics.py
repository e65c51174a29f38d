"""What the control loop shows of queues and pools, and what it stops showing, in virtual time."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable

from tests.simulated import stage, until
from tests.unit.control_views import desired_queue
from tests.virtual_time import run_in_virtual_time

from runnerq_operator.control.leader_metrics import MAX_TYPES, LeaderMetrics
from runnerq_operator.fleet.port import QueueKey

QUICK = {"tickSeconds": 1, "scaleDownWindowSeconds": 5, "scaleToZeroSeconds": 5}
POOL = {"pool": "shop-mail", "resource_namespace": ""}
SHOP = {"queue": "shop", "resource_namespace": ""}


def played(play: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(10_000):
            await play()

    run_in_virtual_time(bounded())


class Shown:
    """The metrics of a loop, read as a scrape reads them."""

    def __init__(self) -> None:
        self.existing = True
        self.metrics = LeaderMetrics(lambda _: self.existing)

    def value(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(name, labels)

    def names(self) -> set[str]:
        """Of what has samples."""
        families = self.metrics.registry.collect()
        return {sample.name for family in families for sample in family.samples}

    def labels(self, name: str) -> list[dict[str, str]]:
        families = self.metrics.registry.collect()
        return [one.labels for family in families for one in family.samples if one.name == name]


def test_an_empty_queue_shows_zeros() -> None:
    shown = Shown()

    async def play() -> None:
        async with stage(metrics=shown.metrics):
            await until(lambda: shown.value("runnerq_backend_up", **SHOP) == 1, within=5)
            for state in ("claimable", "processing", "scheduled"):
                labels = {**SHOP, "type": "", "state": state}
                assert shown.value("runnerq_queue_activities", **labels) == 0
            assert shown.value("runnerq_queue_oldest_ready_age_seconds", **SHOP) == 0
            assert shown.value("runnerq_pool_replicas_current", **POOL) == 0

    played(play)


def test_a_rise_is_counted_once_with_its_reason_and_shown_with_its_terms() -> None:
    shown = Shown()
    scaling = {"pools.0.scaling": {"maxReplicas": 2, "behavior": QUICK}}

    async def play() -> None:
        async with stage(desired_queue(scaling), metrics=shown.metrics) as on:
            await on.enqueue(500)
            await until(lambda: on.fleet.ready() == 2, within=20)
            await asyncio.sleep(3)
            decided = {**POOL, "direction": "up", "reason": "MaxReplicas"}
            assert shown.value("runnerq_autoscaler_decisions_total", **decided) == 1
            assert shown.value("runnerq_autoscaler_limited", **POOL, by="MaxReplicas") == 1
            assert shown.value("runnerq_autoscaler_limited", **POOL, by="RiseDelay") == 0
            drain = shown.value("runnerq_autoscaler_recommended_replicas", **POOL, term="drain")
            assert drain is not None
            assert drain > 2
            assert shown.value("runnerq_pool_replicas_ready", **POOL) == 2

    played(play)


def test_what_cannot_be_read_is_not_shown_as_if_it_were_the_present() -> None:
    shown = Shown()

    async def play() -> None:
        async with stage(metrics=shown.metrics) as on:
            await on.enqueue(5)
            await until(lambda: on.fleet.ready() == 1, within=20)
            on.backend.cut_off()
            await until(lambda: shown.value("runnerq_backend_up", **SHOP) == 0, within=30)
            vanished = {
                "runnerq_queue_activities",
                "runnerq_queue_oldest_ready_age_seconds",
                "runnerq_workers",
                "runnerq_stats_last_collection_timestamp_seconds",
            }
            assert not shown.names() & vanished
            steady = shown.value("runnerq_autoscaler_recommended_replicas", **POOL, term="steady")
            assert steady is not None
            assert math.isnan(steady)
            assert shown.value("runnerq_pool_replicas_ready", **POOL) == 1
            on.backend.heal()
            await until(lambda: shown.value("runnerq_backend_up", **SHOP) == 1, within=30)

    played(play)


def test_nothing_is_left_of_a_pool_that_left_the_spec() -> None:
    shown = Shown()
    old = {"name": "old", "activityTypes": ["old_*"], "app": "shop.old"}
    reading = {"resource_namespace": "", "pool": "shop-old"}

    async def play() -> None:
        async with stage(desired_queue({"pools.1": old}), metrics=shown.metrics) as on:
            name = "runnerq_pool_replicas_desired"
            await until(lambda: shown.value(name, **reading) is not None, within=5)
            on.apply(desired_queue())
            await until(lambda: len(on.fleet.by_key) == 1, within=60)
            await until(lambda: shown.value(name, **reading) is None, within=60)
            for name in shown.names():
                assert all(labels.get("pool") != "shop-old" for labels in shown.labels(name)), name
            assert shown.value("runnerq_pool_replicas_desired", **POOL) == 0

    played(play)


def test_nothing_is_left_of_a_queue_that_is_gone() -> None:
    shown = Shown()

    async def play() -> None:
        async with stage(metrics=shown.metrics) as on:
            await until(lambda: shown.value("runnerq_backend_up", **SHOP) == 1, within=5)
            on.controller.forget(QueueKey("", "shop"))
            shown.existing = False
            assert {name.removesuffix("_created") for name in shown.names()} <= {
                "runnerq_operator_reconciles_total",
                "runnerq_operator_reconcile_duration_seconds",
                "runnerq_operator_reconcile_duration_seconds_bucket",
                "runnerq_operator_reconcile_duration_seconds_count",
                "runnerq_operator_reconcile_duration_seconds_sum",
            }

    played(play)


def test_types_beyond_the_cap_are_summed() -> None:
    shown = Shown()

    async def play() -> None:
        async with stage(metrics=shown.metrics) as on:
            for number in range(MAX_TYPES + 5):
                await on.enqueue(2, f"report_{number:03}")
            await until(
                lambda: (
                    shown.value("runnerq_queue_activities", **SHOP, type="other", state="claimable")
                    == 10
                ),
                within=20,
            )
            types = {labels["type"] for labels in shown.labels("runnerq_queue_activities")}
            assert len(types) == MAX_TYPES + 2  # "other", and the one of no type

    played(play)
