"""`runnerq tail`: what happens in a queue, as it happens."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from runnerq.cli.options import Target, output_option, run_async, target_options
from runnerq.cli.output import safe, say, write_line
from runnerq.documents import event_document
from runnerq.patterns import check_pattern, matches
from runnerq.storage.records import EventKind, StreamGap

if TYPE_CHECKING:
    from runnerq.storage.records import ActivityEvent

_COLOURS = {
    EventKind.COMPLETED: "green",
    EventKind.RETRIED: "yellow",
    EventKind.FAILED: "red",
    EventKind.DEAD_LETTERED: "red",
    EventKind.CLAIM_LOST: "red",
    EventKind.CLAIMED: "cyan",
}


@click.command()
@target_options
@output_option("table", "jsonl", "name")
@click.option(
    "--type",
    "pattern",
    envvar="RUNNERQ_TYPE",
    show_envvar=True,
    default="*",
    metavar="PATTERN",
    help="Only these types: exact, one trailing star, or *.",
)
@click.option(
    "--kind",
    "kinds",
    envvar="RUNNERQ_KIND",
    show_envvar=True,
    multiple=True,
    type=click.Choice([kind.value for kind in EventKind]),
    help="Only this kind of event; may be repeated.",
)
@click.option(
    "--count",
    envvar="RUNNERQ_COUNT",
    show_envvar=True,
    type=click.IntRange(min=1),
    metavar="N",
    help="End after this many events.",
)
@run_async
async def tail(
    target: Target, output: str, pattern: str, kinds: tuple[str, ...], count: int | None
) -> None:
    """Follow the events of a queue until Ctrl-C, from now on."""
    check_pattern(pattern, field="type")
    shown = 0
    async with target.opened() as backend, backend.event_stream(target.queue) as events:
        say(f"following queue {target.queue!r}")
        async for event in events:
            if isinstance(event, StreamGap):
                say(f"some events were lost here: {event.reason}")
                continue
            if not matches(pattern, event.type) or (kinds and event.kind.value not in kinds):
                continue
            _print(event, output)
            shown += 1
            if shown == count:
                return


def _print(event: ActivityEvent, output: str) -> None:
    if output == "jsonl":
        write_line(event_document(event))
    elif output == "name":
        click.echo(str(event.activity_id))
    else:
        click.echo(_line(event), color=False if os.environ.get("NO_COLOR") else None)


def _line(event: ActivityEvent) -> str:
    kind = click.style(f"{event.kind.value:13}", fg=_COLOURS.get(event.kind))
    more = [f"attempt {event.attempt}"] if event.attempt else []
    if event.worker_id:
        more.append(event.worker_id)
    if event.error is not None:
        more.append(f"{event.error.type}: {event.error.message}")
    at = event.at.strftime("%H:%M:%S.%f")[:-3]
    return (
        f"{at}  {kind}  {event.activity_id}  {safe(event.type)}  {safe('  '.join(more))}".rstrip()
    )
