"""The public names of the RunnerQ architecture, each used the way a program uses it.

Renaming one of them, or one of its arguments, breaks programs: a test here fails first.
"""

from __future__ import annotations

import asyncio
import inspect
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from tests.conformance.eventually import eventually

import runnerq
from runnerq import (
    ActivityContext,
    ActivityExecutor,
    ActivityFuture,
    ActivityHandler,
    ActivityHandlerRegistry,
    ActivityState,
    ConfigurationError,
    EngineConfig,
    IdempotencyBehavior,
    MetricsSink,
    NoopMetrics,
    Priority,
    PrometheusMetrics,
    QueueInspector,
    WorkerEngine,
    WorkerEngineBuilder,
    observability_api,
    runnerq_ui,
)
from runnerq.metrics import DESCRIPTIONS, guarded
from runnerq.storage.memory import MemoryBackend
from runnerq.storage.postgres import PostgresBackend
from runnerq.storage.records import ActivityEvent

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping
    from uuid import UUID

    from runnerq.storage.ports import Storage

WITHIN = 15.0
"""Seconds for what takes milliseconds on an idle machine."""


@pytest.fixture
def backend() -> MemoryBackend:
    return MemoryBackend("my_app")


@pytest.fixture
async def engine(backend: MemoryBackend) -> AsyncIterator[WorkerEngine]:
    """Not started; stopped at the end."""
    made = WorkerEngine.builder().backend(backend).max_workers(4).build()
    yield made
    await made.stop(grace=0)


def test_the_package_offers_every_name_of_the_seed() -> None:
    """One import for a program: everything it needs stands at the top."""
    wanted = {
        *("WorkerEngine", "WorkerEngineBuilder", "ActivityExecutor", "ActivityBuilder"),
        *("ActivityFuture", "ActivityHandler", "ActivityContext", "ActivityHandlerRegistry"),
        *("QueueInspector", "MetricsSink", "NoopMetrics", "runnerq_ui", "observability_api"),
    }
    assert wanted <= set(runnerq.__all__)
    for name in runnerq.__all__:
        assert getattr(runnerq, name) is not None


def test_the_builder_sets_everything_it_names(backend: MemoryBackend) -> None:
    sink = NoopMetrics()
    engine = (
        WorkerEngine.builder()
        .backend(backend)
        .queue_name("mail")
        .max_workers(8)
        .activity_types(["send_email"])
        .schedule_poll_interval(timedelta(seconds=30))
        .metrics(sink)
        .build()
    )
    config = engine.config
    assert engine.backend is backend
    assert (config.queue_name, config.max_workers) == ("mail", 8)
    assert (config.activity_types, config.schedule_poll_interval) == (("send_email",), 30.0)


def test_the_builder_needs_a_backend() -> None:
    with pytest.raises(ConfigurationError, match="backend"):
        WorkerEngine.builder().queue_name("my_app").build()


def test_a_half_made_builder_can_be_used_twice(backend: MemoryBackend) -> None:
    base: WorkerEngineBuilder = WorkerEngine.builder().backend(backend)
    assert base.max_workers(1).build().config.max_workers == 1
    assert base.build().config.max_workers == EngineConfig(queue_name="my_app").max_workers


def test_a_postgres_backend_is_made_from_an_address_and_a_queue() -> None:
    """It connects when it is opened, so this needs no server."""
    assert PostgresBackend("postgres://localhost/mydb", "my_app").default_queue == "my_app"


def test_without_a_queue_name_the_engine_works_at_the_backends_queue(engine: WorkerEngine) -> None:
    assert engine.config.queue_name == "my_app"


async def test_an_engine_starts_and_stops(engine: WorkerEngine) -> None:
    engine.register_activity("work", _echo)
    await engine.start()
    assert engine.healthy
    await engine.stop()
    assert not engine.healthy


async def test_a_registered_activity_is_run_by_its_type(engine: WorkerEngine) -> None:
    engine.register_activity("echo", _echo)
    await engine.start()
    future = await engine.get_activity_executor().activity("echo").payload({"n": 1}).execute()
    assert await future.get_result(timeout=WITHIN) == {"n": 1}


