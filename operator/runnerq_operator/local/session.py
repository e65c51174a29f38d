"""One run of `runnerq dev`, from the first process to the last.

    clean up -> backend -> console -> fleet -> control loop (+ program, + reload)
    Ctrl-C: program, control loop, workers drained, console, backend; again: workers killed

What was started first ends last: workers can hand back what they run for as long as they live.
"""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path
from typing import Any

import msgspec

from runnerq.connection import open_backend
from runnerq.errors import ConfigurationError
from runnerq.storage.ports import Storage
from runnerq_operator.control.controller import Controller
from runnerq_operator.control.desired import BackendAddress, DesiredQueue
from runnerq_operator.control.leader_metrics import LeaderMetrics
from runnerq_operator.fleet.port import QueueKey
from runnerq_operator.fleet.process import ProcessFleet, plain_environment
from runnerq_operator.local.backend import BackendChoice, LocalBackend, choose_backend
from runnerq_operator.local.console import serving_console
from runnerq_operator.local.folder import StateFolder
from runnerq_operator.local.interrupts import Interrupts
from runnerq_operator.local.metrics import serving_metrics, session_targets
from runnerq_operator.local.processes import Kind
from runnerq_operator.local.program import run_program
from runnerq_operator.local.reload import Version, code_of, version_of, watch_code, watch_file
from runnerq_operator.local.terminal import Terminal
from runnerq_operator.model.queue import RunnerQueue
from runnerq_operator.model.validate import load_queue

logger = logging.getLogger(__name__)

DEFAULT_CONSOLE_PORT = 8320
DEFAULT_METRICS_PORT = 8321
_POLL_SECONDS = 0.2
_INTERRUPTED = 130


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line said."""

    file: Path
    backend: BackendChoice = BackendChoice.AUTO
    backend_url: str | None = None
    console_port: int | None = None
    """None: 8320, or any other if that is taken. 0: any free one."""
    metrics_port: int | None = None
    """The same from 8321."""
    reload: bool = True
    program: str | None = None
    once: bool = False
    """End when the program has, and the pools are back at their minimum."""
    log_level: str = "warning"


async def run_session(options: Options, terminal: Terminal) -> int:
    """Run until Ctrl-C, or until done with `once`; the exit code.

    Raises ConfigurationError, BackendUnavailable.
    """
    version = version_of(options.file)
    queue = read_queue(options.file)
    code = code_of(queue.spec.pools, working_folder=Path.cwd())
    with StateFolder(options.file.resolve().parent / ".runnerq") as folder:
        left = await asyncio.to_thread(folder.notes.end_leftovers)
        if left:
            terminal.say(f"ended {len(left)} processes left over from an earlier run")
        backend = choose_backend(options.backend, options.backend_url, folder)
        interrupts = Interrupts()
        with interrupts:
            await backend.start()
            try:
                place = _Place(
                    options=options,
                    version=version,
                    folder=folder,
                    backend=backend,
                    terminal=terminal,
                    interrupts=interrupts,
                )
                return await _Session(place, queue).run(code)
            finally:
                await backend.stop()


def read_queue(file: Path) -> RunnerQueue:
    """The queue in a file. Raises ConfigurationError (InvalidManifest) with every mistake."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{file} cannot be read: {error}", field="--file") from error
    return load_queue(text, source=str(file))


class _Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a session happens."""

    options: Options
    version: Version
    """Of the queue's file, when it was read."""
    folder: StateFolder
    backend: LocalBackend
    terminal: Terminal
    interrupts: Interrupts


