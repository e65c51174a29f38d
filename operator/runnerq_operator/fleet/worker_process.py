"""One worker as a local process: started, watched, restarted after a crash, asked to stop.

It has a session of its own, so Ctrl-C in the terminal reaches only the parent, which then drains. Only
the leader is sent SIGTERM (it drains its children itself); what is left after the grace is killed as a
group.

    starting --/readyz answers--> ready --stop--> draining --exit--> gone
       ^ '--exit--> waits (1, 2, 4 ... 30 s) --> starting       draining --grace over--> killed
    three exits in a row before ever being ready: unschedulable, until it is ready once
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

from runnerq_operator.fleet.output import output_pipe
from runnerq_operator.fleet.port import PodPhase, PodState

logger = logging.getLogger(__name__)

KILL_AFTER_DRAIN_SECONDS = 5.0
_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 30.0
_HOPELESS_STARTS = 3
_PROBE_SECONDS = 0.1


class WorkerProcess:
    """Runs `command` until `stop`. `changed` is called on every change of its state; `output` gets
    each line that it writes; `spawned` each process id."""

    def __init__(
        self,
        *,
        name: str,
        template_hash: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        drain_seconds: float,
        changed: Callable[[], None],
        output: Callable[[str], None],
        spawned: Callable[[int], None],
    ) -> None:
        self.name = name
        self.template_hash = template_hash
        self.phase = PodPhase.STARTING
        self.address = ""
        """Where its health and metrics are (host:port); "" while no process runs."""
        self._command = tuple(command)
        self._environment = dict(environment)
        self._drain_seconds = drain_seconds
        self._changed = changed
        self._output = output
        self._spawned = spawned
        self._created_at = self._since = datetime.now(UTC)
        self._detail = ""
        self._restarts = 0
        self._fruitless = 0
        """Exits in a row before it was ready."""
        self._stopping = asyncio.Event()
        self._killing = asyncio.Event()

    @property
    def state(self) -> PodState:
        return PodState(
            name=self.name,
            phase=self.phase,
            created_at=self._created_at,
            since=self._since,
            detail=self._detail,
            template_hash=self.template_hash,
            restarts=self._restarts,
        )

    @property
    def leaving(self) -> bool:
        return self._stopping.is_set()

    def stop(self) -> None:
        """Drain and end."""
        if not self._stopping.is_set():
            self._stopping.set()
            self._enter(PodPhase.DRAINING)

    def kill(self) -> None:
        """End without draining."""
        self.stop()
        self._killing.set()

    async def run(self) -> None:
        """Until stopped; afterwards no process of it is left."""
        while not self._stopping.is_set():
            ended = await self._live_once()
            if self._stopping.is_set():
                return
            self._restarts += 1
            hopeless = self._fruitless >= _HOPELESS_STARTS
            pause = min(_FIRST_PAUSE * 2.0 ** max(0, self._fruitless - 1), _LONGEST_PAUSE)
            self._enter(
                PodPhase.UNSCHEDULABLE if hopeless else PodPhase.STARTING,
                f"{ended}; again in {pause:.0f} s",
            )
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._stopping.wait()

    async def _live_once(self) -> str:
        """One process from start to end; how it ended."""
        port = _free_port()
        self._fruitless += 1
        async with output_pipe(self._output) as pipe:
            try:
                process = await asyncio.create_subprocess_exec(
                    *self._command,
                    env={**self._environment, "RUNNERQ_METRICS_PORT": str(port)},
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=pipe.write_end,
                    stderr=pipe.write_end,
                    start_new_session=True,
                )
            except OSError as error:
                return f"cannot be started: {error}"
            pipe.handed_over()
            self._spawned(process.pid)
            self.address = f"127.0.0.1:{port}"
            try:
                code = await self._until_exit(process, port)
            finally:
                self.address = ""
                _signal_group(process.pid, signal.SIGKILL)
                if process.returncode is None:
                    await process.wait()
        return f"signal {-code}" if code < 0 else f"exit code {code}"

    async def _until_exit(self, process: asyncio.subprocess.Process, port: int) -> int:
        async with asyncio.TaskGroup() as tasks:
            aside = [
                tasks.create_task(self._watch_ready(port)),
                tasks.create_task(self._end_when_stopped(process)),
            ]
            code = await process.wait()
            for task in aside:
                task.cancel()
        return code

    async def _watch_ready(self, port: int) -> None:
        ready = False
        while not ready:
            await asyncio.sleep(_PROBE_SECONDS)
            ready = await _answers_ready(port)
        self._fruitless = 0
        if not self._stopping.is_set():
            self._enter(PodPhase.READY)

    async def _end_when_stopped(self, process: asyncio.subprocess.Process) -> None:
        await self._stopping.wait()
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        grace = self._drain_seconds + KILL_AFTER_DRAIN_SECONDS
        try:
            async with asyncio.timeout(grace):
                await self._killing.wait()
        except TimeoutError:
            logger.warning("%s: not gone %.0f s after SIGTERM; killed", self.name, grace)
        _signal_group(process.pid, signal.SIGKILL)

    def _enter(self, phase: PodPhase, detail: str = "") -> None:
        if (self.phase, self._detail) == (phase, detail):
            return
        if self.phase is not phase:
            self._since = datetime.now(UTC)
        self.phase, self._detail = phase, detail
        self._changed()


async def _answers_ready(port: int) -> bool:
    """Whether the worker's `/readyz` says yes."""
    try:
        async with asyncio.timeout(1.0):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                writer.write(b"GET /readyz HTTP/1.0\r\n\r\n")
                await writer.drain()
                return b" 200 " in await reader.readline()
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return False


def _free_port() -> int:
    """A port that nobody listens on now. Should somebody be quicker, the worker exits and the next
    attempt takes another."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _signal_group(pid: int, number: signal.Signals) -> None:
    """To the whole group that the process leads, also when only its children are left."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)
