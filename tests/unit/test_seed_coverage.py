"""docs/seed-coverage.md against the tree: what it names exists, and no statement gets lost."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "seed-coverage.md"
DECISIONS = ROOT / "docs" / "decisions"

LEAST = {"The RunnerQ architecture": 152, "The Floxide WorkQueue chapter": 37}
"""Statements per seed. A seed does not change, so a row may be split but never be dropped."""

_TEST = re.compile(r"`([\w/]+\.py)::(\w+)`")
_DECISION = re.compile(r"\[(\d+)\]\(decisions/([\w.-]+)\)")
_PLANNED = re.compile(r"planned: (workflows|Redis|Kafka)\b")


class Row(NamedTuple):
    seed: str
    name: str
    statement: str
    shown_by: str

    @property
    def tests(self) -> list[tuple[str, str]]:
        return _TEST.findall(self.shown_by)

    @property
    def decisions(self) -> list[tuple[str, str]]:
        return _DECISION.findall(self.shown_by)

    @property
    def answer(self) -> str:
        """The one it begins with, by which it is counted; "" when it has none."""
        kinds = (("planned", _PLANNED), ("test", _TEST), ("decision", _DECISION))
        return next((kind for kind, pattern in kinds if pattern.match(self.shown_by)), "")


@cache
def rows() -> list[Row]:
    """Of all tables below the seeds' headings."""
    found: list[Row] = []
    seed = ""
    for line in PAGE.read_text().splitlines():
        if line.startswith("## "):
            seed = line.removeprefix("## ")
        elif seed and line.startswith("| ") and not line.startswith("| # "):
            name, statement, shown_by = (cell.strip() for cell in line.strip("|").split(" | "))
            found.append(Row(seed, name, statement, shown_by))
    return found


@cache
def functions(path: str) -> frozenset[str]:
    """Tests at the top level of a file below tests/; empty when there is no such file."""
    file = ROOT / "tests" / path
    if not file.is_file():
        return frozenset()
    return frozenset(
        node.name
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )


def test_every_test_that_is_named_exists() -> None:
    missing = [
        f"{row.name}: {path}::{function}"
        for row in rows()
        for path, function in row.tests
        if not function.startswith("test_") or function not in functions(path)
    ]
    assert missing == []


def test_every_decision_that_is_named_exists_under_its_number() -> None:
    missing = [
        f"{row.name}: {number} {file}"
        for row in rows()
        for number, file in row.decisions
        if not file.startswith(f"{int(number):04}-") or not (DECISIONS / file).is_file()
    ]
    assert missing == []


def test_every_statement_has_an_answer() -> None:
    assert [row.name for row in rows() if not row.statement or not row.answer] == []


def test_every_row_has_a_name_of_its_own() -> None:
    assert [name for name, count in Counter(row.name for row in rows()).items() if count > 1] == []


@pytest.mark.parametrize("seed", LEAST)
def test_no_statement_of_a_seed_gets_lost(seed: str) -> None:
    assert sum(row.seed == seed for row in rows()) >= LEAST[seed]


def test_nothing_is_a_table_row_without_being_read() -> None:
    """A row with a stray bar, or above the headings, would be in nobody's count."""
    summary = 1 + len(LEAST)
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("|")]
    heads = [line for line in lines if line.startswith(("| # ", "|---"))]
    assert len(lines) == len(rows()) + len(heads) + summary


@pytest.mark.parametrize("seed", LEAST)
def test_the_summary_tells_what_the_tables_hold(seed: str) -> None:
    held = Counter(row.answer for row in rows() if row.seed == seed)
    numbers = (held.total(), held["test"], held["decision"], held["planned"])
    line = f"| {seed} | {' | '.join(map(str, numbers))} |"
    assert line in PAGE.read_text().splitlines()


def test_every_decision_that_leaves_the_seed_is_named_on_the_page() -> None:
    named = {file for row in rows() for _, file in row.decisions}
    leaving = {
        path.name
        for path in DECISIONS.glob("*.md")
        if re.search(r"\bthe seed\b", path.read_text(), re.IGNORECASE)
    }
    assert leaving
    assert leaving - named == set()
