"""The names an app may import; adding or losing one is a decision, not an accident."""

from __future__ import annotations

import subprocess
import sys

import pytest

import runnerq

PUBLIC = [
    "ActivityBuilder",
    "ActivityCancelled",
    "ActivityContext",
    "ActivityDefinition",
    "ActivityExecutor",
    "ActivityFailed",
    "ActivityFuture",
    "ActivityHandler",
    "ActivityHandlerRegistry",
    "ActivityNotFound",
    "ActivityState",
    "ActivityTimedOut",
    "BackendUnavailable",
    "Backoff",
    "BlockingExecutor",
    "CapabilityMissing",
    "ClaimLost",
    "ConfigurationError",
    "DuplicateActivity",
    "EngineConfig",
    "IdempotencyBehavior",
    "InvalidActivity",
    "MetricsSink",
    "NonRetryable",
    "NoopMetrics",
    "Priority",
    "PrometheusMetrics",
    "QueueInspector",
    "ResultExpired",
    "Retry",
    "RetryPolicy",
    "RunnerQError",
    "SchemaMismatch",
    "Snooze",
    "StorageError",
    "WorkerEngine",
    "WorkerEngineBuilder",
    "activity",
    "connect",
    "connect_blocking",
    "load_activities",
    "observability_api",
    "open_backend",
    "runnerq_ui",
]

MODULES = ["activity", "builder", "engine", "executor", "registry", "connection", "blocking"]


def test_the_public_names_are_these() -> None:
    assert sorted(runnerq.__all__) == sorted(PUBLIC)
    assert dir(runnerq) == sorted(PUBLIC)


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_can_be_imported(name: str) -> None:
    assert getattr(runnerq, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'runnerq' has no attribute 'Worker'"):
        runnerq.Worker  # noqa: B018 # pyright: ignore


@pytest.mark.parametrize("first", MODULES)
def test_activity_is_the_decorator_whatever_was_imported_before(first: str) -> None:
    code = (
        f"import runnerq.{first}\n"
        "from runnerq import activity\n"
        "assert activity('x')(lambda: None).type == 'x'\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
