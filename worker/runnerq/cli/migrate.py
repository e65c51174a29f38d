"""`runnerq migrate`: the backend's schema, brought up to date, compared, or printed for a DBA."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

import click

from runnerq.cli.exits import CommandFailed
from runnerq.cli.options import FORMATS, Target, output_option, run_async, target_options
from runnerq.cli.output import columns, emit_list, say

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from runnerq.documents import Document
    from runnerq.storage.ports import Storage


class AppliedMigration(Protocol):
    @property
    def version(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def applied_at(self) -> datetime | None: ...


@runtime_checkable
class MigrationTools(Protocol):
    """What a backend with a schema offers beyond `migrate`."""

    async def migration_status(self) -> Sequence[AppliedMigration]: ...
    async def validate(self) -> list[str]: ...
    def migration_sql(self) -> str: ...


@click.group()
def migrate() -> None:
    """Bring the backend's schema up to date, or look at it."""


@migrate.command()
@target_options
@output_option(*FORMATS)
@run_async
async def up(target: Target, output: str) -> None:
    """Apply what is missing. Safe to repeat, and when several do it at once."""
    backend = target.backend()
    try:
        applied = await backend.migrate()
    finally:
        await backend.close()
    items: list[Document] = [{"name": name} for name in applied]
    emit_list(
        {"applied": items},
        items,
        output,
        name="name",
        table=lambda: columns(("APPLIED",), ((name,) for name in applied)) if applied else "",
    )
    say(f"applied {len(applied)}" if applied else "up to date, nothing to do")


@migrate.command()
@target_options
@output_option(*FORMATS)
@run_async
async def status(target: Target, output: str) -> None:
    """List the migrations; exits 1 when one is not applied."""
    backend = target.backend()
    try:
        known = await _tools(backend).migration_status()
    finally:
        await backend.close()
    items: list[Document] = [
        {"version": entry.version, "name": entry.name, "applied_at": entry.applied_at}
        for entry in known
    ]
    emit_list(
        {"migrations": items},
        items,
        output,
        name="name",
        table=lambda: columns(
            ("VERSION", "NAME", "APPLIED"),
            ((entry.version, entry.name, entry.applied_at or "not yet") for entry in known),
        ),
    )
    missing = [entry.name for entry in known if entry.applied_at is None]
    if missing:
        raise CommandFailed(f"{len(missing)} not applied; run `runnerq migrate up`")


@migrate.command()
@target_options
@run_async
async def validate(target: Target) -> None:
    """Compare the schema with what this version needs; exits 1 and says what differs."""
    backend = target.backend()
    try:
        problems = await _tools(backend).validate()
    finally:
        await backend.close()
    for problem in problems:
        say(problem)
    if problems:
        raise CommandFailed(f"the schema has {len(problems)} problems, listed above")
    say("the schema is what this version needs")


@migrate.command()
@target_options
@run_async
async def sql(target: Target) -> None:
    """Print all migrations as one script, for whoever applies it by hand. Connects to nothing."""
    click.echo(_tools(target.backend()).migration_sql(), nl=False)


def _tools(backend: Storage) -> MigrationTools:
    if not isinstance(backend, MigrationTools):
        raise CommandFailed(f"the {backend.capabilities.name} backend has no schema to look at")
    return backend
