"""Commands that run on: how they start, what they do, and how a signal ends them."""

from __future__ import annotations

import re
import signal
import subprocess
import urllib.request
from typing import TYPE_CHECKING

import pytest
from tests.integration.cli.terminal import Process, command, environment, finished, on_a_terminal

if TYPE_CHECKING:
    from pathlib import Path

APP = """
import asyncio
from runnerq import activity, NonRetryable

@activity("send", timeout=30)
async def send(payload: dict) -> dict:
    return {"sent": payload}

@activity("refuse")
async def refuse(payload: dict) -> None:
    raise NonRetryable("no such mailbox")

@activity("slow", timeout=60)
async def slow(payload: dict) -> None:
    await asyncio.sleep(600)
"""


@pytest.fixture
def app(tmp_path: Path) -> Path:
    (tmp_path / "shop_app.py").write_text(APP)
    return tmp_path


def fetched(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as response:  # noqa: S310 - our own, on this machine
        return response.read().decode()


def port_of(line: str) -> int:
    found = re.search(r"(\d+)\s*$", line)
    assert found is not None
    return int(found[1])


def test_a_worker_runs_what_is_enqueued_and_ends_on_sigterm(url: str, app: Path) -> None:
    with Process(
        ["worker", "shop_app"],
        cwd=app,
        RUNNERQ_BACKEND_URL=url,
        RUNNERQ_METRICS_PORT="0",
        RUNNERQ_ACTIVITY_TYPES="send,ref*",
        RUNNERQ_POOL="bulk",
        RUNNERQ_POD_NAME="bulk-1",
        RUNNERQ_CONCURRENCY="3",
        RUNNERQ_BUILD_ID="b7",
        RUNNERQ_DRAIN_SECONDS="1",
    ) as worker:
        port = port_of(worker.says("health and metrics"))
        worker.says("runs refuse, send")
        sent = finished(
            "enqueue", "send", '{"n":9007199254740993}', "--wait", "--wait-timeout", "30",
            RUNNERQ_BACKEND_URL=url,
        )  # fmt: skip
        assert (sent.code, sent.out) == (0, '{"sent":{"n":9007199254740993}}\n')
        refused = finished(
            "enqueue", "refuse", "{}", "--wait", "--wait-timeout", "30", RUNNERQ_BACKEND_URL=url
        )
        assert refused.code == 1
        assert "no such mailbox" in refused.err
        assert fetched(f"http://127.0.0.1:{port}/readyz")
        assert "runnerq_worker_slots" in fetched(f"http://127.0.0.1:{port}/metrics")
        queues = finished("queues", "-o", "json", RUNNERQ_BACKEND_URL=url).json["queues"]
        assert queues[0]["workers"] == 1
        assert worker.end(signal.SIGTERM).code == 0


def test_a_worker_hands_back_what_it_could_not_finish(url: str, app: Path) -> None:
    finished("enqueue", "slow", "{}", RUNNERQ_BACKEND_URL=url)
    with (
        Process(["tail", "--kind", "claimed", "--count", "1"], RUNNERQ_BACKEND_URL=url) as tail,
        Process(
            ["worker", "shop_app", "--metrics-port", "0", "--drain-seconds", "0"],
            cwd=app,
            RUNNERQ_BACKEND_URL=url,
        ) as worker,
    ):
        tail.says("following")
        worker.says("runs")
        assert "claimed" in tail.prints() or _running(url)
        assert worker.end(signal.SIGTERM).code == 0
    [item] = finished("ls", "pending", "-o", "json", RUNNERQ_BACKEND_URL=url).json["items"]
    assert item["attempt"] == 0


def _running(url: str) -> bool:
    return bool(finished("ls", "processing", "-o", "name", RUNNERQ_BACKEND_URL=url).out)


@pytest.mark.parametrize(
    ("arguments", "variables", "code", "named"),
    [
        (["worker", "no_such_module"], {}, 2, "app: "),
        (["worker", "shop_app:nothing"], {}, 2, "app: "),
        (["worker", "json"], {}, 2, "app: "),
        (["worker", "shop_app", "--types", "other"], {}, 2, "activity_types"),
        (["worker", "shop_app"], {"RUNNERQ_CONCURRENCY": "0"}, 2, "RUNNERQ_CONCURRENCY"),
        (["worker", "shop_app"], {"RUNNERQ_BACKEND_URL": "ftp://x"}, 2, "backend_url"),
        (["worker"], {}, 2, "APP"),
        (
            ["worker", "shop_app"],
            {"RUNNERQ_BACKEND_URL": "postgres://u@127.0.0.1:1/x"},
            5,
            "connect",
        ),
    ],
)
def test_a_worker_that_cannot_work_says_why_in_one_line(
    *, url: str, app: Path, arguments: list[str], variables: dict[str, str], code: int, named: str
) -> None:
    settings = {"RUNNERQ_BACKEND_URL": url, "RUNNERQ_METRICS_PORT": "0", **variables}
    said = finished(*arguments, cwd=app, **settings)
    assert said.code == code
    errors = [line for line in said.err.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert named in errors[0]
    assert "Traceback" not in said.err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_console_serves_until_a_signal_and_ends_well(url: str, number: signal.Signals) -> None:
    with Process(
        ["console", "--port", "0", "--metrics-port", "0"], RUNNERQ_BACKEND_URL=url
    ) as console:
        address = console.says("console at ").split()[-1]
        metrics = console.says("metrics at ").split()[-1]
        assert "<title>runnerq</title>" in fetched(address)
        assert "runnerq_console_sse_clients" in fetched(metrics)
        assert console.end(number).code == 0


@pytest.mark.parametrize(
    ("arguments", "variables", "named"),
    [
        (["--host", "0.0.0.0"], {}, "host: "),  # noqa: S104 - refused
        (["--host", "::"], {}, "host: "),
        (["--auth", "token"], {}, "token: "),
        (["--auth", "none"], {"RUNNERQ_CONSOLE_TOKEN": "long-enough"}, "auth: "),
        ([], {"RUNNERQ_CONSOLE_TOKEN": "short"}, "token: "),
        ([], {"RUNNERQ_CONSOLE_AUTH": "basic"}, "--auth"),
        (["--base-path", "ops"], {}, "base_path: "),
        (["--token-file", "/does/not/exist"], {}, "--token-file"),
    ],
)
def test_a_console_that_would_not_be_safe_does_not_start(
    url: str, arguments: list[str], variables: dict[str, str], named: str
) -> None:
    settings = {"RUNNERQ_BACKEND_URL": url, **variables}
    said = finished("console", "--port", "0", *arguments, cwd=None, **settings)
    assert said.code == 2
    assert named in said.err
    assert len([line for line in said.err.splitlines() if line.startswith("error: ")]) == 1


def test_a_taken_port_is_said_in_one_line(url: str) -> None:
    with Process(["console", "--port", "0"], RUNNERQ_BACKEND_URL=url) as console:
        port = console.says("console at ").rsplit(":", 1)[1].strip().rstrip("/")
        said = finished("console", "--port", port, RUNNERQ_BACKEND_URL=url)
        assert said.code == 2
        assert "port: cannot listen" in said.err


def test_a_token_is_read_from_a_file(url: str, tmp_path: Path) -> None:
    secret = tmp_path / "token"
    secret.write_text("from-a-file\n")
    with Process(
        ["console", "--port", "0", "--token-file", str(secret)], RUNNERQ_BACKEND_URL=url
    ) as console:
        address = console.says("console at ").split()[-1]
        request = urllib.request.Request(  # noqa: S310 - our own, on this machine
            f"{address}api/observability/session",
            headers={"Authorization": "Bearer from-a-file"},
        )
        with urllib.request.urlopen(request, timeout=10) as response:  # noqa: S310
            assert b'"operator"' in response.read()


def test_tail_follows_and_ends_after_a_count(url: str) -> None:
    with Process(["tail", "-o", "jsonl", "--count", "2"], RUNNERQ_BACKEND_URL=url) as tail:
        tail.says("following")
        first = finished("enqueue", "send", RUNNERQ_BACKEND_URL=url).out.strip()
        assert first in tail.prints()
        second = finished("enqueue", "send", RUNNERQ_BACKEND_URL=url).out.strip()
        assert second in tail.prints()
        assert tail.prints() == ""


def test_a_terminal_gets_colour_unless_no_color_is_set(url: str) -> None:
    finished("enqueue", "send", RUNNERQ_BACKEND_URL=url)
    assert "\x1b[" in on_a_terminal("ls", "pending", RUNNERQ_BACKEND_URL=url)
    assert "\x1b[3" not in on_a_terminal("ls", "pending", RUNNERQ_BACKEND_URL=url, NO_COLOR="1")


def test_interrupting_tail_has_its_own_code(url: str) -> None:
    with Process(["tail"], RUNNERQ_BACKEND_URL=url) as tail:
        tail.says("following")
        said = tail.end(signal.SIGINT)
    assert said.code == 130
    assert "Traceback" not in said.err


def test_a_reader_that_has_seen_enough_ends_it_without_a_word(url: str) -> None:
    for _ in range(3):
        finished("enqueue", "send", RUNNERQ_BACKEND_URL=url)
    with subprocess.Popen(
        command("ls", "pending", "-o", "jsonl"),
        env=environment(RUNNERQ_BACKEND_URL=url),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as listing:
        assert listing.stdout is not None
        assert listing.stderr is not None
        listing.stdout.close()
        err = listing.stderr.read()
    assert err == b""
