"""Account: counts what attempts did, for the metrics sink and for the heartbeat's counters."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from runnerq.metrics import NoopMetrics
from runnerq.storage.records import (
    AckStatus,
    ActivityState,
    OutcomeKind,
    TypeCounters,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from runnerq.engine.attempt import Attempt
    from runnerq.metrics import MetricsSink
    from runnerq.storage.records import Acknowledged, Acknowledgement, Claim, Reaped

OUTCOMES = (*(kind.value for kind in OutcomeKind), "dead_letter", "claim_lost")
"""What an attempt can end as."""
LOSSES = ("taken_over", "cut_off", "engine_forgotten", "late_outcome")
"""How a claim can be lost."""
FAILED_BEATS = ("no_answer", "unknown_engine")
"""What can be wrong with a heartbeat."""


class Account:
    def __init__(self, queue: str, metrics: MetricsSink) -> None:
        self._queue = queue
        self._metrics = metrics
        # Per-activity observations are not even prepared when nobody listens: they cost 2 us each.
        self._listening = type(metrics) is not NoopMetrics
        self._started: Counter[str] = Counter()
        self._finished: Counter[str] = Counter()
        self._run_ms: Counter[str] = Counter()
        self._run_ms_squared: dict[str, float] = {}

    def counters(self) -> Mapping[str, TypeCounters]:
        """Monotone totals by type since this engine started. Called from the heartbeat's thread."""
        return {
            name: TypeCounters(
                started=self._started[name],
                finished=self._finished[name],
                run_ms=self._run_ms[name],
                run_ms_squared=self._run_ms_squared.get(name, 0.0),
            )
            for name in tuple(self._started)
        }

    def opened(self, types: Iterable[str], version: str) -> None:
        """The engine of this version starts with these types. Every counter begins at a visible
        zero: a rate never sees the rise of one that first appears at 1."""
        queue, count = {"queue": self._queue}, self._metrics.inc_counter
        for name in types:
            typed = {**queue, "type": name}
            count("runnerq_activities_started_total", 0, typed)
            for outcome in OUTCOMES:
                count("runnerq_activities_finished_total", 0, {**typed, "outcome": outcome})
        for reason in LOSSES:
            count("runnerq_leases_lost_total", 0, {**queue, "reason": reason})
        for reason in FAILED_BEATS:
            count("runnerq_worker_heartbeat_failures_total", 0, {"reason": reason})
        for outcome in ("hit", "empty", "error"):
            count("runnerq_fetches_total", 0, {**queue, "outcome": outcome})
        self.handed_back(0)
        self.reaped([])
        self._metrics.set_gauge(
            "runnerq_build_info", 1, {"component": "worker", "version": version}
        )

    def claimed(self, claims: list[Claim]) -> None:
        counts = Counter(claim.type for claim in claims)
        for name, count in counts.items():
            self._started[name] += count
            self._metrics.inc_counter(
                "runnerq_activities_started_total", count, {"queue": self._queue, "type": name}
            )
        for claim in claims if self._listening else ():
            waited = (claim.claimed_at - claim.ready_at).total_seconds()
            self._metrics.observe_duration(
                "runnerq_activity_wait_seconds",
                max(0.0, waited),
                {"queue": self._queue, "type": claim.type},
            )

    def stored(self, ended: list[tuple[Attempt, Acknowledgement, Acknowledged]]) -> None:
        outcomes: Counter[tuple[str, str]] = Counter()
        for attempt, acknowledgement, answer in ended:
            name = attempt.claim.type
            outcome = outcome_word(acknowledgement, answer)
            outcomes[name, outcome] += 1
            if acknowledgement.kind is not OutcomeKind.RELEASED:
                self._finished[name] += 1
                self._run_ms[name] += acknowledgement.run_ms
                self._run_ms_squared[name] = (
                    self._run_ms_squared.get(name, 0.0) + acknowledgement.run_ms**2
                )
            if self._listening and attempt.started is not None:
                self._metrics.observe_duration(
                    "runnerq_activity_run_seconds",
                    acknowledgement.run_ms / 1000,
                    {"queue": self._queue, "type": name, "outcome": outcome},
                )
        for (name, outcome), count in outcomes.items():
            self._metrics.inc_counter(
                "runnerq_activities_finished_total",
                count,
                {"queue": self._queue, "type": name, "outcome": outcome},
            )

    def lost(self, count: int, reason: str) -> None:
        self._metrics.inc_counter(
            "runnerq_leases_lost_total", count, {"queue": self._queue, "reason": reason}
        )

    def beat_failed(self, reason: str) -> None:
        self._metrics.inc_counter("runnerq_worker_heartbeat_failures_total", 1, {"reason": reason})

    def handed_back(self, count: int) -> None:
        self._metrics.inc_counter("runnerq_handed_back_total", count, {"queue": self._queue})

    def reaped(self, reaped: list[Reaped]) -> None:
        """Activities were taken back from owners that are gone. Those without attempts left have
        ended now, and nobody else will count it."""
        queue = {"queue": self._queue}
        self._metrics.inc_counter("runnerq_reaped_total", len(reaped), queue)
        dead = Counter(item.type for item in reaped if item.state is ActivityState.DEAD_LETTER)
        for name, count in dead.items():
            self._metrics.inc_counter(
                "runnerq_activities_finished_total",
                count,
                {**queue, "type": name, "outcome": "dead_letter"},
            )


def outcome_word(acknowledgement: Acknowledgement, answer: Acknowledged) -> str:
    """The outcome of an attempt in the one vocabulary used everywhere."""
    if answer.status is not AckStatus.ACCEPTED:
        return "claim_lost"
    if answer.state is ActivityState.DEAD_LETTER:
        return "dead_letter"
    return acknowledgement.kind.value
