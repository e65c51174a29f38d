"""The parts of `runnerq dev` that need no process of it: notes, folder, binaries, code, terminal."""

from __future__ import annotations

import asyncio
import io
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from rich.console import Console
from tests.conformance.eventually import eventually
from tests.unit.control_views import desired_queue

from runnerq.errors import ConfigurationError
from runnerq_operator.control.report import EventType, QueueEvent, QueueReport
from runnerq_operator.fleet.output import output_pipe
from runnerq_operator.fleet.port import PoolKey, QueueKey
from runnerq_operator.local import binaries
from runnerq_operator.local.backend import BackendChoice, choose_backend
from runnerq_operator.local.binaries import Binaries, PostgresMissing, find_postgres
from runnerq_operator.local.folder import StateFolder
from runnerq_operator.local.processes import Kind, ProcessNotes, start_time
from runnerq_operator.local.program import run_program
from runnerq_operator.local.reload import code_of, version_of, watch_file
from runnerq_operator.local.terminal import Terminal
from runnerq_operator.model.pool import PoolEntry
from runnerq_operator.model.status import (
    Condition,
    ConditionStatus,
    RunnerQueueStatus,
    RunnerWorkerPoolStatus,
)


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "60"], start_new_session=True)
    yield process
    process.kill()
    process.wait()


