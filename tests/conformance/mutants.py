"""Deliberate faults: each switches off one safeguard of one rule, for one run of the suite.

Nothing in the product knows of them: a fault is a method replaced or a statement rewritten as it is
loaded. A statement that no longer holds the text to be replaced is an error, so a mutant cannot rot
into a harmless one. `test_mutants.py` asserts that the rule's cases notice each of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from importlib import import_module
from typing import TYPE_CHECKING, Any

from runnerq import ActivityExecutor, ActivityFuture, RetryPolicy
from runnerq.storage.memory.backlog import Backlog
from runnerq.storage.memory.fleet import FleetStore
from runnerq.storage.memory.store import ActivityStore
from runnerq.storage.postgres.sql import Statements
from runnerq.storage.records import OutcomeKind
from runnerq.storage.sqlite import SqliteBackend
from runnerq.storage.sqlite import queries as sqlite_queries
from runnerq.storage.sqlite.waiting import Waiting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import pytest

    from runnerq.storage.lanes import LaneHead

    Switch = Callable[[pytest.MonkeyPatch], None]

MEMORY, SQLITE, POSTGRES = "memory", "sqlite", "postgres"


@dataclass(frozen=True)
class Mutant:
    rule: int
    backend: str
    """Whose cases notice it."""
    apply: Switch
    cases: str = "test"
    """A part of the names of the cases that notice it, to find them quickly."""


def replaced(target: Any, name: str, value: Any) -> Switch:
    """`target.name` is `value`; a module is given by its path."""
    return wrapped(target, name, lambda _: value)


def wrapped(target: Any, name: str, make: Callable[[Any], Any]) -> Switch:
    """`target.name` is what `make` makes of the original; a module is given by its path."""

    def switch(monkeypatch: pytest.MonkeyPatch) -> None:
        holder = import_module(target) if isinstance(target, str) else target
        monkeypatch.setattr(holder, name, make(getattr(holder, name)))

    return switch


def always(answer: Any) -> Callable[..., Any]:
    """A function that answers this, whatever it is asked."""

    def say(*_: Any, **__: Any) -> Any:
        return answer

    return say


def rewritten(text: str, name: str, old: str, new: str) -> str:
    if old not in text:
        raise LookupError(f"{name}.sql no longer says {old!r}; the mutant needs another place")
    return text.replace(old, new)


def sqlite(name: str, old: str, new: str) -> Switch:
    """`sql/NAME.sql` says `new` instead of `old`."""

    def switch(monkeypatch: pytest.MonkeyPatch) -> None:
        honest = dict(sqlite_queries.load_queries())
        mutated = {**honest, name: rewritten(honest[name], name, old, new)}
        monkeypatch.setattr("runnerq.storage.sqlite.backend.load_queries", lambda: mutated)

    return switch


def postgres(name: str, old: str, new: str) -> Switch:
    """`sql/NAME.sql` says `new` instead of `old` (as it is sent: schema and numbers filled in)."""

    def make(honest: Callable[[Statements, str], str]) -> Callable[[Statements, str], str]:
        def read(self: Statements, wanted: str) -> str:
            text = honest(self, wanted)
            return rewritten(text, name, old, new) if wanted == name else text

        return read

    return wrapped(Statements, "__getitem__", make)


def _by_due_time(heads: Iterable[LaneHead], **_: Any) -> list[LaneHead]:
    return sorted(heads, key=lambda head: head.due_ms)


def _not_lifted(priority: int, *_: Any) -> int:
    return priority


def _every_handled_type(_: Any, handled: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(handled))


def _held_by_id_alone(_: Any) -> Any:
    def held(self: ActivityStore, queue: str, ref: Any) -> Any:
        return self.processing(queue).get(ref.id)

    return held


def _types_ignored(honest: Any) -> Any:
    def take(self: Backlog, types: Any, limit: int, **rest: Any) -> Any:
        return honest(self, {name for name, _ in self.waiting()}, limit, **rest)

    return take


def _answers_reversed(honest: Any) -> Any:
    def enqueue(self: ActivityStore, queue: str, specs: Any) -> Any:
        return list(reversed(honest(self, queue, specs)))

    return enqueue


def _one_transaction_each(honest: Any) -> Any:
    async def enqueue(self: SqliteBackend, queue: str, specs: Any) -> Any:
        return [one for spec in specs for one in await honest(self, queue, [spec])]

    return enqueue


def _one_call_each(honest: Any) -> Any:
    async def execute_many(self: ActivityExecutor, builders: Any) -> Any:
        return [one for builder in builders for one in await honest(self, [builder])]

    return execute_many


def _failures_read_as_none(honest: Any) -> Any:
    def read(self: ActivityFuture[Any], ended: Any) -> Any:
        return honest(self, ended) if ended.result is not None else None

    return read


def _late_value_counts(_: Any) -> Any:
    def interrupted(attempt: Any, policy: Any, outcome: Any) -> Any:
        return outcome

    return interrupted


def _shutdown_is_a_failure(honest: Any) -> Any:
    def interrupted(attempt: Any, policy: Any, outcome: Any) -> Any:
        ended = honest(attempt, policy, outcome)
        if ended is not None and ended.kind is OutcomeKind.RELEASED:
            return attempt.ended(OutcomeKind.RETRIED)
        return ended

    return interrupted


def _whole_seconds(honest: Any) -> Any:
    def milliseconds(value: Any, **rest: Any) -> Any:
        return honest(value, **rest) // 1000 * 1000

    return milliseconds


MUTANTS: dict[str, Mutant] = {
    "attempts-without-limit": Mutant(
        1, MEMORY, replaced("runnerq.storage.memory.store", "attempts_remain", always(True))
    ),
    "attempts-not-counted-at-the-claim": Mutant(
        1, SQLITE, sqlite("claim_lane", "attempt = attempt + 1", "attempt = attempt")
    ),
    "attempts-one-too-many": Mutant(
        1,
        POSTGRES,
        postgres("give_back", "a.attempt >= a.max_attempts", "a.attempt > a.max_attempts"),
    ),
    "attempts-a-lost-worker-never-dead-letters": Mutant(
        1, POSTGRES, postgres("reap", "p.max_attempts <> 0 AND", "false AND"), "crash_loop"
    ),
    "backoff-not-stored": Mutant(
        2, SQLITE, sqlite("put_back", "due_ms = :due_ms", "due_ms = due_ms"), "waits_exactly"
    ),
    "backoff-in-seconds": Mutant(
        2,
        POSTGRES,
        postgres("give_back", "ready.delay_ms * interval '1 millisecond'", "interval '1 second'"),
        "waits_exactly",
    ),
    "backoff-does-not-grow": Mutant(
        2,
        MEMORY,
        replaced(RetryPolicy, "delay", always(timedelta(seconds=1))),
        "an_engine",
    ),
    "fencing-by-id-alone": Mutant(3, MEMORY, wrapped(ActivityStore, "held", _held_by_id_alone)),
    "fencing-not-on-extend": Mutant(
        3, SQLITE, sqlite("extend_lease", "AND token = :token", ""), "extend"
    ),
    "fencing-not-on-the-result": Mutant(
        3, POSTGRES, postgres("finish", "AND a.token = d.token", ""), "stale_owner"
    ),
    "fencing-token-repeats": Mutant(
        3, SQLITE, sqlite("claim_lane", "randomblob(16)", "id"), "never_used_before"
    ),
    "leases-of-silent-engines-last": Mutant(
        4, SQLITE, sqlite("reapable", "AND e.heartbeat_ms > :now_ms - :liveness_ms", ""), "silent"
    ),
    "leases-shorter-than-the-timeout": Mutant(
        4,
        SQLITE,
        sqlite(
            "claim_lane", "max(:lease_floor_ms, timeout_ms + :lease_margin_ms)", ":lease_floor_ms"
        ),
        "covers_the_timeout",
    ),
    "leases-of-forgotten-engines-last": Mutant(
        4, MEMORY, replaced(FleetStore, "gone", always(False)), "engine"
    ),
    "leases-of-living-engines-end": Mutant(
        4,
        POSTGRES,
        postgres("reap", "CASE WHEN judged.gone THEN 'infinity' ELSE now() END", "'infinity'"),
        "left_alone",
    ),
    "acknowledge-differently-is-accepted": Mutant(
        5,
        SQLITE,
        replaced("runnerq.storage.sqlite.acknowledge", "_digest", always(b"")),
        "conflict",
    ),
    "acknowledge-repeated-is-a-conflict": Mutant(
        5,
        MEMORY,
        replaced("runnerq.storage.memory.store", "_same_outcome", always(False)),
        "repeating",
    ),
    "acknowledge-without-the-result": Mutant(
        5,
        POSTGRES,
        postgres(
            "finish",
            "result,\n       result_codec, error\nFROM",
            "NULL,\n       result_codec, error\nFROM",
        ),
        "result",
    ),
    "keys-are-not-looked-at": Mutant(
        6, MEMORY, replaced(ActivityStore, "_holder", always(None)), "follows_from"
    ),
    "keys-joined-by-a-dash": Mutant(
        6,
        SQLITE,
        sqlite(
            "key_holder",
            "k.type = :type AND k.key = :key",
            "k.type || '-' || k.key = :type || '-' || :key",
        ),
        "confused",
    ),
    "keys-are-always-free": Mutant(
        6, POSTGRES, postgres("enqueue_keyed", "d.always OR", "true OR"), "follows_from"
    ),
    "order-without-a-share-for-fresh-work": Mutant(
        7,
        MEMORY,
        replaced("runnerq.storage.memory.backlog", "retry_share", always(1_000)),
        "at_most_half",
    ),
    "order-by-due-time-alone": Mutant(
        7,
        SQLITE,
        replaced(
            "runnerq.storage.sqlite.claims",
            "effective_order",
            _by_due_time,
        ),
        "priority",
    ),
    "order-newest-first": Mutant(
        7,
        POSTGRES,
        postgres("claim", "ORDER BY a.due, a.id LIMIT", "ORDER BY a.due DESC, a.id DESC LIMIT"),
    ),
    "order-without-ageing": Mutant(
        7,
        POSTGRES,
        replaced("runnerq.storage.lanes", "lifted", _not_lifted),
        "lifted_above",
    ),
    "types-of-others-are-taken": Mutant(
        8, MEMORY, wrapped(Backlog, "take", _types_ignored), "claim"
    ),
    "types-are-prefixes": Mutant(
        8,
        SQLITE,
        sqlite("claim_lane", "AND type = :type", "AND type LIKE :type || '%'"),
        "exact",
    ),
    "types-are-not-looked-at": Mutant(
        8, POSTGRES, postgres("claim", "a.type_id = lane.type_id", "true"), "claim"
    ),
    "types-without-a-handler-are-accepted": Mutant(
        8,
        MEMORY,
        replaced("runnerq.engine.worker_engine", "resolve", _every_handled_type),
        "error_at_start",
    ),
    "time-in-whole-seconds": Mutant(
        9, SQLITE, sqlite("activity_insert", ":due_ms", ":due_ms / 1000 * 1000"), "exact_to"
    ),
    "time-is-not-waited-for": Mutant(
        9, POSTGRES, postgres("claim", "AND a.due <= now()", ""), "along"
    ),
    "time-of-a-timeout-in-whole-seconds": Mutant(
        9,
        MEMORY,
        wrapped("runnerq.activity", "milliseconds", _whole_seconds),
        "below_a_second",
    ),
    "handlers-too-late-still-count": Mutant(
        10,
        MEMORY,
        wrapped("runnerq.engine.run", "_interrupted", _late_value_counts),
        "swallows",
    ),
    "handlers-errors-are-formatted-unguarded": Mutant(
        10, SQLITE, replaced("runnerq.failure", "_message", str), "whatever"
    ),
    "handlers-snooze-costs-an-attempt": Mutant(
        10, POSTGRES, postgres("give_back", "THEN 0 ELSE 1 END", "THEN 0 ELSE 0 END"), "snooze"
    ),
    "stopping-without-a-word": Mutant(
        11, MEMORY, replaced(FleetStore, "retire", always(None)), "gone_for_the_others"
    ),
    "stopping-is-a-failed-attempt": Mutant(
        11,
        SQLITE,
        wrapped("runnerq.engine.run", "_interrupted", _shutdown_is_a_failure),
        "without_grace",
    ),
    "stopping-counts-the-attempt": Mutant(
        11,
        POSTGRES,
        postgres("give_back", "THEN 0 ELSE 1 END", "THEN 0 ELSE 0 END"),
        "without_grace",
    ),
    "futures-are-not-pushed": Mutant(
        12, SQLITE, replaced(Waiting, "ended", always(None)), "pushed"
    ),
    "futures-do-not-raise": Mutant(
        12, MEMORY, wrapped(ActivityFuture, "_read", _failures_read_as_none), "failure"
    ),
    "futures-of-dead-letters-know-no-error": Mutant(
        12, POSTGRES, postgres("give_back", "worker, new_error\n", "worker, NULL\n"), "dead_letter"
    ),
    "values-are-not-looked-through": Mutant(
        13, MEMORY, replaced("runnerq.payload", "_find_problem", always(None)), "cannot_be_stored"
    ),
    "values-become-text": Mutant(
        13, SQLITE, sqlite("history_insert", ":result,", "CAST(:result AS TEXT),"), "any_bytes"
    ),
    "values-of-errors-are-cut": Mutant(
        13,
        POSTGRES,
        postgres("give_back", "THEN ready.error ELSE", "THEN substring(ready.error FOR 5) ELSE"),
        "error_text",
    ),
    "batch-answers-in-another-order": Mutant(
        14, MEMORY, wrapped(ActivityStore, "enqueue", _answers_reversed), "input_order"
    ),
    "batch-in-several-transactions": Mutant(
        14, SQLITE, wrapped(SqliteBackend, "enqueue", _one_transaction_each), "as_a_whole"
    ),
    "batch-in-several-round-trips": Mutant(
        14, POSTGRES, wrapped(ActivityExecutor, "execute_many", _one_call_each), "one_round_trip"
    ),
}
