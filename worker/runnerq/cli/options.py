"""Options that several commands share, each with its variable of the environment."""

from __future__ import annotations

import asyncio
import functools
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar

import click

from runnerq.connection import (
    DEFAULT_QUEUE,
    QUEUE_VARIABLE,
    SCHEMA_VARIABLE,
    URL_VARIABLE,
    open_backend,
)
from runnerq.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine

    from runnerq.storage.ports import Storage

P = ParamSpec("P")
R = TypeVar("R")

FORMATS = ("table", "json", "jsonl", "yaml", "name")


class Target(NamedTuple):
    """Which queue of which backend a command is about."""

    url: str
    queue: str
    schema: str | None

    def backend(self, *, max_connections: int = 4) -> Storage:
        """Not yet connected."""
        return open_backend(
            self.url, queue=self.queue, schema=self.schema, max_connections=max_connections
        )

    @asynccontextmanager
    async def opened(self, *, max_connections: int = 4) -> AsyncGenerator[Storage]:
        """The backend, connected, and closed at the end."""
        backend = self.backend(max_connections=max_connections)
        if not backend.capabilities.cross_process:
            raise ConfigurationError(
                f"{self.url!r} lives in one process only, so there is nothing to reach from here; "
                "use postgres:// or sqlite:///",
                field="backend_url",
            )
        try:
            await backend.open()
            yield backend
        finally:
            await backend.close()


def target_options(command: Callable[..., R]) -> Callable[..., R]:
    """--backend-url, --queue and --schema, handed to the command as `target`."""

    @click.option(
        "--backend-url",
        envvar=URL_VARIABLE,
        show_envvar=True,
        metavar="URL",
        help="postgres://user:password@host/database or sqlite:///path/to/file.db",
    )
    @click.option(
        "--queue",
        "-q",
        envvar=QUEUE_VARIABLE,
        show_envvar=True,
        default=DEFAULT_QUEUE,
        show_default=True,
        metavar="NAME",
        help="The queue.",
    )
    @click.option(
        "--schema",
        envvar=SCHEMA_VARIABLE,
        show_envvar=True,
        metavar="NAME",
        help="Postgres schema with RunnerQ's tables.  [default: runnerq]",
    )
    @functools.wraps(command)
    def with_target(
        *arguments: Any, backend_url: str | None, queue: str, schema: str | None, **others: Any
    ) -> R:
        if not backend_url:
            message = f"no backend; set {URL_VARIABLE} or give --backend-url"
            raise click.UsageError(message, ctx=click.get_current_context())
        return command(*arguments, target=Target(backend_url, queue, schema), **others)

    return with_target


def output_option(*formats: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """-o, with the formats that make sense for the command, the default first."""
    return click.option(
        "--output",
        "-o",
        "output",
        envvar="RUNNERQ_OUTPUT",
        show_envvar=True,
        type=click.Choice(formats or FORMATS),
        default=(formats or FORMATS)[0],
        show_default=True,
        help="How to print.",
    )


def run_async(command: Callable[P, Coroutine[Any, Any, R]]) -> Callable[P, R]:
    """Run an async command to its end; Ctrl-C cancels it and then interrupts."""

    @functools.wraps(command)
    def run(*arguments: P.args, **others: P.kwargs) -> R:
        return asyncio.run(command(*arguments, **others))

    return run