async def test_a_handler_object_is_called_with_payload_and_context(engine: WorkerEngine) -> None:
    class Greeter:
        async def handle(self, payload: dict[str, str], ctx: ActivityContext) -> str:
            return f"hello {payload['name']}, attempt {ctx.attempt} of {ctx.activity_type}"

    greeter = Greeter()
    assert isinstance(greeter, ActivityHandler)
    engine.register_activity("greet", greeter)
    await engine.start()
    future = (
        await engine.get_activity_executor().activity("greet").payload({"name": "Ada"}).execute()
    )
    assert await future.get_result(timeout=WITHIN) == "hello Ada, attempt 1 of greet"


async def test_a_handler_object_may_listen_for_its_dead_letters(engine: WorkerEngine) -> None:
    class Listener:
        def __init__(self) -> None:
            self.heard: list[tuple[Any, str]] = []

        async def handle(self, payload: str, ctx: ActivityContext) -> None:
            raise RuntimeError("it broke")

        async def on_dead_letter(self, payload: str, ctx: ActivityContext, error: Any) -> None:
            self.heard.append((payload, error.message))

    listener = Listener()
    engine.register_activity("break", listener)
    await engine.start()
    executor = engine.get_activity_executor()
    await executor.activity("break").payload("p").max_attempts(1).execute()
    await eventually(lambda: listener.heard, within=WITHIN)
    assert listener.heard == [("p", "it broke")]


def test_a_registry_finds_a_handler_by_its_type() -> None:
    registry = ActivityHandlerRegistry()
    registry.register("echo", _echo)
    found = registry.get("echo")
    assert found is not None
    assert (found.type, found.function) == ("echo", _echo)
    assert registry.get("other") is None


def test_the_executor_is_the_engines_and_serves_its_queue(engine: WorkerEngine) -> None:
    executor = engine.get_activity_executor()
    assert isinstance(executor, ActivityExecutor)
    assert executor.queue == engine.config.queue_name


async def test_every_setter_of_an_activity_reaches_the_queue(
    engine: WorkerEngine, backend: MemoryBackend
) -> None:
    future = await (
        engine.get_activity_executor()
        .activity("send_email")
        .payload({"to": "ada@example.org"})
        .priority(Priority.CRITICAL)
        .max_attempts(5)
        .timeout(timedelta(seconds=30))
        .delay(timedelta(minutes=1))
        .idempotency_key("welcome-1", behavior=IdempotencyBehavior.RETURN_EXISTING)
        .execute()
    )
    look = await backend.get_activity("my_app", future.id)
    assert (look.type, look.payload) == ("send_email", b'{"to":"ada@example.org"}')
    assert (look.priority, look.max_attempts) == (Priority.CRITICAL, 5)
    assert (look.timeout_ms, look.idempotency_key) == (30_000, "welcome-1")
    assert (look.status, look.ready_at - look.created_at) == ("scheduled", timedelta(minutes=1))


@pytest.mark.parametrize(
    ("name", "behavior"),
    [
        ("allow_reuse", IdempotencyBehavior.ALLOW_REUSE),
        ("return_existing", IdempotencyBehavior.RETURN_EXISTING),
        ("allow_reuse_on_failure", IdempotencyBehavior.ALLOW_REUSE_ON_FAILURE),
        ("no_reuse", IdempotencyBehavior.NO_REUSE),
    ],
)
def test_a_behavior_may_be_given_by_its_name(
    engine: WorkerEngine, name: str, behavior: IdempotencyBehavior
) -> None:
    builder = engine.get_activity_executor().activity("t").idempotency_key("k", behavior=name)
    assert builder.idempotency is not None
    assert builder.idempotency.behavior is behavior


def test_the_four_priorities_rank_as_in_the_seed() -> None:
    assert [(priority.name, int(priority)) for priority in sorted(Priority, reverse=True)] == [
        ("CRITICAL", 4),
        ("HIGH", 3),
        ("NORMAL", 2),
        ("LOW", 1),
    ]


