"""docs/console.md and docs/cli.md name what there is, all of it and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

from runnerq.cli.exits import ExitCode
from runnerq.cli.main import COMMANDS, EXTERNAL_HELP
from runnerq.console import HostAuth, observability_api
from runnerq.console.ring import ResyncReason
from runnerq.inspector import QueueInspector
from runnerq.storage.memory import MemoryBackend

DOCS = Path(__file__).parents[2] / "docs"
CONSOLE = (DOCS / "console.md").read_text(encoding="utf-8")
CLI = (DOCS / "cli.md").read_text(encoding="utf-8")


async def test_the_table_of_routes_is_the_apps_routes() -> None:
    app = observability_api(QueueInspector(MemoryBackend()), auth=HostAuth())
    served = {
        f"{route.method} {route.resource.canonical}"
        for route in app.router.routes()
        if route.resource is not None and route.method != "HEAD"
    }
    assert set(re.findall(r"^\| `((?:GET|POST) /[^`]*)`", CONSOLE, re.MULTILINE)) == served


def test_the_table_of_commands_is_the_programs_commands() -> None:
    table = CLI.partition("| command |")[2].partition("\n\n")[0]
    told = {
        cell.split()[0] for row in table.splitlines() for cell in re.findall(r"^\| `([^`]+)`", row)
    }
    assert told == {*COMMANDS, *EXTERNAL_HELP}


def test_the_table_of_exit_codes_is_complete() -> None:
    table = CLI.partition("| exit code |")[2].partition("\n\n")[0]
    told = {
        int(code): meaning
        for code, meaning in re.findall(r"^\| (\d+) \| ([a-z ]+) \|", table, re.MULTILINE)
    }
    assert set(told) == {code.value for code in ExitCode}


def test_every_reason_for_reading_again_is_explained() -> None:
    for reason in ResyncReason:
        assert f"`{reason.value}`" in CONSOLE
