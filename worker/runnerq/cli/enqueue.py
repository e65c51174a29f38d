"""`runnerq enqueue TYPE JSON`: one activity into a queue, and its result if asked for."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Any

import click
import msgspec

from runnerq.cli.exits import CommandFailed, ExitCode
from runnerq.cli.options import FORMATS, Target, output_option, run_async, target_options
from runnerq.cli.output import emit_one, safe, say
from runnerq.documents import Document, result_document
from runnerq.errors import ActivityEnded, ActivityNotFound, InvalidActivity
from runnerq.storage.records import ActivityState, IdempotencyBehavior

if TYPE_CHECKING:
    from runnerq.builder import ActivityBuilder
    from runnerq.executor import ActivityExecutor
    from runnerq.future import ActivityFuture
    from runnerq.storage.ports import Storage
    from runnerq.storage.records import ActivityResult


@click.command()
@click.argument("activity_type", metavar="TYPE")
@click.argument("payload", metavar="[JSON]", default="null", required=False)
@target_options
@output_option(*FORMATS)
@click.option(
    "--priority",
    envvar="RUNNERQ_PRIORITY",
    show_envvar=True,
    type=click.Choice(["low", "normal", "high", "critical"]),
    default="normal",
    show_default=True,
    help="What runs first.",
)
@click.option(
    "--delay",
    envvar="RUNNERQ_DELAY",
    show_envvar=True,
    type=click.FloatRange(min=0),
    default=0.0,
    metavar="SECONDS",
    help="Not before this long from now.",
)
@click.option(
    "--max-attempts",
    envvar="RUNNERQ_MAX_ATTEMPTS",
    show_envvar=True,
    type=click.IntRange(min=0),
    metavar="N",
    help="Runs in all; 1 = no retry, 0 = no limit.  [default: 3]",
)
@click.option(
    "--timeout",
    envvar="RUNNERQ_TIMEOUT",
    show_envvar=True,
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="For one attempt.  [default: 300]",
)
@click.option(
    "--key",
    envvar="RUNNERQ_KEY",
    show_envvar=True,
    metavar="TEXT",
    help="Idempotency key: at most one activity of this type holds it.",
)
@click.option(
    "--behavior",
    envvar="RUNNERQ_BEHAVIOR",
    show_envvar=True,
    type=click.Choice([behavior.value for behavior in IdempotencyBehavior]),
    default=IdempotencyBehavior.RETURN_EXISTING.value,
    show_default=True,
    help="What to do when the key is held.",
)
@click.option(
    "--wait",
    envvar="RUNNERQ_WAIT",
    show_envvar=True,
    is_flag=True,
    help="Wait for the end; print the result.",
)
@click.option(
    "--wait-timeout",
    envvar="RUNNERQ_WAIT_TIMEOUT",
    show_envvar=True,
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="Give up waiting after this long, with exit code 7.",
)
@run_async
async def enqueue(
    *,
    activity_type: str,
    payload: str,
    target: Target,
    output: str,
    wait: bool,
    wait_timeout: float | None,
    **settings: Any,
) -> None:
    """Enqueue an activity of TYPE with the payload JSON ("-" reads it from stdin).

    Prints its id; with --wait, its result, and exits 1 if it has none.
    """
    from runnerq.executor import ActivityExecutor

    data = _json(payload)
    async with target.opened() as backend:
        executor = ActivityExecutor(backend, target.queue)
        future = await _described(executor, activity_type, data, **settings).execute()
        if not wait:
            _print_enqueued(future, activity_type, target, output)
            return
        say(f"{future.status.value} {future.id}, waiting")
        ended = await _ended(backend, future, wait_timeout)
        document = result_document(ended)
        emit_one(document, output, name=str(future.id), table=lambda: _result_text(ended))
        if ended.state is not ActivityState.COMPLETED:
            raise CommandFailed(_why(ended), ExitCode.FAILED)


async def _ended(
    backend: Storage, future: ActivityFuture[Any], timeout: float | None
) -> ActivityResult:
    """How it ended, as stored: the result's own bytes, not what Python makes of them."""
    with contextlib.suppress(ActivityEnded):
        await future.get_result(timeout)
    ended = await backend.get_result(future.queue, future.id)
    if ended is None:
        raise ActivityNotFound(future.queue, future.id)
    return ended


def _json(text: str) -> msgspec.Raw:
    """The payload as it was written: checked, but not decoded and encoded again."""
    try:
        raw = sys.stdin.buffer.read().strip() if text == "-" else text.encode()
        msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise InvalidActivity(
            "payload", f'is not JSON: {error}; quote it for the shell, e.g. \'{{"to": "ada"}}\''
        ) from error
    return msgspec.Raw(raw)


def _described(
    executor: ActivityExecutor,
    activity_type: str,
    payload: msgspec.Raw,
    *,
    priority: str,
    delay: float,
    max_attempts: int | None,
    timeout: float | None,
    key: str | None,
    behavior: str,
) -> ActivityBuilder[Any]:
    builder = executor.activity(activity_type).payload(payload).priority(priority)
    if delay:
        builder = builder.delay(seconds=delay)
    if max_attempts is not None:
        builder = builder.max_attempts(max_attempts)
    if timeout is not None:
        builder = builder.timeout(timeout)
    if key is not None:
        builder = builder.idempotency_key(key, behavior=behavior)
    return builder


def _print_enqueued(
    future: ActivityFuture[Any], activity_type: str, target: Target, output: str
) -> None:
    document: Document = {
        "id": str(future.id),
        "queue": target.queue,
        "type": activity_type,
        "enqueue": future.status.value,
    }
    emit_one(document, output, name=str(future.id), table=lambda: str(future.id))


def _result_text(ended: ActivityResult) -> str:
    if ended.result is None:
        return ended.state.value
    return safe(ended.result.decode("utf-8", "replace"))


def _why(ended: ActivityResult) -> str:
    reason = "" if ended.error is None else f": {ended.error.type}: {ended.error.message}"
    return f"activity {ended.id} ended as {ended.state.value}{reason}"
