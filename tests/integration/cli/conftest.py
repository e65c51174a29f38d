"""A migrated SQLite file, a terminal on it, and work in every state."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, TypeVar

import pytest
from tests.integration.cli.terminal import Terminal
from tests.integration.console.served import Shop

from runnerq.storage.sqlite import SqliteBackend

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

T = TypeVar("T")
QUEUE = "default"


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Of a migrated backend; the environment names it, and nothing else of RunnerQ's."""
    for name in [name for name in os.environ if name.startswith("RUNNERQ_")]:
        monkeypatch.delenv(name)
    path = tmp_path / "queue.db"
    asyncio.run(SqliteBackend(str(path)).migrate())
    monkeypatch.setenv("RUNNERQ_BACKEND_URL", f"sqlite:///{path}")
    return f"sqlite:///{path}"


@pytest.fixture
def terminal(url: str, capfd: pytest.CaptureFixture[str]) -> Terminal:
    return Terminal(capfd)


@pytest.fixture
def work(url: str) -> Callable[[Callable[[Shop], Awaitable[T]]], T]:
    """Do something at the backend: `work(lambda shop: shop.dead())`."""

    def at_the_backend(do: Callable[[Shop], Awaitable[T]]) -> T:
        async def opened() -> T:
            backend = SqliteBackend(url.removeprefix("sqlite:///"), QUEUE)
            await backend.open()
            try:
                shop = Shop(backend, QUEUE)
                await shop.open()
                return await do(shop)
            finally:
                await backend.close()

        return asyncio.run(opened())

    return at_the_backend
