"""The command `runnerq dev`."""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path

import click

from runnerq_operator.local.backend import BackendChoice

_LEVELS = ("debug", "info", "warning", "error")


@click.command()
@click.option(
    "--file",
    "-f",
    "file",
    required=True,
    envvar="RUNNERQ_FILE",
    show_envvar=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The RunnerQueue, as `kubectl apply` takes it.",
)
@click.option(
    "--backend",
    type=click.Choice([choice.value for choice in BackendChoice]),
    default=BackendChoice.AUTO.value,
    show_default=True,
    envvar="RUNNERQ_BACKEND",
    show_envvar=True,
    help="postgres: one of its own; sqlite: a file; auto: Postgres if there is one.",
)
@click.option(
    "--backend-url",
    metavar="URL",
    envvar="RUNNERQ_DEV_BACKEND_URL",
    show_envvar=True,
    help="Use yours: postgres://user:password@host/database or sqlite:///path/to/file.db",
)
@click.option(
    "--console-port",
    type=click.IntRange(0, 65535),
    envvar="RUNNERQ_CONSOLE_PORT",
    show_envvar=True,
    help="Port of the console; 0 takes a free one.  [default: 8320, or a free one]",
)
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65535),
    envvar="RUNNERQ_DEV_METRICS_PORT",
    show_envvar=True,
    help="Port of /metrics and /targets; 0 takes a free one.  [default: 8321, or a free one]",
)
@click.option(
    "--no-reload",
    is_flag=True,
    envvar="RUNNERQ_NO_RELOAD",
    show_envvar=True,
    help="Do not replace the workers when code changes.",
)
@click.option(
    "--run",
    "program",
    metavar="COMMAND",
    envvar="RUNNERQ_RUN",
    show_envvar=True,
    help="A program to run beside the queue, with the environment to find it.",
)
@click.option(
    "--once",
    is_flag=True,
    envvar="RUNNERQ_ONCE",
    show_envvar=True,
    help="With --run: end when the program has and the pools are back at their minimum.",
)
@click.option(
    "--log-level",
    type=click.Choice(_LEVELS),
    default="warning",
    show_default=True,
    envvar="RUNNERQ_LOG_LEVEL",
    show_envvar=True,
    help="What is logged, by the workers too.",
)
def dev(
    *,
    file: Path,
    backend: str,
    backend_url: str | None,
    console_port: int | None,
    metrics_port: int | None,
    no_reload: bool,
    program: str | None,
    once: bool,
    log_level: str,
) -> None:
    """Run a queue on this machine: pools that scale, a backend and the console.

    The control loop is the operator's; a pod is a process. Everything it writes is in `.runnerq/`
    beside the file. Ctrl-C drains the workers; a second one kills them.
    """
    from rich.console import Console

    from runnerq_operator.local.session import Options, run_session
    from runnerq_operator.local.terminal import Terminal

    if once and program is None:
        raise click.UsageError("--once ends with a program; give it with --run")
    logging.basicConfig(
        level=log_level.upper(), format="%(asctime)s %(levelname)-7s %(name)s: %(message)s"
    )
    options = Options(
        file=file,
        backend=BackendChoice(backend),
        backend_url=backend_url,
        console_port=console_port,
        metrics_port=metrics_port,
        reload=not no_reload,
        program=program,
        once=once,
        log_level=log_level,
    )
    code = asyncio.run(run_session(options, Terminal(Console(highlight=False))))
    if code:
        sys.exit(code)
