"""`runnerq bench`: measures this machine and backend with a queue of its own."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click
import msgspec

from runnerq.cli.options import Target, output_option, run_async, target_options
from runnerq.cli.output import columns, emit_one, say

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from runnerq.bench import BenchReport


@click.command()
@target_options
@click.option(
    "--activities",
    envvar="RUNNERQ_BENCH_ACTIVITIES",
    show_envvar=True,
    default=20_000,
    show_default=True,
    help="How many are worked off.",
)
@click.option(
    "--max-workers",
    envvar="RUNNERQ_BENCH_MAX_WORKERS",
    show_envvar=True,
    default=400,
    show_default=True,
    help="Slots of the engine.",
)
@click.option(
    "--payload-bytes",
    envvar="RUNNERQ_BENCH_PAYLOAD_BYTES",
    show_envvar=True,
    default=64,
    show_default=True,
    help="Size of each payload.",
)
@click.option(
    "--latency-samples",
    envvar="RUNNERQ_BENCH_LATENCY_SAMPLES",
    show_envvar=True,
    default=200,
    show_default=True,
    help="Single round trips.",
)
@click.option(
    "--foreign",
    envvar="RUNNERQ_BENCH_FOREIGN",
    show_envvar=True,
    default=0,
    show_default=True,
    help="Waiting work of another type.",
)
@click.option(
    "--future",
    envvar="RUNNERQ_BENCH_FUTURE",
    show_envvar=True,
    default=0,
    show_default=True,
    help="Work of the type, due in a day.",
)
@click.option(
    "--migrate",
    envvar="RUNNERQ_BENCH_MIGRATE",
    show_envvar=True,
    is_flag=True,
    help="Bring the schema up to date first.",
)
@output_option("table", "json", "yaml")
@run_async
async def bench(target: Target, output: str, *, migrate: bool, **settings: int) -> None:
    """Measure how fast this backend enqueues, works a backlog off and answers.

    Uses a queue of its own, named bench-..., and puts real load on the backend: not for a server that
    others depend on. Compare ratios taken on one machine, not figures of different ones.
    """
    from runnerq.bench import BenchPlan, run_bench

    plan = BenchPlan(**settings)
    backend = target.backend(max_connections=10)
    try:
        if migrate or not backend.capabilities.durable:
            await backend.migrate()
        await backend.open()
        with _progress() as progress:
            report = await run_bench(backend, plan, progress=progress)
    finally:
        await backend.close()
    emit_one(
        msgspec.to_builtins(report),
        output,
        name="",
        table=lambda: columns(("", ""), _rows(report)),
    )


def _rows(report: BenchReport) -> list[tuple[str, str]]:
    def milliseconds(value: float | None) -> str:
        return "not measured" if value is None else f"{value:.1f} ms"

    return [
        ("backend", report.backend),
        ("enqueued", f"{report.enqueued_per_second:,.0f} /s"),
        ("processed", f"{report.processed_per_second:,.0f} /s"),
        ("CPU of this process", f"{report.cpu_seconds_per_1000:.3f} s per 1,000"),
        ("enqueue to result, p50", milliseconds(report.latency_ms_p50)),
        ("enqueue to result, p99", milliseconds(report.latency_ms_p99)),
    ]


@contextmanager
def _progress() -> Generator[Callable[[str, int, int], None]]:
    """Bars on a terminal; elsewhere one line per stage."""
    if not sys.stderr.isatty():
        begun: set[str] = set()

        def note(stage: str, done: int, total: int) -> None:
            if stage not in begun:
                begun.add(stage)
                say(f"{stage}: {total:,}")

        yield note
        return
    from rich.console import Console
    from rich.progress import Progress, TaskID

    with Progress(console=Console(stderr=True), transient=True) as bars:
        tasks: dict[str, TaskID] = {}

        def show(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=total)
            bars.update(tasks[stage], completed=done)

        yield show
