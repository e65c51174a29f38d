"""`runnerq queues`: every queue of the backend, with what waits and who works."""

from __future__ import annotations

import click

from runnerq.cli.options import FORMATS, Target, output_option, run_async, target_options
from runnerq.cli.output import columns, emit_list, say
from runnerq.documents import Document, demand_document, stats_document
from runnerq.storage.records import ActivityState, EngineState

HORIZON_MS = 60_000
_SHOWN = (
    ActivityState.PROCESSING,
    ActivityState.SCHEDULED,
    ActivityState.RETRYING,
    ActivityState.COMPLETED,
    ActivityState.FAILED,
    ActivityState.DEAD_LETTER,
)


@click.command()
@target_options
@output_option(*FORMATS)
@run_async
async def queues(target: Target, output: str) -> None:
    """Show every queue of the backend; counts marked + are lower bounds."""
    async with target.opened() as backend:
        names = sorted(await backend.list_queues())
        stats = [await backend.stats(name) for name in names]
        demands = await backend.demand(names, horizon_ms=HORIZON_MS) if names else []
    items: list[Document] = []
    rows: list[tuple[object, ...]] = []
    for stat, demand in zip(stats, demands, strict=True):
        workers = sum(engine.state is not EngineState.STOPPED for engine in demand.engines)
        totals = demand_document(demand)
        items.append(stats_document(stat) | {"demand": totals, "workers": workers})
        rows.append(
            (
                stat.queue,
                _count(totals["claimable"], capped=bool(totals["claimable_capped"])),
                *(
                    _count(stat.counts.get(state, 0), capped=state in stat.capped)
                    for state in _SHOWN
                ),
                workers,
            )
        )
    heads = ("QUEUE", "CLAIMABLE", *(state.value.upper() for state in _SHOWN), "WORKERS")
    emit_list(
        {"queues": items},
        items,
        output,
        name="queue",
        table=lambda: columns(heads, rows) if rows else "",
    )
    if not rows and output == "table":
        say("no queue has anything in it yet")


def _count(value: object, *, capped: bool) -> object:
    return f"{value}+" if capped else value
