"""The command line on Postgres: its schema, and how a refused login ends."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import asyncpg
import pytest
from tests.integration.cli.terminal import finished
from tests.servers.postgres import schema_of_its_own

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
async def settings(postgres_url: str) -> AsyncGenerator[dict[str, str]]:
    """The environment of a command on an empty schema of its own."""
    async with schema_of_its_own(postgres_url) as schema:
        yield {"RUNNERQ_BACKEND_URL": postgres_url, "RUNNERQ_SCHEMA": schema}


def test_the_schema_is_brought_up_looked_at_and_used(settings: dict[str, str]) -> None:
    before = finished("ls", "pending", cwd=None, **settings)
    assert before.code == 1
    assert "runnerq migrate up" in before.err
    assert finished("migrate", "status", cwd=None, **settings).code == 1
    assert finished("migrate", "validate", cwd=None, **settings).code == 1
    up = finished("migrate", "up", "-o", "json", cwd=None, **settings)
    assert up.code == 0
    assert up.json["applied"]
    assert finished("migrate", "up", "-o", "json", cwd=None, **settings).json == {"applied": []}
    status = finished("migrate", "status", "-o", "json", cwd=None, **settings).json["migrations"]
    assert [entry["name"] for entry in status] == [entry["name"] for entry in up.json["applied"]]
    assert finished("migrate", "validate", cwd=None, **settings).code == 0
    activity_id = finished("enqueue", "send", '{"n":1.50}', cwd=None, **settings).out.strip()
    shown = finished("show", activity_id, "-o", "jsonl", cwd=None, **settings)
    assert '"payload":{"n":1.50}' in shown.out
    assert finished("queues", "-o", "name", cwd=None, **settings).lines == ["default"]


async def test_the_printed_script_makes_the_schema(
    settings: dict[str, str], postgres_url: str
) -> None:
    script = finished("migrate", "sql", cwd=None, **settings).out
    connection = await asyncpg.connect(postgres_url)
    try:
        await connection.execute(script)
    finally:
        await connection.close()
    assert finished("migrate", "validate", cwd=None, **settings).code == 0


def test_a_refused_login_is_denied_and_keeps_the_password(settings: dict[str, str]) -> None:
    parts = urlsplit(settings["RUNNERQ_BACKEND_URL"])
    host = parts.netloc.rpartition("@")[2]
    wrong = parts._replace(netloc=f"nobody_of_that_name:s3cret@{host}").geturl()
    said = finished("queues", cwd=None, RUNNERQ_BACKEND_URL=wrong)
    assert said.code == 6
    assert "s3cret" not in said.err
    assert len(said.err.splitlines()) == 1
