"""What an engine can be told, checked at once. Durations are seconds unless a name says otherwise."""

from __future__ import annotations

import os
from dataclasses import dataclass

from runnerq.errors import ConfigurationError


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
        if not self.queue_name:
            raise ConfigurationError("must not be empty", field="queue_name")
        if self.max_workers < 1:
            raise ConfigurationError(
                f"{self.max_workers} leaves no slot to run anything; at least 1",
                field="max_workers",
            )
        if self.claim_batch < 1 or self.reaper_batch < 1:
            raise ConfigurationError("batches must be at least 1", field="claim_batch")
        if self.heartbeat_interval <= 0 or self.liveness_timeout < 2 * self.heartbeat_interval:
            raise ConfigurationError(
                f"{self.liveness_timeout:g} s is less than two heartbeats of "
                f"{self.heartbeat_interval:g} s; one late heartbeat would lose every claim",
                field="liveness_timeout",
            )
        if self.drain_timeout < 0:
            raise ConfigurationError("must not be negative", field="drain_timeout")

    @property
    def cpu_process_limit(self) -> int:
        return self.cpu_workers or min(self.max_workers, os.cpu_count() or 1)

    @property
    def thread_limit(self) -> int:
        return self.sync_threads or min(self.max_workers, 64)
