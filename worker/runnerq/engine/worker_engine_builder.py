"""WorkerEngineBuilder: the fluent way to a WorkerEngine. Immutable; every setter returns a new one."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from runnerq.durations import Duration, milliseconds
from runnerq.engine.worker_engine import WorkerEngine
from runnerq.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from runnerq.activity import ActivityDefinition
    from runnerq.metrics import MetricsSink
    from runnerq.storage.ports import Storage


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerEngineBuilder:
    chosen_backend: Storage | None = None
    chosen_activities: tuple[ActivityDefinition[Any, Any], ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def backend(self, backend: Storage) -> WorkerEngineBuilder:
        """Required."""
        return replace(self, chosen_backend=backend)

    def activities(self, *activities: ActivityDefinition[Any, Any]) -> WorkerEngineBuilder:
        """Adds handlers."""
        return replace(self, chosen_activities=(*self.chosen_activities, *activities))

    def queue_name(self, name: str) -> WorkerEngineBuilder:
        return self._set(queue_name=name)

    def max_workers(self, count: int) -> WorkerEngineBuilder:
        """How many handlers run at once."""
        return self._set(max_workers=count)

    def activity_types(self, types: Sequence[str] | None) -> WorkerEngineBuilder:
        """Exact names, `prefix*` or `*`; None = every type there is a handler for."""
        return self._set(activity_types=types)

    def schedule_poll_interval(self, interval: Duration) -> WorkerEngineBuilder:
        """Only used on backends that do not schedule natively."""
        ms = milliseconds(interval, field="schedule_poll_interval", at_least_ms=1)
        return self._set(schedule_poll_interval=ms / 1000)

    def drain_timeout(self, grace: Duration) -> WorkerEngineBuilder:
        return self._set(drain_timeout=milliseconds(grace, field="drain_timeout") / 1000)

    def metrics(self, sink: MetricsSink) -> WorkerEngineBuilder:
        return self._set(metrics=sink)

    def build(self) -> WorkerEngine:
        """Raises ConfigurationError when the backend is missing or a setting cannot work."""
        if self.chosen_backend is None:
            raise ConfigurationError("call .backend(...) first", field="backend")
        return WorkerEngine(self.chosen_backend, activities=self.chosen_activities, **self.settings)

    def _set(self, **changes: Any) -> WorkerEngineBuilder:
        return replace(self, settings={**self.settings, **changes})
