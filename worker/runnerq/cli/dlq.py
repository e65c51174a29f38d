"""`runnerq dlq`: dead letters, listed and put back to work."""

from __future__ import annotations

import getpass
from typing import TYPE_CHECKING
from uuid import UUID

import click

from runnerq.cli.exits import CommandFailed, ExitCode
from runnerq.cli.ls import print_page, read_page
from runnerq.cli.options import FORMATS, Target, output_option, run_async, target_options
from runnerq.cli.output import columns, emit_list, say
from runnerq.storage.records import ActivityState

if TYPE_CHECKING:
    from runnerq.documents import Document
    from runnerq.storage.ports import Storage

BATCH = 500


@click.group()
def dlq() -> None:
    """Look at dead letters, and requeue them."""


@dlq.command("ls")
@target_options
@output_option(*FORMATS)
@click.option(
    "--type",
    "activity_type",
    envvar="RUNNERQ_TYPE",
    show_envvar=True,
    metavar="TYPE",
    help="Only this activity type.",
)
@click.option(
    "--limit",
    envvar="RUNNERQ_LIMIT",
    show_envvar=True,
    type=click.IntRange(1, 1_000),
    default=50,
    show_default=True,
    help="How many at most.",
)
@click.option(
    "--cursor",
    envvar="RUNNERQ_CURSOR",
    show_envvar=True,
    metavar="CURSOR",
    help="Where the page before this one ended.",
)
@run_async
async def list_dead_letters(
    target: Target, output: str, activity_type: str | None, limit: int, cursor: str | None
) -> None:
    """List dead letters, newest first."""
    state = ActivityState.DEAD_LETTER
    async with target.opened() as backend:
        page = await read_page(
            backend, target.queue, state, activity_type=activity_type, limit=limit, cursor=cursor
        )
    print_page(page, target.queue, state.value, output)


@dlq.command("requeue")
@click.argument("ids", metavar="[ID]...", nargs=-1, type=click.UUID)
@target_options
@output_option(*FORMATS)
@click.option(
    "--all",
    "everything",
    envvar="RUNNERQ_ALL",
    show_envvar=True,
    is_flag=True,
    help="Every dead letter there is now, or with --type every one of that type.",
)
@click.option(
    "--type",
    "activity_type",
    envvar="RUNNERQ_TYPE",
    show_envvar=True,
    metavar="TYPE",
    help="With --all: only this activity type.",
)
@click.option(
    "--yes", "-y", envvar="RUNNERQ_YES", show_envvar=True, is_flag=True, help="Do not ask."
)
@run_async
async def requeue(
    *,
    ids: tuple[UUID, ...],
    target: Target,
    output: str,
    everything: bool,
    activity_type: str | None,
    yes: bool,
) -> None:
    """Put dead letters back to pending, with all their attempts.

    Exits 3 when an ID is not in the dead letter; the others are requeued all the same.
    """
    context = click.get_current_context()
    if bool(ids) == everything:
        raise click.UsageError("give IDs or --all, one of the two", ctx=context)
    if activity_type is not None and not everything:
        raise click.UsageError("--type goes with --all", ctx=context)
    async with target.opened() as backend:
        wanted = list(ids) if ids else await _all(backend, target.queue, activity_type)
        if everything and wanted and not yes:
            click.confirm(
                f"requeue {len(wanted)} activities of {target.queue!r}?", abort=True, err=True
            )
        moved: list[bool] = []
        for start in range(0, len(wanted), BATCH):
            part = wanted[start : start + BATCH]
            moved += await backend.requeue_dead_letters(target.queue, part, actor=_actor())
    items: list[Document] = [
        {"id": str(activity_id), "requeued": done}
        for activity_id, done in zip(wanted, moved, strict=True)
    ]
    document: Document = {"queue": target.queue, "requeued": sum(moved), "results": items}
    emit_list(
        document,
        items,
        output,
        name="id",
        table=lambda: columns(
            ("ID", "REQUEUED"),
            ((item["id"], "yes" if item["requeued"] else "no") for item in items),
        ),
    )
    say(f"requeued {sum(moved)} of {len(wanted)}")
    if not everything and not all(moved):
        missing = next(str(one) for one, done in zip(wanted, moved, strict=True) if not done)
        raise CommandFailed(
            f"{missing} is not in the dead letter of queue {target.queue!r}", ExitCode.NOT_FOUND
        )


async def _all(backend: Storage, queue: str, activity_type: str | None) -> list[UUID]:
    """The ids of all dead letters there are now; read before anything is moved, so that the pages do
    not shift under the reading."""
    found: list[UUID] = []
    cursor: str | None = None
    while True:
        page = await read_page(
            backend,
            queue,
            ActivityState.DEAD_LETTER,
            activity_type=activity_type,
            limit=BATCH,
            cursor=cursor,
        )
        found += [item.id for item in page.items]
        cursor = page.next_cursor
        if cursor is None:
            return found


def _actor() -> str:
    try:
        return f"cli {getpass.getuser()}"
    except (OSError, KeyError):
        # A container without a passwd entry for its user.
        return "cli"
