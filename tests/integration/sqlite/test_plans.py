"""How SQLite runs the statements that must not grow with a backlog."""

from __future__ import annotations

import json
import re
import sqlite3
from typing import TYPE_CHECKING

import pytest

from runnerq.storage.sqlite import schema
from runnerq.storage.sqlite.queries import load_queries

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

QUERIES = load_queries()
HOT = (
    *("lane_heads", "claim_lane", "waiting_lanes", "running_by_type", "reapable"),
    *("count_live_by_type", "count_live", "count_ended", "list_live", "list_ended"),
    *(
        "live_attempt",
        "ended_attempt",
        "still_held",
        "extend_lease",
        "key_holder",
        "stored_anywhere",
    ),
    *("events_of", "decisions_of", "transitions_after", "has_ended", "snapshot_live", "ended"),
)
BACKLOG = 20_000


def plan(connection: sqlite3.Connection, name: str) -> list[str]:
    statement = QUERIES[name]
    names = set(re.findall(r":(\w+)", statement))
    rows = connection.execute(f"EXPLAIN QUERY PLAN {statement}", dict.fromkeys(names, 0))
    return [row[3] for row in rows]


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    """Waiting work of a foreign type and future work, and one due activity behind them."""
    path: Path = tmp_path_factory.mktemp("full") / "queue.db"
    schema.migrate(path)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN")
    connection.executemany(
        "INSERT INTO runnerq_activities (id, queue, type, state, priority, due_ms, created_ms, "
        "max_attempts, timeout_ms, payload, codec, headers) "
        "VALUES (?, 'q', ?, 'pending', ?, ?, 0, 3, 1000, x'', 'json', x'7b7d')",
        [
            (
                number.to_bytes(16, "big"),
                "foreign" if number % 2 else "mine",
                1 + number % 4,
                0 if number % 2 else 10**12,
            )
            for number in range(BACKLOG)
        ],
    )
    connection.execute("COMMIT")
    yield connection
    connection.close()


@pytest.mark.parametrize("name", HOT)
def test_no_table_is_read_from_end_to_end(full: sqlite3.Connection, name: str) -> None:
    tables = [step for step in plan(full, name) if re.match(r"SCAN (\w+)( USING|$)", step)]
    whole = [step for step in tables if "runnerq_" in step]
    assert whole == []


def test_a_claim_walks_one_range_of_the_lanes(full: sqlite3.Connection) -> None:
    [search] = [step for step in plan(full, "claim_lane") if "runnerq_lanes" in step]
    assert "COVERING INDEX" in search
    assert "(queue=? AND type=? AND priority=? AND retried=? AND due_ms<?)" in search


def test_reaping_looks_at_leases_only(full: sqlite3.Connection) -> None:
    assert any("runnerq_leases" in step for step in plan(full, "reapable"))
    assert any("runnerq_leases" in step for step in plan(full, "running_by_type"))


@pytest.mark.parametrize("name", ["lane_heads", "waiting_lanes"])
def test_lanes_are_found_without_walking_the_backlog(full: sqlite3.Connection, name: str) -> None:
    """Counted in steps of SQLite's machine, which do not depend on how busy the computer is."""
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    parameters = {"queue": "q", "types": json.dumps(["mine", "foreign"]), "now_ms": 1_000}
    full.set_progress_handler(count, 100)
    full.execute(QUERIES[name], {**parameters, "bound": 1, "horizon_ms": 1}).fetchall()
    full.set_progress_handler(None, 0)
    assert steps * 100 < BACKLOG / 2


def test_counts_stop_at_their_bound(full: sqlite3.Connection) -> None:
    row = full.execute(
        QUERIES["count_live"], {"queue": "q", "state": "pending", "bound": 11}
    ).fetchone()
    assert row == (11,)


def test_every_statement_says_why_it_is_as_it_is() -> None:
    for name, text in QUERIES.items():
        assert text.startswith("-- "), name