class TestProcessNotes:
    def test_a_noted_process_that_still_runs_is_ended(
        self, tmp_path: Path, sleeper: subprocess.Popen[bytes]
    ):
        notes = ProcessNotes(tmp_path / "processes")
        notes.note(Kind.WORKER, sleeper.pid)
        assert [one.pid for one in notes.end_leftovers()] == [sleeper.pid]
        assert sleeper.wait(5) < 0
        assert notes.end_leftovers() == []

    def test_one_that_has_ended_is_not_looked_for(self, tmp_path: Path):
        process = subprocess.Popen(["true"])
        notes = ProcessNotes(tmp_path / "processes")
        notes.note(Kind.WORKER, process.pid)
        process.wait()
        assert notes.end_leftovers() == []

    def test_a_process_that_ignores_the_request_is_killed(self, tmp_path: Path):
        stubborn = subprocess.Popen(
            [
                sys.executable,
                "-c",
                "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
                "print('ready', flush=True); time.sleep(60)",
            ],
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert stubborn.stdout is not None
        stubborn.stdout.readline()
        notes = ProcessNotes(tmp_path / "processes")
        notes.note(Kind.PROGRAM, stubborn.pid)
        notes.end_leftovers()
        assert stubborn.wait(5) == -9
        stubborn.stdout.close()

    def test_start_times_differ_between_processes_and_stay_for_one(
        self, sleeper: subprocess.Popen[bytes]
    ):
        assert start_time(sleeper.pid) == start_time(sleeper.pid)
        assert start_time(sleeper.pid) != start_time(os.getpid())

    def test_there_is_no_start_time_without_a_process(self):
        process = subprocess.Popen(["true"])
        process.wait()
        assert start_time(process.pid) is None


class TestStateFolder:
    def test_what_is_secret_is_only_ours_to_read(self, tmp_path: Path):
        with StateFolder(tmp_path / ".runnerq") as folder:
            first = folder.secret("password")
            assert len(first) >= 24
            assert folder.secret("password") == first
            assert (folder.path / "password").stat().st_mode & 0o777 == 0o600

    def test_the_environment_can_be_sourced_whatever_is_in_it(self, tmp_path: Path):
        value = 'it\'s "$HOME" `x`'
        with StateFolder(tmp_path / ".runnerq") as folder:
            path = folder.write_environment({"RUNNERQ_QUEUE": value})
        shell = subprocess.run(
            ["sh", "-c", f'. "{path}"; printf %s "$RUNNERQ_QUEUE"'],
            capture_output=True,
            text=True,
            check=True,
        )
        assert shell.stdout == value

    def test_git_does_not_see_it(self, tmp_path: Path):
        with StateFolder(tmp_path / ".runnerq") as folder:
            assert (folder.path / ".gitignore").read_text().endswith("*\n")

    def test_it_can_be_used_again_after_it_was_left(self, tmp_path: Path):
        for _ in range(2):
            holder = StateFolder(tmp_path / ".runnerq")
            second = pytest.raises(ConfigurationError, match=str(os.getpid()))
            with holder, second:
                StateFolder(tmp_path / ".runnerq").__enter__()


class TestFindingPostgres:
    @pytest.fixture
    def places(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Path, str]]:
        """Where the search looks, instead of this machine; as a user who is not root."""
        found: list[tuple[Path, str]] = []
        monkeypatch.setattr(binaries, "_candidates", lambda: iter(found))
        monkeypatch.setattr(os, "geteuid", lambda: 1000)
        return found

    def installed(self, folder: Path, version: str) -> Path:
        folder.mkdir(parents=True)
        for name in ("postgres", "initdb"):
            (folder / name).write_text(f"#!/bin/sh\necho 'postgres (PostgreSQL) {version}'\n")
            (folder / name).chmod(0o755)
        return folder

    def test_the_first_that_runs_is_taken(self, tmp_path: Path, places: list[tuple[Path, str]]):
        places += [
            (tmp_path / "nothing", "gone"),
            (self.installed(tmp_path / "a", "18.6"), "first"),
            (self.installed(tmp_path / "b", "15.4"), "second"),
        ]
        found = find_postgres(tmp_path)
        assert (found.source, found.major, found.account) == ("first", 18, None)

    def test_one_that_fits_the_data_comes_before_the_first(
        self, tmp_path: Path, places: list[tuple[Path, str]]
    ):
        places += [
            (self.installed(tmp_path / "a", "18.6"), "first"),
            (self.installed(tmp_path / "b", "15.4"), "second"),
        ]
        (tmp_path / "postgres-15").mkdir()
        assert find_postgres(tmp_path).major == 15

    def test_without_any_the_message_says_what_helps(
        self, tmp_path: Path, places: list[tuple[Path, str]]
    ):
        assert places == []
        with pytest.raises(PostgresMissing, match=r"pip install .runnerq\[dev\]"):
            find_postgres(tmp_path)

    def test_root_needs_a_way_there_for_the_servers_account(
        self, tmp_path: Path, places: list[tuple[Path, str]], monkeypatch: pytest.MonkeyPatch
    ):
        places.append((self.installed(tmp_path / "a", "18.6"), "first"))
        monkeypatch.setattr(os, "geteuid", lambda: 0)
        closed = tmp_path / "closed"
        closed.mkdir(mode=0o700)
        with pytest.raises(PostgresMissing, match="may not enter"):
            find_postgres(closed / ".runnerq")

    def test_auto_falls_back_to_sqlite_and_an_explicit_wish_does_not(
        self, tmp_path: Path, places: list[tuple[Path, str]]
    ):
        assert places == []
        with StateFolder(tmp_path / ".runnerq") as folder:
            chosen = choose_backend(BackendChoice.AUTO, None, folder)
            assert chosen.url == f"sqlite:///{folder.path.resolve()}/queue.db"
            with pytest.raises(ConfigurationError, match="--backend: no Postgres can be used"):
                choose_backend(BackendChoice.POSTGRES, None, folder)

    def test_an_address_outranks_the_choice(self, tmp_path: Path):
        with StateFolder(tmp_path / ".runnerq") as folder:
            given = choose_backend(BackendChoice.SQLITE, "postgres://here/db", folder)
            assert given.url == "postgres://here/db"
            with pytest.raises(ConfigurationError, match="--backend-url: memory"):
                choose_backend(BackendChoice.AUTO, "memory://", folder)

    def test_this_machine_has_one(self, tmp_path: Path):
        """What CI installs for `runnerq dev` is found."""
        tmp_path.chmod(0o755)
        assert isinstance(find_postgres(Path("/tmp/.runnerq")), Binaries)


class TestCode:
    def pool(self, app: str) -> PoolEntry:
        return desired_queue({"pools.0.app": app}).spec.pools[0]

    def test_packages_and_modules_are_found_without_importing_them(self, tmp_path: Path):
        (tmp_path / "shop").mkdir()
        (tmp_path / "shop" / "__init__.py").write_text("raise RuntimeError\n")
        (tmp_path / "tasks.py").write_text("raise RuntimeError\n")
        found = code_of([self.pool("shop.activities:registry,tasks")], working_folder=tmp_path)
        assert found == [tmp_path / "shop", tmp_path / "tasks.py"]

    def test_installed_packages_are_not_watched(self, tmp_path: Path):
        assert code_of([self.pool("msgspec")], working_folder=tmp_path) == []

    def test_an_app_that_is_not_there_is_named_by_its_field(self, tmp_path: Path):
        with pytest.raises(ConfigurationError, match=r"spec\.pools\[0\]\.app: there is no module"):
            code_of([self.pool("nowhere.activities")], working_folder=tmp_path)

    async def test_a_change_is_seen_also_when_it_came_before_the_watching(self, tmp_path: Path):
        path = tmp_path / "queue.yaml"
        path.write_text("one")
        seen, changes = version_of(path), asyncio.Event()
        path.write_text("another")
        watching = asyncio.create_task(watch_file(path, seen, changes.set))
        async with asyncio.timeout(10):
            await changes.wait()
            changes.clear()
            (tmp_path / "new").write_text("put in its place")
            (tmp_path / "new").replace(path)
            await changes.wait()
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


