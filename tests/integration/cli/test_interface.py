"""What scripts rely on: names, variables, JSON keys, exit codes, and a help that is quick."""

from __future__ import annotations

import resource
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest
from tests.integration.cli.terminal import command as command_line
from tests.integration.cli.terminal import finished

from runnerq.cli.main import COMMANDS, cli, program_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.integration.cli.terminal import Terminal

ACTIVITY_KEYS = [
    "id",
    "queue",
    "type",
    "status",
    "priority",
    "attempt",
    "max_attempts",
    "timeout_ms",
    "created_at",
    "ready_at",
    "claimed_at",
    "deadline",
    "finished_at",
    "worker_id",
    "idempotency_key",
    "error",
    "headers",
    "root_id",
    "parent_id",
    "payload",
    "payload_codec",
    "payload_encoding",
    "payload_bytes",
    "result",
    "result_codec",
    "result_encoding",
    "result_bytes",
]


def commands() -> Iterator[tuple[str, click.Command]]:
    for name, (target, _) in COMMANDS.items():
        module, _, attribute = target.partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        yield name, command
        if isinstance(command, click.Group):
            for below, inner in command.commands.items():
                yield f"{name} {below}", inner


def test_every_option_has_a_variable_of_the_environment() -> None:
    for name, command in commands():
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                variable = parameter.envvar
                assert isinstance(variable, str), (name, parameter.name)
                assert variable.startswith("RUNNERQ_"), (name, parameter.name)


def test_every_command_and_option_says_what_it_is_for() -> None:
    for name, command in commands():
        assert command.help, name
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                assert parameter.help, (name, parameter.name)


def test_the_help_lists_every_command_and_the_exit_codes(terminal: Terminal) -> None:
    said = terminal("--help")
    assert said.code == 0
    for name in [*COMMANDS, "dev", "operator"]:
        assert f"\n  {name} " in said.out
    for word in ("not found", "backend unreachable", "timed out"):
        assert word in " ".join(said.out.split())


def test_the_help_loads_no_command_and_no_backend() -> None:
    said = finished("--help", PYTHONPROFILEIMPORTTIME="1")
    loaded = {line.rsplit("|", 1)[-1].strip() for line in said.err.splitlines()}
    assert "runnerq.cli.main" in loaded
    heavy = {"asyncpg", "aiohttp", "rich", "kopf", "prometheus_client", "runnerq.engine", "yaml"}
    assert not heavy & loaded
    assert not {name for name in loaded if name.startswith("runnerq.cli.ls")}


def test_the_help_costs_little_more_than_the_libraries_it_is_made_with() -> None:
    # Processor time, and the best of several: what others do on this machine is not measured.
    bare = [sys.executable, "-c", "import click, msgspec"]
    help_seconds = min(_processor_seconds(command_line("--help")) for _ in range(5))
    bare_seconds = min(_processor_seconds(bare) for _ in range(5))
    assert help_seconds < 4 * bare_seconds


def _processor_seconds(arguments: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(arguments, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_the_json_of_an_activity_has_these_keys(terminal: Terminal) -> None:
    activity_id = terminal("enqueue", "send").out.strip()
    listed = terminal("ls", "pending", "-o", "json").json
    assert list(listed) == ["queue", "status", "items", "next_cursor"]
    assert list(listed["items"][0]) == ACTIVITY_KEYS
    shown = terminal("show", activity_id, "-o", "json").json
    assert list(shown) == ["activity", "events"]
    assert list(shown["activity"]) == ACTIVITY_KEYS
    assert list(shown["events"][0]) == [
        "activity_id",
        "kind",
        "at",
        "type",
        "status",
        "attempt",
        "worker_id",
        "error",
        "detail",
    ]
    [queue] = terminal("queues", "-o", "json").json["queues"]
    assert list(queue) == [
        "queue",
        "as_of",
        "counts",
        "capped",
        "cap",
        "by_type",
        "oldest_claimable_age_ms",
        "demand",
        "workers",
    ]
    assert list(terminal("enqueue", "send", "-o", "json").json) == [
        "id",
        "queue",
        "type",
        "enqueue",
    ]


def test_variables_set_what_options_set(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNNERQ_QUEUE", "from-the-environment")
    monkeypatch.setenv("RUNNERQ_OUTPUT", "json")
    assert terminal("enqueue", "send").json["queue"] == "from-the-environment"
    assert terminal("enqueue", "send", "--queue", "said").json["queue"] == "said"


def test_an_unknown_command_is_a_usage_error_of_one_line(terminal: Terminal) -> None:
    said = terminal("nope")
    assert (said.code, said.out) == (2, "")
    assert said.err.splitlines() == ["error: No such command 'nope'; see `runnerq --help`"]


def test_no_arguments_print_the_help_as_a_usage_error(terminal: Terminal) -> None:
    said = terminal()
    assert said.code == 2
    assert "Commands:" in said.err


def test_a_command_whose_package_is_missing_says_what_to_install(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(COMMANDS, "console", ("a_package_that_is_missing.cli:console", ""))
    said = terminal("console")
    assert said.code == 2
    assert 'pip install "runnerq[console]"' in said.err


def test_kubectl_finds_it_under_its_own_name() -> None:
    assert program_name(["/usr/local/bin/kubectl-runnerq"]) == "kubectl runnerq"
    assert program_name([]) == "runnerq"


@pytest.mark.parametrize(
    ("script", "usage"), [("runnerq", "runnerq"), ("kubectl-runnerq", "kubectl runnerq")]
)
def test_both_installed_commands_are_the_same_one(script: str, usage: str) -> None:
    path = Path(sys.executable).parent / script
    done = subprocess.run([path, "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stdout.startswith(f"Usage: {usage} ")


def test_completion_offers_commands_without_loading_them() -> None:
    context = click.Context(cli, info_name="runnerq")
    offered = [item.value for item in cli.shell_complete(context, "c")]
    assert offered == ["console", "completion"]


def test_colour_is_for_terminals_only(terminal: Terminal) -> None:
    terminal("enqueue", "send")
    assert "\x1b" not in terminal("ls", "pending").out


def test_data_that_is_piped_is_neither_cut_nor_padded(terminal: Terminal) -> None:
    name = "a" * 190
    terminal("enqueue", name)
    lines = terminal("ls", "pending").lines
    assert name in lines[1]
    assert all(line == line.rstrip() for line in lines)