async def test_a_future_gives_the_result(engine: WorkerEngine) -> None:
    engine.register_activity("echo", _echo)
    await engine.start()
    future: ActivityFuture[Any] = await (
        engine.get_activity_executor().activity("echo").payload([1, 2]).execute()
    )
    assert await future.get_result() == [1, 2]


def test_the_states_are_those_of_the_seed_and_cancelled() -> None:
    """Cancelled is ours. The words are those of every API outside of Python."""
    assert {state.value for state in ActivityState} == {
        *("pending", "scheduled", "processing", "retrying"),
        *("completed", "failed", "dead_letter", "cancelled"),
    }


async def test_the_inspector_reads_the_engines_queue(engine: WorkerEngine) -> None:
    inspector = engine.inspector()
    assert isinstance(inspector, QueueInspector)
    await engine.get_activity_executor().activity("work").execute()
    stats = await inspector.stats()
    assert (stats.queue, stats.counts[ActivityState.PENDING]) == ("my_app", 1)


async def test_each_list_of_the_inspector_holds_its_state(engine: WorkerEngine) -> None:
    executor, inspector = engine.get_activity_executor(), engine.inspector()
    let_go = await _one_in_every_state(engine)
    try:
        listed = {
            name: [item.type for item in (await getattr(inspector, name)()).items]
            for name in (
                *("list_pending", "list_processing", "list_scheduled"),
                *("list_completed", "list_dead_letter"),
            )
        }
        assert listed == {
            "list_pending": ["nobody"],
            "list_processing": ["hold"],
            "list_scheduled": ["later"],
            "list_completed": ["echo"],
            "list_dead_letter": ["break"],
        }
        assert executor.queue == inspector.queue
    finally:
        let_go()


async def test_the_inspector_shows_one_activity_and_its_timeline(engine: WorkerEngine) -> None:
    engine.register_activity("echo", _echo)
    await engine.start()
    future = await engine.get_activity_executor().activity("echo").payload("x").execute()
    await future.get_result(timeout=WITHIN)
    inspector = engine.inspector()
    look = await inspector.get_activity(future.id)
    assert (look.id, look.status) == (future.id, ActivityState.COMPLETED)
    events = await inspector.get_activity_events(future.id)
    assert [event.kind.value for event in events] == ["enqueued", "claimed", "completed"]


async def test_the_inspector_streams_what_happens(engine: WorkerEngine) -> None:
    async with engine.inspector().event_stream() as events:
        future = await engine.get_activity_executor().activity("work").execute()
        event = await anext(events)
    assert isinstance(event, ActivityEvent)
    assert (event.activity_id, event.kind) == (future.id, "enqueued")


async def test_a_sink_is_told_counters_and_durations(backend: MemoryBackend) -> None:
    class Sink(NoopMetrics):
        def __init__(self) -> None:
            self.counted: dict[str, float] = {}
            self.observed: set[str] = set()

        def inc_counter(
            self, name: str, value: float = 1, labels: Mapping[str, str] | None = None
        ) -> None:
            self.counted[name] = self.counted.get(name, 0) + value

        def observe_duration(
            self, name: str, duration: float | timedelta, labels: Mapping[str, str] | None = None
        ) -> None:
            self.observed.add(name)

    sink = Sink()
    await _ran_once(backend, sink)
    assert sink.counted["runnerq_activities_enqueued_total"] == 1
    assert sink.counted["runnerq_activities_finished_total"] == 1
    assert "runnerq_activity_run_seconds" in sink.observed


def test_the_calls_of_a_sink_have_the_seeds_names_and_order() -> None:
    for call, first in (("inc_counter", "value"), ("observe_duration", "duration")):
        names = list(inspect.signature(getattr(MetricsSink, call)).parameters)
        assert names == ["self", "name", first, "labels"]


async def test_a_sink_that_only_counts_is_enough(backend: MemoryBackend) -> None:
    """Durations are optional: by default they go nowhere."""

    class Counts(MetricsSink):
        def __init__(self) -> None:
            self.names: set[str] = set()

        def inc_counter(
            self, name: str, value: float = 1, labels: Mapping[str, str] | None = None
        ) -> None:
            self.names.add(name)

    sink = Counts()
    await _ran_once(backend, sink)
    assert "runnerq_activities_finished_total" in sink.names


