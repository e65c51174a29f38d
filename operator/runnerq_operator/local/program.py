"""A program that runs beside the queue (`--run`): its driver, with the environment to find it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from runnerq.errors import ConfigurationError
from runnerq_operator.fleet.output import output_pipe

_GRACE_SECONDS = 5.0


async def run_program(
    command: str,
    *,
    environment: Mapping[str, str],
    output: Callable[[str], None],
    spawned: Callable[[int], None],
) -> int:
    """Run it to its end; its exit code. Cancelled, it is interrupted, and killed after 5 s.

    `python` is the interpreter we run on. Raises ConfigurationError when it cannot be started.
    """
    words = shlex.split(command)
    if not words:
        raise ConfigurationError("the command is empty", field="--run")
    beside = str(Path(sys.executable).parent)
    path = environment.get("PATH", os.defpath)
    async with output_pipe(output) as pipe:
        try:
            process = await asyncio.create_subprocess_exec(
                *words,
                env={**environment, "PATH": f"{beside}{os.pathsep}{path}", "PYTHONUNBUFFERED": "1"},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=pipe.write_end,
                stderr=pipe.write_end,
                start_new_session=True,
            )
        except OSError as error:
            raise ConfigurationError(
                f"{words[0]!r} cannot be started: {error}", field="--run"
            ) from error
        pipe.handed_over()
        spawned(process.pid)
        try:
            code = await process.wait()
        except asyncio.CancelledError:
            await _end(process)
            raise
    return code if code >= 0 else 128 - code


async def _end(process: asyncio.subprocess.Process) -> None:
    for number, grace in ((signal.SIGINT, _GRACE_SECONDS), (signal.SIGKILL, None)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace):
                await process.wait()
                return