class _Session:
    def __init__(self, place: _Place, queue: RunnerQueue) -> None:
        self._place = place
        self._options = place.options
        self._terminal = place.terminal
        self._interrupts = place.interrupts
        self._queue = queue
        self._metrics = LeaderMetrics(lambda _: True)
        self._reloads = 0

    async def run(self, code: list[Path]) -> int:
        console = serving_console(
            self._open(self._address(), 4),
            queue=self._queue.backend_queue,
            ports=_ports(self._options.console_port, DEFAULT_CONSOLE_PORT),
        )
        async with console as url:
            fleet = ProcessFleet(
                backend_url=self._place.backend.url,
                environment={"RUNNERQ_LOG_LEVEL": self._options.log_level, **os.environ},
                output=self._terminal.output,
                spawned=lambda pid: self._place.folder.notes.note(Kind.WORKER, pid),
            )
            metrics = serving_metrics(
                self._metrics.registry,
                lambda: session_targets(fleet, url),
                ports=_ports(self._options.metrics_port, DEFAULT_METRICS_PORT),
            )
            async with metrics as metrics_url, fleet:
                self._introduce(url, metrics_url)
                ended = await self._control(fleet, code)
                if fleet.working:
                    self._terminal.say(f"draining {fleet.working} workers; Ctrl-C again kills them")
                await self._drain(fleet)
        return ended

    async def _control(self, fleet: ProcessFleet, code: list[Path]) -> int:
        """The control loop with what runs beside it, until something says that it is over."""
        controller = Controller(
            fleet=fleet,
            sink=self._terminal,
            opener=self._open,
            metrics=self._metrics,
            observed=self._metrics.observed,
        )
        controller.apply(self._desired())
        try:
            async with asyncio.TaskGroup() as tasks:
                aside = [tasks.create_task(controller.run(), name="control")]
                if self._options.reload:
                    aside += self._watchers(tasks, controller, fleet, code)
                ended = await self._until_over(tasks)
                for task in aside:
                    task.cancel()
        except* ConfigurationError as group:
            # What was declared is wrong: one line for people, without the group around it.
            raise group.exceptions[0] from None
        return ended

    async def _until_over(self, tasks: asyncio.TaskGroup) -> int:
        """The exit code: of the program with `once`, else 0."""
        interrupted = tasks.create_task(self._interrupts.first.wait())
        waiting: set[asyncio.Task[Any]] = {interrupted}
        program: asyncio.Task[int] | None = None
        if self._options.program is not None:
            program = tasks.create_task(self._program(self._options.program))
            waiting.add(program)
        done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if program is not None and program in done:
            result = program.result()
            if self._options.once:
                if result == 0:
                    await self._until_idle()
                interrupted.cancel()
                return result
            await self._interrupts.first.wait()
            return 0
        if program is not None:
            program.cancel()
        return _INTERRUPTED if self._options.once else 0

    async def _program(self, command: str) -> int:
        code = await run_program(
            command,
            environment={**os.environ, **self._variables()},
            output=self._terminal.program_output,
            spawned=lambda pid: self._place.folder.notes.note(Kind.PROGRAM, pid),
        )
        style = "green" if code == 0 else "red"
        self._terminal.say(f"ended with exit code {code}", source="run", style=style)
        return code

    async def _until_idle(self) -> None:
        """Nothing waits or runs, and every pool is back at its minimum; or Ctrl-C."""
        while not self._idle():
            try:
                async with asyncio.timeout(_POLL_SECONDS):
                    await self._interrupts.first.wait()
                    return
            except TimeoutError:
                continue

    def _idle(self) -> bool:
        report = self._terminal.report
        if report is None or report.status.backlog or report.status.running:
            return False
        least = {pool.name: pool.scaling.min_replicas for pool in self._queue.spec.pools}
        return all(
            status.desired_replicas <= least.get(name, 0)
            and status.replicas == status.desired_replicas
            for name, status in report.pools.items()
        )

    async def _drain(self, fleet: ProcessFleet) -> None:
        """Let the workers finish, unless a second Ctrl-C says otherwise."""
        fleet.stop_all()
        gone = asyncio.ensure_future(fleet.gone())
        hurry = asyncio.ensure_future(self._interrupts.second.wait())
        try:
            await asyncio.wait({gone, hurry}, return_when=asyncio.FIRST_COMPLETED)
            if not gone.done():
                fleet.kill_all()
            await gone
        finally:
            gone.cancel()
            hurry.cancel()

    def _watchers(
        self,
        tasks: asyncio.TaskGroup,
        controller: Controller,
        fleet: ProcessFleet,
        code: list[Path],
    ) -> list[asyncio.Task[None]]:
        def code_changed(name: str) -> None:
            self._terminal.say(f"{name} changed; replacing the workers")
            self._reloads += 1
            fleet.reload()
            controller.apply(self._desired())

        def file_changed() -> None:
            try:
                queue = read_queue(self._options.file)
            except ConfigurationError as error:
                self._terminal.say(f"{error}\n  the queue as it was stays in force", style="red")
                return
            if queue != self._queue:
                self._terminal.say(f"{self._options.file.name} changed")
                self._queue = queue
                controller.apply(self._desired())

        looking = watch_file(self._options.file, self._place.version, file_changed)
        watchers = [tasks.create_task(looking)]
        if code:
            watchers.append(tasks.create_task(watch_code(code, code_changed)))
        return watchers

    def _desired(self) -> DesiredQueue:
        spec = self._queue.spec
        shared = plain_environment(spec.template)
        return DesiredQueue(
            key=QueueKey("", self._queue.metadata.name),
            spec=spec,
            backend=self._address(),
            pod_templates={
                pool.name: _with_environment({**shared, **plain_environment(pool.template)})
                for pool in spec.pools
            },
            code=str(self._reloads),
        )

    def _address(self) -> BackendAddress:
        return BackendAddress(url=self._place.backend.url, schema=self._schema())

    def _schema(self) -> str:
        postgres = self._queue.spec.backend.postgres
        return postgres.schema if postgres is not None else "runnerq"

    def _variables(self) -> dict[str, str]:
        """What an app or a command needs to find the queue."""
        variables = {
            "RUNNERQ_BACKEND_URL": self._place.backend.url,
            "RUNNERQ_QUEUE": self._queue.backend_queue,
        }
        if not self._place.backend.url.startswith("sqlite:"):
            variables["RUNNERQ_SCHEMA"] = self._schema()
        return variables

    def _open(self, address: BackendAddress, max_connections: int = 2) -> Storage:
        schema = None if address.url.startswith("sqlite:") else address.schema
        return open_backend(
            address.url,
            queue=self._queue.backend_queue,
            schema=schema,
            max_connections=max_connections,
        )

    def _introduce(self, console_url: str, metrics_url: str) -> None:
        env = self._place.folder.write_environment(self._variables())
        self._terminal.heading(
            self._queue.metadata.name,
            {
                "backend": f"{self._place.backend.description}, {_shown(self._place.folder.path)}",
                "console": console_url,
                "metrics": f"{metrics_url}/metrics, and /targets for Prometheus",
                "shell": f"source {_shown(env)}",
            },
        )


def _ports(asked: int | None, default: int) -> list[int]:
    """The ports to try, in order."""
    return [default, 0] if asked is None else [asked]


def _with_environment(variables: dict[str, str]) -> dict[str, Any]:
    """A pod template that says no more than these variables: all that counts for local processes."""
    if not variables:
        return {}
    pairs = [{"name": name, "value": value} for name, value in variables.items()]
    return {"spec": {"containers": [{"name": "worker", "env": pairs}]}}


def _shown(path: Path) -> str:
    """As short as it can be said from here."""
    relative = os.path.relpath(path)
    return relative if not relative.startswith("..") else str(path)
