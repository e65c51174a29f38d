"""What an engine can be told, checked at once."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.sdk.odd import odd

from runnerq import ConfigurationError, EngineConfig, WorkerEngine
from runnerq.storage.memory import MemoryBackend


def test_the_defaults_are_those_of_the_design() -> None:
    config = EngineConfig(queue_name="q")
    assert (config.heartbeat_interval, config.liveness_timeout) == (5, 15)
    assert (config.lease_floor, config.lease_margin) == (60, 10)
    assert (config.reaper_interval, config.reaper_batch) == (5, 100)
    assert config.max_workers == 100


def test_threads_and_processes_follow_the_slots_unless_they_are_set() -> None:
    assert EngineConfig(queue_name="q", max_workers=8).thread_limit == 8
    assert EngineConfig(queue_name="q", max_workers=800).thread_limit == 64
    assert EngineConfig(queue_name="q", max_workers=1).cpu_process_limit == 1
    assert EngineConfig(queue_name="q", sync_threads=3, cpu_workers=9).thread_limit == 3
    assert EngineConfig(queue_name="q", sync_threads=3, cpu_workers=9).cpu_process_limit == 9


NOT_COUNTS: list[Any] = [0, -1, 1.5, "5", None, True, float("nan")]
NOT_SECONDS: list[Any] = [-1, "5", None, True, float("nan"), float("inf")]


@pytest.mark.parametrize("value", NOT_COUNTS)
@pytest.mark.parametrize("field", ["max_workers", "claim_batch", "reaper_batch"])
def test_a_count_is_a_whole_number_from_one(field: str, value: Any) -> None:
    with pytest.raises(ConfigurationError) as caught:
        EngineConfig(**odd({"queue_name": "q", field: value}))
    assert caught.value.field == field


@pytest.mark.parametrize("field", ["cpu_workers", "sync_threads"])
def test_an_optional_count_may_be_left_open(field: str) -> None:
    EngineConfig(**odd({"queue_name": "q", field: None}))
    with pytest.raises(ConfigurationError, match=f"^{field}: 0"):
        EngineConfig(**odd({"queue_name": "q", field: 0}))


@pytest.mark.parametrize("value", NOT_SECONDS)
@pytest.mark.parametrize(
    "field",
    [
        "heartbeat_interval",
        "liveness_timeout",
        "reaper_interval",
        "schedule_poll_interval",
        "shortest_poll",
        "longest_poll",
        "lease_floor",
        "lease_margin",
        "drain_timeout",
    ],
)
def test_a_duration_is_a_finite_number_of_seconds(field: str, value: Any) -> None:
    with pytest.raises(ConfigurationError) as caught:
        EngineConfig(**odd({"queue_name": "q", field: value}))
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"queue_name": ""}, "queue_name"),
        ({"queue_name": 5}, "queue_name"),
        ({"max_workers": 10_001}, "max_workers"),
        ({"max_workers": 99_999_999_999}, "max_workers"),
        ({"liveness_timeout": 9.9}, "liveness_timeout"),
        ({"shortest_poll": 3.0}, "longest_poll"),
        ({"ageing": 0}, "ageing"),
        ({"heartbeat_interval": 0}, "heartbeat_interval"),
    ],
)
def test_settings_that_contradict_each_other_name_the_field(
    settings: dict[str, Any], field: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        EngineConfig(**odd({"queue_name": "q", **settings}))
    assert caught.value.field == field


def test_a_grace_of_nothing_and_no_ageing_are_settings() -> None:
    EngineConfig(queue_name="q", drain_timeout=0, lease_margin=0, ageing=None)


def test_an_engine_refuses_a_setting_it_does_not_know_by_its_name() -> None:
    with pytest.raises(TypeError, match="max_worker"):
        WorkerEngine(MemoryBackend(), max_worker=5)


def test_the_engines_builder_is_immutable_and_wants_a_backend() -> None:
    first = WorkerEngine.builder()
    second = first.backend(MemoryBackend("orders")).max_workers(3).drain_timeout(2)
    engine = second.queue_name("mine").schedule_poll_interval(0.5).build()
    assert engine.config.queue_name == "mine"
    assert (engine.config.max_workers, engine.config.drain_timeout) == (3, 2)
    assert second.build().config.queue_name == "orders"
    with pytest.raises(ConfigurationError, match=r"^backend: "):
        first.build()