def test_an_engine_without_a_sink_measures_nothing() -> None:
    assert type(guarded(None)) is NoopMetrics


async def test_prometheus_is_a_sink(backend: MemoryBackend) -> None:
    sink = PrometheusMetrics()
    await _ran_once(backend, sink)
    text = sink.render().decode()
    assert 'runnerq_activities_finished_total{outcome="completed",queue="my_app"' in text
    assert "runnerq_activity_run_seconds_bucket" in text


async def test_every_measurement_of_an_engine_has_a_documented_name(
    backend: MemoryBackend,
) -> None:
    class Names(MetricsSink):
        def __init__(self) -> None:
            self.seen: set[str] = set()

        def inc_counter(
            self, name: str, value: float = 1, labels: Mapping[str, str] | None = None
        ) -> None:
            self.seen.add(name)

        def observe_duration(
            self, name: str, duration: float | timedelta, labels: Mapping[str, str] | None = None
        ) -> None:
            self.seen.add(name)

        def observe_size(
            self, name: str, value: float, labels: Mapping[str, str] | None = None
        ) -> None:
            self.seen.add(name)

        def set_gauge(
            self, name: str, value: float, labels: Mapping[str, str] | None = None
        ) -> None:
            self.seen.add(name)

    sink = Names()
    await _ran_once(backend, sink)
    assert len(sink.seen) > 8
    assert sink.seen <= set(DESCRIPTIONS)


@pytest.mark.parametrize(
    ("mount", "path"),
    [(runnerq_ui, "/api/observability/stats"), (observability_api, "/stats")],
    ids=["runnerq_ui", "observability_api"],
)
async def test_the_console_mounts_at_any_path_of_an_app(
    engine: WorkerEngine, mount: Callable[[QueueInspector], web.Application], path: str
) -> None:
    app = web.Application()
    app.add_subapp("/ops/queue", mount(engine.inspector()))
    async with (
        TestClient(TestServer(app)) as client,
        client.get(f"/ops/queue{path}") as answer,
    ):
        assert answer.status == 200
        assert (await answer.json())["queue"] == "my_app"


def test_the_reaper_comes_every_five_seconds_for_a_hundred_by_default() -> None:
    config = EngineConfig(queue_name="q")
    assert (config.reaper_interval, config.reaper_batch) == (5.0, 100)


async def _echo(payload: Any) -> Any:
    return payload


async def _ran_once(backend: MemoryBackend, sink: MetricsSink) -> None:
    """An engine that told `sink` what it did: one activity, from start to stop."""
    engine = WorkerEngine.builder().backend(backend).metrics(sink).build()
    engine.register_activity("echo", _echo)
    await engine.start()
    future = await engine.get_activity_executor().activity("echo").execute()
    await future.get_result(timeout=WITHIN)
    await engine.stop()


async def _one_in_every_state(engine: WorkerEngine) -> Callable[[], None]:
    """Leaves one activity pending, processing, scheduled, completed and dead. Call the answer to let
    the one that runs end."""
    release = asyncio.Event()

    async def hold() -> None:
        await release.wait()

    async def broken() -> None:
        raise RuntimeError("it broke")

    for name, handler in (("echo", _echo), ("hold", hold), ("break", broken)):
        engine.register_activity(name, handler)
    await engine.start()
    executor = engine.get_activity_executor()
    await executor.activity("nobody").execute()
    await executor.activity("later").delay(hours=1).execute()
    held = await executor.activity("hold").execute()
    echoed = await executor.activity("echo").execute()
    dead = await executor.activity("break").max_attempts(1).execute()
    await echoed.get_result(timeout=WITHIN)

    async def state(activity_id: UUID) -> ActivityState:
        storage: Storage = engine.backend
        return (await storage.get_activity(executor.queue, activity_id)).status

    async def settled() -> bool:
        return (await state(dead.id), await state(held.id)) == (
            ActivityState.DEAD_LETTER,
            ActivityState.PROCESSING,
        )

    await eventually(settled, within=WITHIN)
    return release.set
