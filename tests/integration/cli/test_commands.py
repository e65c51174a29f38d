"""What each command prints, and with which code it ends."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import pytest
import yaml

from runnerq.storage.records import ActivityState, ErrorInfo, ErrorKind

if TYPE_CHECKING:
    from pathlib import Path

    from tests.integration.cli.terminal import Terminal

Work = Callable[[Callable[[Any], Any]], Any]


def test_enqueue_prints_the_id_and_nothing_else(terminal: Terminal) -> None:
    said = terminal("enqueue", "send", '{"to":"ada"}')
    assert (said.code, said.err) == (0, "")
    [line] = said.lines
    assert terminal("show", str(UUID(line)), "-o", "json").json["activity"]["type"] == "send"


def test_enqueue_keeps_every_digit_of_the_payload(terminal: Terminal) -> None:
    payload = '{"n": 9007199254740993, "huge": 123456789012345678901234567890, "price": 1.50}'
    activity_id = terminal("enqueue", "send", payload).out.strip()
    shown = terminal("show", activity_id, "-o", "jsonl").out
    assert payload in shown


def test_enqueue_takes_its_options(terminal: Terminal) -> None:
    options = ("--priority", "high", "--delay", "60", "--max-attempts", "7", "--timeout", "2.5")
    activity_id = terminal("enqueue", "send", *options, "--key", "k1").out.strip()
    activity = terminal("show", activity_id, "-o", "json").json["activity"]
    assert activity["priority"] == "high"
    assert activity["status"] == "scheduled"
    assert activity["max_attempts"] == 7
    assert activity["timeout_ms"] == 2_500
    assert activity["idempotency_key"] == "k1"
    assert activity["payload"] is None


def test_a_key_that_is_held_gives_the_holder_or_a_conflict(terminal: Terminal) -> None:
    first = terminal("enqueue", "send", "--key", "k", "-o", "json").json
    again = terminal("enqueue", "send", "--key", "k", "-o", "json").json
    assert (first["enqueue"], again["enqueue"]) == ("created", "existing")
    assert first["id"] == again["id"]
    refused = terminal("enqueue", "send", "--key", "k", "--behavior", "no_reuse")
    assert refused.code == 4
    assert first["id"] in refused.err


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("send", "{x"), "payload"),
        (("send", "NaN"), "payload"),
        (("bad type", "{}"), "type"),
        (("send", "--priority", "urgent"), "--priority"),
        (("send", "--max-attempts", "-1"), "--max-attempts"),
        (("send", "--timeout", "0"), "--timeout"),
        (("send", "--key", ""), "idempotency_key"),
        ((), "TYPE"),
    ],
)
def test_a_wrong_enqueue_is_a_usage_error_that_names_the_field(
    terminal: Terminal, arguments: tuple[str, ...], named: str
) -> None:
    said = terminal("enqueue", *arguments)
    assert (said.code, said.out) == (2, "")
    assert named in said.err
    assert len(said.err.splitlines()) == 1


def test_waiting_too_long_has_its_own_code(terminal: Terminal) -> None:
    said = terminal("enqueue", "send", "--wait", "--wait-timeout", "0.05")
    assert (said.code, said.out) == (7, "")


def test_ls_lists_newest_first_and_says_how_to_go_on(terminal: Terminal) -> None:
    ids = [terminal("enqueue", "send").out.strip() for _ in range(3)]
    page = terminal("ls", "pending", "--limit", "2")
    assert [line.split()[0] for line in page.lines] == ["ID", ids[2], ids[1]]
    cursor = page.err.split("--cursor ")[1].strip()
    rest = terminal("ls", "pending", "--limit", "2", "--cursor", cursor, "-o", "name")
    assert (rest.lines, rest.err) == ([ids[0]], "")


def test_ls_narrows_to_a_type(terminal: Terminal) -> None:
    terminal("enqueue", "send")
    other = terminal("enqueue", "report").out.strip()
    assert terminal("ls", "pending", "--type", "report", "-o", "name").lines == [other]


def test_an_empty_list_is_no_error(terminal: Terminal) -> None:
    said = terminal("ls", "pending")
    assert (said.code, said.out) == (0, "")
    assert "nothing is pending" in said.err


def test_an_unknown_state_is_refused_with_those_there_are(terminal: Terminal) -> None:
    said = terminal("ls", "running")
    assert said.code == 2
    for state in ActivityState:
        assert state.value in said.err


def test_a_cursor_that_is_not_ours_is_a_usage_error(terminal: Terminal) -> None:
    said = terminal("ls", "pending", "--cursor", "nonsense")
    assert said.code == 2
    assert "cursor" in said.err


@pytest.mark.parametrize("name", ["", "send_*", "a b"])
def test_ls_refuses_what_is_no_type(terminal: Terminal, name: str) -> None:
    said = terminal("ls", "pending", "--type", name)
    assert (said.code, said.out) == (2, "")
    assert "type:" in said.err


@pytest.mark.parametrize("name", ["", "a\x01b"])
def test_what_cannot_name_a_queue_is_a_usage_error(terminal: Terminal, name: str) -> None:
    said = terminal("ls", "pending", "--queue", name)
    assert (said.code, said.out) == (2, "")
    assert "queue:" in said.err


def test_show_tells_the_timeline_and_the_error(terminal: Terminal, work: Work) -> None:
    activity_id = str(work(lambda shop: shop.dead()))
    said = terminal("show", activity_id)
    assert said.code == 0
    for part in ("send", "dead_letter", "enqueued", "claimed", "dead_lettered", "Boom: it broke"):
        assert part in said.out


def test_show_of_an_unknown_id_is_not_found(terminal: Terminal) -> None:
    said = terminal("show", str(uuid4()))
    assert (said.code, said.out) == (3, "")
    assert len(said.err.splitlines()) == 1


def test_what_an_activity_says_cannot_command_the_terminal(terminal: Terminal, work: Work) -> None:
    error = ErrorInfo(
        kind=ErrorKind.HANDLER,
        type="E\x1b[2J",
        message="\x1b]0;owned\x07 \x9b31m",
        traceback="\x1b[31mred\r",
    )
    activity_id = str(work(lambda shop: shop.dead(error)))
    for arguments in (("show", activity_id), ("ls", "dead_letter"), ("dlq", "ls")):
        shown = terminal(*arguments).out
        assert not set(shown) & set("\x1b\x07\x9b\r"), arguments
        assert "\\x1b" in shown


def test_queues_shows_every_queue(terminal: Terminal, work: Work) -> None:
    work(lambda shop: shop.dead())
    terminal("enqueue", "send", "--queue", "other")
    said = terminal("queues")
    assert [line.split()[0] for line in said.lines] == ["QUEUE", "default", "other"]
    documents = {entry["queue"]: entry for entry in terminal("queues", "-o", "json").json["queues"]}
    assert documents["default"]["counts"]["dead_letter"] == 1
    assert documents["default"]["workers"] == 1
    assert documents["other"]["demand"]["claimable"] == 1


def test_requeue_moves_what_is_named(terminal: Terminal, work: Work) -> None:
    activity_id = str(work(lambda shop: shop.dead()))
    said = terminal("dlq", "requeue", activity_id, "-o", "json")
    assert (said.code, said.json["requeued"]) == (0, 1)
    assert terminal("ls", "pending", "-o", "name").lines == [activity_id]


def test_requeue_of_what_is_not_there_moves_the_rest_and_says_so(
    terminal: Terminal, work: Work
) -> None:
    dead, alive = str(work(lambda shop: shop.dead())), str(work(lambda shop: shop.enqueue()))
    said = terminal("dlq", "requeue", dead, alive)
    assert said.code == 3
    assert alive in said.err
    assert dead in terminal("ls", "pending", "-o", "name").lines


def test_requeue_of_all_asks_first(
    terminal: Terminal, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    work(lambda shop: shop.dead())

    def no(prompt: str) -> str:
        return "n"

    monkeypatch.setattr("click.termui.visible_prompt_func", no)
    assert terminal("dlq", "requeue", "--all").code == 130
    assert len(terminal("dlq", "ls", "-o", "name").lines) == 1


def test_requeue_of_all_means_the_filter(terminal: Terminal, work: Work) -> None:
    async def two_types(shop: Any) -> None:
        await shop.open(types=("send", "report"))
        await shop.dead()
        await shop.dead(activity_type="report")

    work(two_types)
    said = terminal("dlq", "requeue", "--all", "--type", "report", "--yes", "-o", "json")
    assert said.json["requeued"] == 1
    [left] = terminal("dlq", "ls", "-o", "json").json["items"]
    assert left["type"] == "send"


@pytest.mark.parametrize(
    "arguments", [(), (str(uuid4()), "--all"), (str(uuid4()), "--type", "x"), ("no-uuid",)]
)
def test_an_unclear_requeue_is_refused(terminal: Terminal, arguments: tuple[str, ...]) -> None:
    assert terminal("dlq", "requeue", *arguments).code == 2


def test_migrate_up_says_what_it_did_and_then_that_nothing_is_left(
    terminal: Terminal, tmp_path: Path
) -> None:
    target = ("--backend-url", f"sqlite:///{tmp_path / 'new.db'}")
    assert terminal("migrate", "status", *target).code == 1
    assert terminal("migrate", "validate", *target).code == 1
    first = terminal("migrate", "up", *target)
    assert first.code == 0
    assert "0001_initial" in first.out
    again = terminal("migrate", "up", *target, "-o", "json")
    assert again.json == {"applied": []}
    assert "up to date" in again.err
    status = terminal("migrate", "status", *target, "-o", "json")
    assert status.code == 0
    assert all(entry["applied_at"] for entry in status.json["migrations"])
    assert terminal("migrate", "validate", *target).code == 0


def test_the_printed_script_makes_the_schema(terminal: Terminal, tmp_path: Path) -> None:
    path = tmp_path / "by-hand.db"
    script = terminal("migrate", "sql").out
    with sqlite3.connect(path) as connection:
        connection.executescript(script)
    connection.close()
    assert terminal("migrate", "validate", "--backend-url", f"sqlite:///{path}").code == 0
    assert terminal("enqueue", "send", "--backend-url", f"sqlite:///{path}").code == 0


def test_a_missing_schema_says_what_to_run(terminal: Terminal, tmp_path: Path) -> None:
    said = terminal("ls", "pending", "--backend-url", f"sqlite:///{tmp_path / 'none.db'}")
    assert said.code == 1
    assert "runnerq migrate up" in said.err


def test_a_backend_that_cannot_be_reached_has_its_own_code(terminal: Terminal) -> None:
    said = terminal("queues", "--backend-url", "postgres://app:s3cret@127.0.0.1:1/shop")
    assert (said.code, said.out) == (5, "")
    assert "s3cret" not in said.err
    assert len(said.err.splitlines()) == 1


def test_a_backend_of_one_process_is_refused(terminal: Terminal) -> None:
    said = terminal("queues", "--backend-url", "memory://")
    assert said.code == 2
    assert "backend_url" in said.err


def test_without_a_backend_the_variable_is_named(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RUNNERQ_BACKEND_URL")
    said = terminal("queues")
    assert said.code == 2
    assert "RUNNERQ_BACKEND_URL" in said.err


def test_every_format_tells_the_same(terminal: Terminal) -> None:
    activity_id = terminal("enqueue", "send", '{"n": [1, 2.50, {"deep": null}]}').out.strip()
    as_json = terminal("ls", "pending", "-o", "json").json
    assert yaml.safe_load(terminal("ls", "pending", "-o", "yaml").out) == as_json
    [line] = terminal("ls", "pending", "-o", "jsonl").lines
    assert yaml.safe_load(line) == as_json["items"][0]
    assert terminal("ls", "pending", "-o", "name").lines == [activity_id]
    assert activity_id in terminal("ls", "pending", "-o", "table").out


def test_version_is_json_too(terminal: Terminal) -> None:
    document = terminal("version", "-o", "json").json
    assert set(document) == {"runnerq", "python", "extras"}
    assert set(document["extras"]) == {"postgres", "console", "metrics", "operator"}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script_of_each_shell(terminal: Terminal, shell: str) -> None:
    said = terminal("completion", shell)
    assert said.code == 0
    assert "_RUNNERQ_COMPLETE" in said.out


def test_completion_of_another_shell_is_refused(terminal: Terminal) -> None:
    assert terminal("completion", "tcsh").code == 2
