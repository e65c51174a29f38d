"""Each kind of error has its exit code; scripts branch on them."""

from __future__ import annotations

from uuid import UUID

import asyncpg
import pytest

from runnerq.cli.exits import CommandFailed, ExitCode, exit_code_of
from runnerq.cli.output import safe
from runnerq.errors import (
    ActivityFailed,
    ActivityNotFound,
    BackendUnavailable,
    CapabilityMissing,
    ConfigurationError,
    DuplicateActivity,
    InvalidActivity,
    SchemaMismatch,
    StorageError,
)

ID = UUID(int=1)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (StorageError("refused"), 1),
        (SchemaMismatch("old"), 1),
        (CapabilityMissing("memory", "x", "y"), 1),
        (ActivityFailed(ID, "no"), 1),
        (ConfigurationError("bad", field="url"), 2),
        (InvalidActivity("payload", "bad"), 2),
        (ActivityNotFound("q", ID), 3),
        (DuplicateActivity("t", "k", ID), 4),
        (BackendUnavailable("away"), 5),
        (TimeoutError("late"), 7),
        (CommandFailed("said", ExitCode.NOT_FOUND), 3),
    ],
)
def test_an_error_has_its_code(error: Exception, code: int) -> None:
    assert exit_code_of(error) == code


@pytest.mark.parametrize(
    "cause", [asyncpg.InvalidPasswordError("no"), asyncpg.InsufficientPrivilegeError("no")]
)
def test_a_refused_login_or_right_is_denied(cause: Exception) -> None:
    error = StorageError("could not connect")
    error.__cause__ = cause
    assert exit_code_of(error) == ExitCode.DENIED


@pytest.mark.parametrize(
    "text",
    ["\x1b[31m", "\x07", "\x9b2J", "a\rb", "\x00", "\u202egnp.exe", "\x7f", "\x1b]0;title\x07"],
)
def test_text_of_activities_cannot_command_the_terminal(text: str) -> None:
    assert not set(safe(text)) & set("\x1b\x07\x9b\r\x00\u202e\x7f")


def test_ordinary_text_is_shown_as_it_is() -> None:
    assert safe("Zürich → 東京\n\ttab") == "Zürich → 東京\n\ttab"
