"""`runnerq console`: the web console of one backend, closed unless told otherwise."""

from __future__ import annotations

import asyncio
import logging
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import click

from runnerq.cli.options import Target, run_async, target_options
from runnerq.cli.worker import LEVELS
from runnerq.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from runnerq.console import ConsoleServer


@click.command()
@target_options
@click.option(
    "--host",
    envvar="RUNNERQ_CONSOLE_HOST",
    show_envvar=True,
    default="127.0.0.1",
    show_default=True,
    help="Address to listen on.",
)
@click.option(
    "--port",
    envvar="RUNNERQ_CONSOLE_PORT",
    show_envvar=True,
    type=click.IntRange(0, 65535),
    default=8080,
    show_default=True,
    help="Port of the page; 0 takes a free one.",
)
@click.option(
    "--metrics-port",
    envvar="RUNNERQ_CONSOLE_METRICS_PORT",
    show_envvar=True,
    type=click.IntRange(0, 65535),
    help="Serve /metrics and health on a port of their own too.",
)
@click.option(
    "--base-path",
    envvar="RUNNERQ_CONSOLE_BASE_PATH",
    show_envvar=True,
    default="",
    metavar="/PATH",
    help="Path in front of everything, for a proxy that does not strip it.",
)
@click.option(
    "--auth",
    envvar="RUNNERQ_CONSOLE_AUTH",
    show_envvar=True,
    type=click.Choice(["token", "none"]),
    help="How people log in; none must be said where other machines can reach the console.",
)
@click.option(
    "--token",
    envvar="RUNNERQ_CONSOLE_TOKEN",
    show_envvar=True,
    metavar="TOKEN",
    help="Reads and acts. Better in the variable: arguments show in the process list.",
)
@click.option(
    "--viewer-token",
    envvar="RUNNERQ_CONSOLE_VIEWER_TOKEN",
    show_envvar=True,
    metavar="TOKEN",
    help="Only reads.",
)
@click.option(
    "--token-file",
    envvar="RUNNERQ_CONSOLE_TOKEN_FILE",
    show_envvar=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File that holds the token.",
)
@click.option(
    "--allowed-host",
    "allowed_hosts",
    envvar="RUNNERQ_CONSOLE_ALLOWED_HOSTS",
    show_envvar=True,
    multiple=True,
    metavar="NAME",
    help="Host name to answer to besides localhost, without a login; may be repeated.",
)
@click.option(
    "--queue-gauges/--no-queue-gauges",
    envvar="RUNNERQ_CONSOLE_QUEUE_GAUGES",
    show_envvar=True,
    default=True,
    show_default=True,
    help="Export the queue's depth and workers in /metrics; off where the operator does.",
)
@click.option(
    "--log-level",
    envvar="RUNNERQ_LOG_LEVEL",
    show_envvar=True,
    type=click.Choice(LEVELS),
    default="info",
    show_default=True,
    help="What is logged to stderr.",
)
@run_async
async def console(
    *,
    target: Target,
    host: str,
    port: int,
    metrics_port: int | None,
    base_path: str,
    auth: str | None,
    token: str | None,
    viewer_token: str | None,
    token_file: Path | None,
    allowed_hosts: tuple[str, ...],
    queue_gauges: bool,
    log_level: str,
) -> None:
    """Serve the console of a queue until Ctrl-C."""
    from runnerq.console import choose_auth, serve

    logging.basicConfig(
        level=log_level.upper(), format="%(asctime)s %(levelname)-7s %(name)s: %(message)s"
    )
    chosen = choose_auth(
        auth, host=host, token=_token(token, token_file), viewer_token=viewer_token
    )
    async with target.opened() as backend:
        await _until_stopped(
            serve(
                backend,
                auth=chosen,
                queue=target.queue,
                host=host,
                port=port,
                metrics_port=metrics_port,
                base_path=base_path,
                queue_gauges=queue_gauges,
                allowed_hosts=allowed_hosts,
                started=_started,
            )
        )


def _token(token: str | None, file: Path | None) -> str | None:
    if file is None:
        return token
    if token is not None:
        raise ConfigurationError("a token is given too; give one of the two", field="token_file")
    return file.read_text(encoding="utf-8").strip()


def _started(server: ConsoleServer) -> None:
    click.echo(f"console at {server.url}", err=True)
    if server.metrics_url:
        click.echo(f"metrics at {server.metrics_url}", err=True)


async def _until_stopped(serving: Coroutine[object, object, None]) -> None:
    """Run it until SIGTERM or Ctrl-C, which end it cleanly and count as success."""
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    signalled = False

    def stop() -> None:
        nonlocal signalled
        signalled = True
        if task is not None:
            task.cancel()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    try:
        await serving
    except asyncio.CancelledError:
        if not signalled or task is None or task.uncancel():
            raise
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
