"""Foreign errors become ours at one place, by what the caller can do about them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import asyncpg
import pytest

from runnerq.errors import (
    BackendUnavailable,
    ConfigurationError,
    InvalidActivity,
    RunnerQError,
    SchemaMismatch,
    StorageError,
)
from runnerq.storage.postgres import PostgresBackend
from runnerq.storage.postgres.errors import boundary

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize(
    ("error", "ours"),
    [
        (ConnectionRefusedError("no"), BackendUnavailable),
        (TimeoutError(), BackendUnavailable),
        (asyncpg.InterfaceError("connection is closed"), BackendUnavailable),
        (asyncpg.InternalClientError("cannot switch to state"), BackendUnavailable),
        (asyncpg.AdminShutdownError("terminated"), BackendUnavailable),
        (asyncpg.TooManyConnectionsError("full"), BackendUnavailable),
        (asyncpg.QueryCanceledError("statement timeout"), BackendUnavailable),
        (asyncpg.DeadlockDetectedError("deadlock"), BackendUnavailable),
        (asyncpg.ReadOnlySQLTransactionError("a replica now"), BackendUnavailable),
        (asyncpg.UndefinedTableError("no table"), SchemaMismatch),
        (asyncpg.UndefinedColumnError("no column"), SchemaMismatch),
        (asyncpg.InvalidPasswordError("wrong"), StorageError),
        (asyncpg.InsufficientPrivilegeError("denied"), StorageError),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else type(value).__name__,
)
def test_each_foreign_error_has_its_kind(error: Exception, ours: type[StorageError]) -> None:
    with pytest.raises(ours) as caught, boundary("claim"):
        raise error
    assert type(caught.value) is ours
    assert caught.value.__cause__ is error
    assert "claim" in str(caught.value)


@pytest.mark.parametrize("error", [asyncio.CancelledError(), InvalidActivity("id", "bad")])
def test_cancellation_and_our_own_errors_pass(error: BaseException) -> None:
    with pytest.raises(type(error)) as caught, boundary("claim"):
        raise error
    assert caught.value is error


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: PostgresBackend("postgresql://h/d", max_connections=0), "max_connections"),
        (lambda: PostgresBackend("postgresql://h/d", schema=""), "schema"),
    ],
)
def test_bad_settings_are_refused_at_once(make: Callable[[], PostgresBackend], field: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        make()
    assert caught.value.field == field


async def test_an_address_that_cannot_be_read_is_a_configuration_error() -> None:
    with pytest.raises(ConfigurationError, match="url"):
        await PostgresBackend("postgresql://h/d?sslmode=perhaps").open()


async def test_calls_before_open_say_so() -> None:
    backend = PostgresBackend("postgresql://127.0.0.1:1/d")
    with pytest.raises(RunnerQError, match="open"):
        await backend.stats("q")
    await backend.close()
