"""`runnerq show ID`: one activity in full, with its timeline."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

import click

from runnerq.cli.options import FORMATS, Target, output_option, run_async, target_options
from runnerq.cli.output import emit_one, safe
from runnerq.documents import event_document, snapshot_document

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import timedelta

    from rich.console import RenderableType

    from runnerq.documents import Document
    from runnerq.storage.records import ActivityEvent, ActivitySnapshot

PREVIEW = 4_000
"""Characters of a value shown to people; `-o json` has all of it."""


@click.command()
@click.argument("activity_id", metavar="ID", type=click.UUID)
@target_options
@output_option(*FORMATS)
@run_async
async def show(activity_id: UUID, target: Target, output: str) -> None:
    """Show the activity ID: its facts, timeline, payload, and its result or error."""
    async with target.opened() as backend:
        activity = await backend.get_activity(target.queue, activity_id)
        events = await backend.get_activity_events(target.queue, activity_id)
    document: Document = {
        "activity": snapshot_document(activity),
        "events": [event_document(event) for event in events],
    }
    emit_one(document, output, name=str(activity_id), table=lambda: _text(activity, events))


def _text(activity: ActivitySnapshot, events: Sequence[ActivityEvent]) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    from runnerq.cli.output import columns, state_text

    title = Text.assemble((safe(activity.type), "bold"), "  ")
    title.append_text(state_text(activity.status.value))
    parts: list[RenderableType] = [title, columns(("", ""), _facts(activity)), Text("")]
    parts += [Text("Timeline", style="bold"), columns(("", "", "", ""), _steps(events))]
    parts += _value("Payload", activity.payload, activity.codec)
    if activity.error is not None:
        error = activity.error
        parts += [
            Text(""),
            Text("Error", style="bold"),
            Text(safe(f"{error.type}: {error.message}")),
        ]
        parts += [Text(safe(error.traceback), style="dim")] if error.traceback else []
    if activity.result is not None:
        parts += _value("Result", activity.result, activity.result_codec)
    return Group(*parts)


def _facts(activity: ActivitySnapshot) -> Iterator[tuple[str, str]]:
    limit = "no limit" if activity.max_attempts == 0 else f"of {activity.max_attempts}"
    yield "id", str(activity.id)
    yield "queue", activity.queue
    yield "priority", activity.priority.name.lower()
    yield "attempt", f"{activity.attempt} {limit}"
    yield "timeout", f"{activity.timeout_ms / 1000:g} s"
    yield "enqueued", activity.created_at.isoformat(timespec="milliseconds")
    if activity.ready_at != activity.created_at:
        yield "claimable", activity.ready_at.isoformat(timespec="milliseconds")
    if activity.worker_id is not None:
        yield "worker", activity.worker_id
    if activity.idempotency_key is not None:
        yield "key", activity.idempotency_key
    if activity.parent_id is not None:
        yield "parent", str(activity.parent_id)


def _steps(events: Sequence[ActivityEvent]) -> Iterator[tuple[str, str, str, str]]:
    before = None
    for event in events:
        gap = "" if before is None else f"+{_seconds(event.at - before)}"
        before = event.at
        attempt = f"attempt {event.attempt}" if event.attempt else ""
        reason = "" if event.error is None else f"{event.error.type}: {event.error.message}"
        where = event.worker_id or str(event.detail.get("actor", ""))
        yield (
            event.at.strftime("%H:%M:%S.%f")[:-3],
            gap,
            event.kind.value,
            "  ".join(part for part in (attempt, where, reason) if part),
        )


def _seconds(gap: timedelta) -> str:
    return f"{gap.total_seconds():.3f} s"


def _value(title: str, data: bytes, codec: str) -> list[RenderableType]:
    from rich.text import Text

    shown = data.decode("utf-8", "replace") if codec == "json" else repr(data)
    cut = "" if len(shown) <= PREVIEW else f"… ({len(data):,} bytes; -o json has all)"
    return [Text(""), Text(title, style="bold"), Text(safe(shown[:PREVIEW]) + cut)]