class TestProgram:
    async def test_its_lines_and_its_code_come_back(self):
        lines: list[str] = []
        code = await run_program(
            """python -c 'import os; print(os.environ["X"]); raise SystemExit(3)'""",
            environment={"X": "given", "PATH": os.environ["PATH"]},
            output=lines.append,
            spawned=lambda pid: None,
        )
        assert (code, lines) == (3, ["given"])

    async def test_cancelled_it_is_interrupted(self):
        pids: list[int] = []
        lines: list[str] = []
        program = asyncio.create_task(
            run_program(
                "python -c 'import time; print(1); time.sleep(60)'",
                environment=dict(os.environ),
                output=lines.append,
                spawned=pids.append,
            )
        )
        await eventually(lambda: lines == ["1"])
        program.cancel()
        with pytest.raises(asyncio.CancelledError):
            await program
        assert start_time(pids[0]) is None

    async def test_a_line_without_end_does_not_fill_the_memory(self):
        lines: list[str] = []
        async with output_pipe(lines.append) as pipe:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-c",
                "print('x' * 3_000_000); print('after')",
                stdout=pipe.write_end,
            )
            pipe.handed_over()
            await process.wait()
        assert lines[-1] == "after"
        assert max(len(line) for line in lines) < 2_000_000


class TestTerminal:
    def shown(self) -> tuple[Terminal, io.StringIO]:
        out = io.StringIO()
        return Terminal(Console(file=out, width=200, highlight=False)), out

    def report(
        self,
        *events: QueueEvent,
        ready: int = 0,
        desired: int = 0,
        conditions: tuple[Condition, ...] = (),
    ) -> QueueReport:
        return QueueReport(
            queue=QueueKey("", "shop"),
            status=RunnerQueueStatus(conditions=conditions),
            pools={"mail": RunnerWorkerPoolStatus(ready_replicas=ready, desired_replicas=desired)},
            events=events,
        )

    async def test_a_decision_is_one_line(self):
        terminal, out = self.shown()
        event = QueueEvent(reason="ScaledUp", message="0 -> 2 workers: why", pool="mail")
        await terminal.publish(self.report(event, ready=0, desired=2))
        assert out.getvalue().count("\n") == 1
        assert out.getvalue().endswith("mail     0 -> 2 workers: why\n")

    async def test_ready_is_said_once_when_all_are(self):
        terminal, out = self.shown()
        for ready in (0, 1, 2, 2, 2):
            await terminal.publish(self.report(ready=ready, desired=2))
        assert out.getvalue().count("ready") == 1
        await terminal.publish(self.report(ready=0, desired=0))
        assert out.getvalue().endswith("at zero\n")

    async def test_trouble_is_said_once_and_so_is_its_end(self):
        terminal, out = self.shown()
        trouble = Condition(
            type="BackendReachable",
            status=ConditionStatus.FALSE,
            reason="NoAnswer",
            message="cut off",
            last_transition_time=datetime.now(UTC),
        )
        for _ in range(3):
            await terminal.publish(self.report(conditions=(trouble,)))
        assert out.getvalue().count("NoAnswer: cut off") == 1
        await terminal.publish(self.report())
        assert "BackendReachable is good again" in out.getvalue()

    def test_what_a_worker_writes_is_not_taken_for_markup(self):
        terminal, out = self.shown()
        terminal.output(PoolKey("", "shop", "mail"), "shop-mail-1", "[red]not red[/red] [0]")
        assert out.getvalue() == "mail-1 | [red]not red[/red] [0]\n"

    def test_warnings_and_others_are_both_shown(self):
        terminal, out = self.shown()
        warning = QueueEvent(reason="ScalingHeld", message="held", type=EventType.WARNING)
        asyncio.run(terminal.publish(self.report(warning)))
        assert "queue    held" in out.getvalue()
