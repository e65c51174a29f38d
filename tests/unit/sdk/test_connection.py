"""From an address to a backend; an address is never repeated in a message."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.unit.sdk.odd import odd

from runnerq import BackendUnavailable, ConfigurationError, connect, open_backend
from runnerq.storage.memory import MemoryBackend

if TYPE_CHECKING:
    from collections.abc import Iterator

SECRET = "hunter2"


@pytest.fixture(autouse=True)
def nothing_logs_the_secret(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    caplog.set_level(logging.DEBUG)
    yield
    assert SECRET not in caplog.text


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("postgres://user:x@host/db", "postgres"),
        ("postgresql://host/db", "postgres"),
        ("POSTGRES://host/db", "postgres"),
        ("sqlite:///queue.db", "sqlite"),
        ("memory://", "memory"),
    ],
)
def test_the_scheme_of_an_address_chooses_the_backend(url: str, name: str) -> None:
    backend = open_backend(url, queue="orders")
    assert backend.capabilities.name == name
    assert backend.default_queue == "orders"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "nonsense",
        f"mysql://user:{SECRET}@host/db",
        f"postgres:user:{SECRET}@host/db",
        f"host=localhost password={SECRET}",
        f"user:{SECRET}@host/db",
        f"://user:{SECRET}@host",
        f"http://host/?password={SECRET}",
        f"redis://:{SECRET}@[::1",
        "sqlite::memory:",
        "sqlite://",
        "sqlite:///",
    ],
)
def test_an_address_of_no_backend_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        open_backend(url)
    assert caught.value.field == "backend_url"
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("queue", ["", "a\x01b", "two\nlines", "x" * 201])
def test_what_cannot_name_a_queue_is_refused(queue: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        open_backend("memory://", queue=queue)
    assert caught.value.field == "queue"


@pytest.mark.parametrize(
    "url",
    [
        f"postgres://user:{SECRET}@host:port/db",
        f"postgres://user:{SECRET}/more@host/db",
        f"postgres://user:{SECRET}@[::1/db",
    ],
)
async def test_an_address_that_postgres_cannot_read_is_refused_without_repeating_it(
    url: str,
) -> None:
    backend = open_backend(url)
    try:
        with pytest.raises(ConfigurationError) as caught:
            await backend.open()
    finally:
        await backend.close()
    assert caught.value.field == "backend_url"
    assert SECRET not in str(caught.value)


def test_only_postgres_has_schemas() -> None:
    with pytest.raises(ConfigurationError, match=r"^schema: only Postgres"):
        open_backend("memory://", schema="x")


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:///queue.db", "queue.db"),
        ("sqlite:////var/queue.db", "/var/queue.db"),
        ("SQLite:///a%20b.db", "a b.db"),
    ],
)
def test_an_sqlite_address_names_a_file(
    url: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Path] = []

    def open_file(path: str, queue: str) -> None:
        del queue
        opened.append(Path(path))

    monkeypatch.setattr("runnerq.storage.sqlite.SqliteBackend", open_file)
    open_backend(url)
    assert opened == [Path(path)]


async def test_connect_reads_what_it_is_not_given_from_the_environment() -> None:
    environment = {"RUNNERQ_BACKEND_URL": "memory://", "RUNNERQ_QUEUE": "orders"}
    async with await connect(environ=environment) as executor:
        assert executor.queue == "orders"
    async with await connect("memory://", queue="mine", environ=environment) as executor:
        assert executor.queue == "mine"


@pytest.mark.parametrize("environment", [{}, {"RUNNERQ_BACKEND_URL": ""}])
async def test_connect_without_an_address_names_the_variable(environment: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="RUNNERQ_BACKEND_URL"):
        await connect(environ=environment)


async def test_a_backend_that_cannot_be_opened_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[bool] = []

    class Unreachable(MemoryBackend):
        async def open(self) -> None:
            raise BackendUnavailable("nobody there")

        async def close(self) -> None:
            closed.append(True)

    monkeypatch.setattr("runnerq.storage.memory.MemoryBackend", odd(Unreachable))
    with pytest.raises(BackendUnavailable):
        await connect("memory://", environ={})
    assert closed == [True]


async def test_a_password_is_not_told_when_the_server_is_not_there() -> None:
    with pytest.raises(BackendUnavailable) as caught:
        await connect(f"postgres://user:{SECRET}@127.0.0.1:1/db", environ={})
    error: BaseException | None = caught.value
    while error is not None:
        assert SECRET not in f"{error!s}{error!r}"
        error = error.__cause__ or error.__context__
    backend = open_backend(f"postgres://user:{SECRET}@127.0.0.1:1/db")
    assert SECRET not in f"{backend!r}{backend}"
