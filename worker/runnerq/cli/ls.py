"""`runnerq ls STATE`: the activities in one state, newest first, page by page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from runnerq.cli.options import FORMATS, Target, output_option, run_async, target_options
from runnerq.cli.output import columns, emit_list, say, state_text
from runnerq.documents import snapshot_document
from runnerq.errors import ConfigurationError
from runnerq.patterns import check_type_name
from runnerq.storage.records import ActivityState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from runnerq.documents import Document
    from runnerq.storage.ports import Storage
    from runnerq.storage.records import ActivitySnapshot, Page

STATES = [state.value for state in ActivityState]


@click.command()
@click.argument("state", metavar="STATE", type=click.Choice(STATES))
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
async def ls(
    *,
    state: str,
    target: Target,
    output: str,
    activity_type: str | None,
    limit: int,
    cursor: str | None,
) -> None:
    """List the activities in STATE: pending, scheduled, retrying, processing, completed, failed,
    dead_letter or cancelled."""
    async with target.opened() as backend:
        page = await read_page(
            backend,
            target.queue,
            ActivityState(state),
            activity_type=activity_type,
            limit=limit,
            cursor=cursor,
        )
    print_page(page, target.queue, state, output)


async def read_page(
    backend: Storage,
    queue: str,
    state: ActivityState,
    *,
    activity_type: str | None,
    limit: int,
    cursor: str | None,
) -> Page:
    """One page; a cursor that is not ours, or what cannot name a type, is a usage error."""
    if activity_type is not None:
        check_type_name(activity_type, field="type")
    try:
        return await backend.list_activities(
            queue, state, limit=limit, cursor=cursor, activity_type=activity_type
        )
    except ValueError as error:
        raise ConfigurationError(str(error), field="cursor") from error


def print_page(page: Page, queue: str, state: str, output: str) -> None:
    """The page as asked for; for people, how to go on is said on stderr."""
    items = [snapshot_document(item, whole=False) for item in page.items]
    document: Document = {
        "queue": queue,
        "status": state,
        "items": items,
        "next_cursor": page.next_cursor,
    }
    emit_list(document, items, output, name="id", table=lambda: _table(page.items))
    if output == "table":
        if not page.items:
            say(f"nothing is {state} in queue {queue!r}")
        elif page.next_cursor is not None:
            say(f"more: --cursor {page.next_cursor}")


def _table(items: Sequence[ActivitySnapshot]) -> RenderableType:
    if not items:
        return ""
    return columns(
        ("ID", "TYPE", "STATUS", "PRIORITY", "ATTEMPT", "ENQUEUED", "ERROR"),
        (
            (
                item.id,
                item.type,
                state_text(item.status.value),
                item.priority.name.lower(),
                item.attempt,
                item.created_at.strftime("%Y-%m-%d %H:%M:%S"),
                "" if item.error is None else f"{item.error.type}: {item.error.message}"[:120],
            )
            for item in items
        ),
    )
