"""RunnerQ: a job engine for Python.

    from runnerq import activity, connect

    @activity("send_email", timeout=30)
    async def send_email(email: Email) -> Receipt: ...

    async with await connect() as executor:
        receipt = await (await send_email.payload(email).on(executor).execute())

These are the public names; everything else may change between versions. Names are loaded when first
used, so that importing the package is cheap.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

# Not lazy: the decorator shares its name with its module, and whichever is bound last wins.
from runnerq.activity import ActivityDefinition, ActivityHandler, activity

if TYPE_CHECKING:
    from runnerq.blocking import BlockingExecutor, connect_blocking
    from runnerq.builder import ActivityBuilder
    from runnerq.connection import connect, open_backend
    from runnerq.console import observability_api, runnerq_ui
    from runnerq.context import ActivityContext
    from runnerq.engine import EngineConfig, WorkerEngine, WorkerEngineBuilder
    from runnerq.errors import (
        ActivityCancelled,
        ActivityFailed,
        ActivityNotFound,
        ActivityTimedOut,
        BackendUnavailable,
        CapabilityMissing,
        ClaimLost,
        ConfigurationError,
        DuplicateActivity,
        InvalidActivity,
        NonRetryable,
        ResultExpired,
        Retry,
        RunnerQError,
        SchemaMismatch,
        Snooze,
        StorageError,
    )
    from runnerq.executor import ActivityExecutor
    from runnerq.future import ActivityFuture
    from runnerq.inspector import QueueInspector
    from runnerq.metrics import MetricsSink, NoopMetrics, PrometheusMetrics
    from runnerq.registry import ActivityHandlerRegistry, load_activities
    from runnerq.retry import Backoff, RetryPolicy
    from runnerq.storage.records import ActivityState, IdempotencyBehavior, Priority

__all__ = [
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

_HOMES = {
    "runnerq.blocking": ("BlockingExecutor", "connect_blocking"),
    "runnerq.builder": ("ActivityBuilder",),
    "runnerq.connection": ("connect", "open_backend"),
    "runnerq.console": ("observability_api", "runnerq_ui"),
    "runnerq.context": ("ActivityContext",),
    "runnerq.engine": ("EngineConfig", "WorkerEngine", "WorkerEngineBuilder"),
    "runnerq.errors": (
        "ActivityCancelled",
        "ActivityFailed",
        "ActivityNotFound",
        "ActivityTimedOut",
        "BackendUnavailable",
        "CapabilityMissing",
        "ClaimLost",
        "ConfigurationError",
        "DuplicateActivity",
        "InvalidActivity",
        "NonRetryable",
        "ResultExpired",
        "Retry",
        "RunnerQError",
        "SchemaMismatch",
        "Snooze",
        "StorageError",
    ),
    "runnerq.executor": ("ActivityExecutor",),
    "runnerq.future": ("ActivityFuture",),
    "runnerq.inspector": ("QueueInspector",),
    "runnerq.metrics": ("MetricsSink", "NoopMetrics", "PrometheusMetrics"),
    "runnerq.registry": ("ActivityHandlerRegistry", "load_activities"),
    "runnerq.retry": ("Backoff", "RetryPolicy"),
    "runnerq.storage.records": ("ActivityState", "IdempotencyBehavior", "Priority"),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    module = _HOME_OF.get(name)
    if module is None:
        raise AttributeError(f"module 'runnerq' has no attribute {name!r}")
    return getattr(importlib.import_module(module), name)


def __dir__() -> list[str]:
    return sorted(__all__)
