"""What /metrics says of the console and the queue, and what it stops saying when it does not know."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.parser import text_string_to_metric_families
from tests.conformance.eventually import eventually
from tests.integration.console.served import served

from runnerq.storage.records import ActivityState

if TYPE_CHECKING:
    from tests.integration.console.served import Served

FORBIDDEN_LABELS = {
    "job",
    "instance",
    "namespace",
    "pod",
    "container",
    "service",
    "endpoint",
    "node",
}


async def samples(console: Served) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    text = (await console.get("/metrics")).text
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def sample(console: Served, name: str, **labels: str) -> float | None:
    return (await samples(console)).get((name, frozenset(labels.items())))


async def test_the_queues_depth_is_exported_by_type_and_state(console: Served) -> None:
    await console.shop.dead()
    await console.shop.enqueue()
    await console.shop.enqueue("report", delay_ms=60_000)

    async def counted() -> bool:
        name = "runnerq_queue_activities"
        claimable = await sample(console, name, queue="shop", type="send", state="claimable")
        later = await sample(console, name, queue="shop", type="report", state="scheduled")
        dead = await sample(console, name, queue="shop", type="", state="dead_letter")
        return (claimable, later, dead) == (1, 1, 1)

    await eventually(counted)
    assert await sample(console, "runnerq_workers", queue="shop", state="live") == 1
    assert await sample(console, "runnerq_backend_up", queue="shop", backend="memory") == 1
    assert await sample(console, "runnerq_queue_oldest_ready_age_seconds", queue="shop") is not None
    read_at = await sample(
        console,
        "runnerq_stats_last_collection_timestamp_seconds",
        queue="shop",
        backend="memory",
    )
    assert read_at is not None


async def test_when_the_backend_is_away_its_gauges_vanish(console: Served) -> None:
    async def up(value: float) -> bool:
        return await sample(console, "runnerq_backend_up", queue="shop", backend="memory") == value

    await eventually(lambda: up(1))
    console.backend.down = True
    await eventually(lambda: up(0))
    names = {name for name, _ in await samples(console)}
    assert not names & {"runnerq_queue_activities", "runnerq_workers"}
    assert "runnerq_queue_oldest_ready_age_seconds" not in names


async def test_in_a_cluster_it_exports_of_the_depth_only_what_the_operator_does_not() -> None:
    async with served(queue_gauges=False) as console:
        await console.shop.dead()
        await console.shop.enqueue()

        async def up() -> bool:
            name = "runnerq_queue_activities"
            return await sample(console, name, queue="shop", type="", state="dead_letter") == 1

        await eventually(up)
        counted = await samples(console)
        states = {dict(labels)["state"] for name, labels in counted if name.endswith("_activities")}
        assert states == {"dead_letter"}
        assert "runnerq_workers" not in {name for name, _ in counted}


async def test_a_scrape_costs_the_backend_nothing() -> None:
    async with served(sample_seconds=600) as console:
        await eventually(lambda: "decisions" in console.backend.asked)
        before = list(console.backend.asked)
        await samples(console)
        assert console.backend.asked == before


async def test_requests_are_counted_by_route_and_not_by_path(console: Served) -> None:
    for state in ActivityState:
        await console.api(f"/activities/{state.value}")
    await console.get("/somewhere/else")
    counted = await samples(console)
    routes = {
        dict(labels)["route"]
        for name, labels in counted
        if name == "runnerq_console_requests_total"
    }
    assert routes == {"/api/observability/activities/{key}", "unmatched", "/metrics"} - {"/metrics"}


async def test_no_label_collides_with_those_of_a_scrape_target(console: Served) -> None:
    for name, labels in await samples(console):
        assert not FORBIDDEN_LABELS & {label for label, _ in labels}, name


async def test_reads_are_timed_by_question(console: Served) -> None:
    await console.api("/dead-letter")
    counted = await sample(console, "runnerq_console_query_duration_seconds_count", query="list")
    assert counted == 1
