"""What an engine can be told, checked at once. Durations are seconds unless a name says otherwise."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass

from runnerq.errors import ConfigurationError

MOST_WORKERS = 10_000
"""Slots of one process: each is a task, so a slip of the finger must not ask for all the memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    queue_name: str
    max_workers: int = 100
    """Slots: how many handlers run at once in this process."""
    activity_types: tuple[str, ...] | None = None
    """Exact names, `prefix*` or `*`; None = every type there is a handler for."""
    drain_timeout: float = 25.0
    """How long `stop` lets handlers finish before it hands their claims back."""
    heartbeat_interval: float = 5.0
    liveness_timeout: float = 15.0
    """An engine silent for this long is dead to the others; its claims are taken back."""
    reaper_interval: float = 5.0
    reaper_batch: int = 100
    schedule_poll_interval: float = 1.0
    """Only for backends that do not schedule natively."""
    shortest_poll: float = 0.02
    longest_poll: float = 2.0
    """Idle polling adapts between these; wake-ups from the backend come on top."""
    claim_batch: int = 200
    lease_floor: float = 60.0
    lease_margin: float = 10.0
    ageing: float | None = 300.0
    """A lane whose head waited this long counts as one priority higher; None switches it off."""
    cpu_workers: int | None = None
    """Processes for `cpu=True` handlers; None = as many as slots, at most the CPUs of the machine."""
    sync_threads: int | None = None
    """Threads for plain handlers; None = as many as slots, at most 64."""
    pool: str = ""
    pod: str = ""
    build_id: str = ""

    def __post_init__(self) -> None:
        if not self.queue_name or not isinstance(self.queue_name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"{self.queue_name!r} is not a name", field="queue_name")
        for field in ("max_workers", "claim_batch", "reaper_batch"):
            _check_count(field, getattr(self, field))
        if self.max_workers > MOST_WORKERS:
            raise ConfigurationError(
                f"{self.max_workers} is more than one process can serve; at most {MOST_WORKERS}, "
                "and more processes for more",
                field="max_workers",
            )
        for field in ("cpu_workers", "sync_threads"):
            if getattr(self, field) is not None:
                _check_count(field, getattr(self, field))
        for field in _POSITIVE:
            _check_seconds(field, getattr(self, field), zero=False)
        for field in ("drain_timeout", "lease_margin"):
            _check_seconds(field, getattr(self, field), zero=True)
        if self.ageing is not None:
            _check_seconds("ageing", self.ageing, zero=False)
        if self.longest_poll < self.shortest_poll:
            raise ConfigurationError(
                f"{self.longest_poll:g} s is less than shortest_poll, {self.shortest_poll:g} s",
                field="longest_poll",
            )
        if self.liveness_timeout < 2 * self.heartbeat_interval:
            raise ConfigurationError(
                f"{self.liveness_timeout:g} s is less than two heartbeats of "
                f"{self.heartbeat_interval:g} s; one late heartbeat would lose every claim",
                field="liveness_timeout",
            )

    @property
    def cpu_process_limit(self) -> int:
        return self.cpu_workers or min(self.max_workers, os.cpu_count() or 1)

    @property
    def thread_limit(self) -> int:
        return self.sync_threads or min(self.max_workers, 64)


_POSITIVE = (
    "heartbeat_interval",
    "liveness_timeout",
    "reaper_interval",
    "schedule_poll_interval",
    "shortest_poll",
    "longest_poll",
    "lease_floor",
)


def _check_count(field: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigurationError(f"{value!r} is not a whole number from 1 on", field=field)


def _check_seconds(field: str, value: object, *, zero: bool) -> None:
    number = value if isinstance(value, int | float) and not isinstance(value, bool) else math.nan
    if not math.isfinite(number) or number < 0 or (number == 0 and not zero):
        least = "0 or more" if zero else "more than 0"
        raise ConfigurationError(f"{value!r} is not a number of seconds, {least}", field=field)
