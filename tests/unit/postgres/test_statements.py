"""The .sql files: each explains itself, each is used, and only the schema's name is put into them."""

from __future__ import annotations

import re
from pathlib import Path
from uuid import UUID

import pytest

import runnerq.storage.postgres as package
from runnerq.ids import IdSource
from runnerq.storage.postgres.codes import EVENT_CODE, OUTCOME_CODE, STATE_CODE
from runnerq.storage.postgres.sql import Statements, days_of
from runnerq.storage.records import ActivityState, EventKind, OutcomeKind

FOLDER = Path(package.__path__[0])
FILES = sorted(FOLDER.glob("**/*.sql"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_statement_opens_with_its_reason(file: Path) -> None:
    first = file.read_text().splitlines()[0]
    assert first.startswith("-- ")
    assert len(first) > 20


def test_every_statement_is_used_and_every_used_one_exists() -> None:
    code = "\n".join(file.read_text() for file in FOLDER.glob("*.py"))
    named = {name for name in Statements("x").names() if f'"{name}"' in code}
    assert named == set(Statements("x").names())


def test_the_schema_is_quoted_wherever_it_stands() -> None:
    statements = Statements("o\"dd 'one")
    for name in statements.names():
        assert not re.search(r"\{[a-z]", statements[statements.within(name, 1, 2)])
    assert '"o""dd \'one".runnerq_activities' in statements["claim"]
    assert "'\"o\"\"dd ''one\".runnerq_history'::regclass" in statements["read_clock"]


def test_comments_do_not_travel_to_the_server() -> None:
    statements = Statements("x")
    assert not any("--" in statements[statements.within(name, 1, 1)] for name in statements.names())


def test_an_unknown_word_in_a_statement_is_a_mistake() -> None:
    with pytest.raises(KeyError, match="nothing"):
        Statements("x").fill("SELECT {nothing}")


def test_migrations_are_numbered_without_gaps() -> None:
    steps = Statements("x").migrations
    assert [step.version for step in steps] == list(range(1, len(steps) + 1))
    assert len({step.name for step in steps}) == len(steps)


def test_every_state_outcome_and_event_has_a_number_of_its_own() -> None:
    for code, members in (
        (STATE_CODE, ActivityState),
        (OUTCOME_CODE, OutcomeKind),
        (EVENT_CODE, EventKind),
    ):
        assert set(code) == set(members)
        assert len(set(code.values())) == len(code)


def test_live_states_stay_below_terminal_ones() -> None:
    terminal = {code for state, code in STATE_CODE.items() if state.terminal}
    assert max(set(STATE_CODE.values()) - terminal) < min(terminal)


def test_a_statement_for_some_days_names_their_first_and_last_id() -> None:
    statements = Statements("x")
    ids = IdSource()
    first, last = days_of([ids.next()])
    text = statements[statements.within("get_result", first, last)]
    low, high = (UUID(found) for found in re.findall(r"'([0-9a-f-]{36})'", text))
    assert low < ids.next() < high
    assert days_of([low]) == days_of([high]) == (first, first)
    assert days_of([UUID(int=high.int + 1)]) == (first + 1, first + 1)
