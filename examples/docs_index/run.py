"""The driver: enqueues the three stages one after the other and awaits their results.

Works against whatever RUNNERQ_BACKEND_URL and RUNNERQ_QUEUE name, with workers anywhere that see the
same files; it does no part of the work itself.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from docs_index import activities, serial
from docs_index.corpus import Corpus, find_sources
from docs_index.options import Options, add_options, options_from
from docs_index.plan import DEFAULT_BATCH, analyse_requests, batched, report_request
from docs_index.report import Report
from runnerq import ActivityBuilder, ActivityExecutor, ActivityFuture, RunnerQError, connect

ENQUEUE_BATCH = 500  # activities per round trip to the backend
_AWAITED = 200  # futures waited for at once; the older end first, so none holds up the others long
_SAY_EVERY = 1.0  # seconds between two lines of progress

T = TypeVar("T")
Say = Callable[[str], None]


async def index(
    executor: ActivityExecutor, corpus: Corpus, *, batch: int = DEFAULT_BATCH, say: Say
) -> Report:
    """The report on a corpus, made by workers. Raises the first ActivityEnded of any stage.

    Stages are barriers: keywords need every document's terms, the page needs every analysis.
    """
    extracted = await _stage(
        executor, "extract", [activities.extract.payload(file) for file in corpus.files], say
    )
    requests = analyse_requests(extracted, batch=batch)
    analysed = await _stage(
        executor, "analyse", [activities.analyse.payload(each) for each in requests], say
    )
    request = report_request(corpus.bad, extracted, analysed)
    (result,) = await _stage(executor, "report", [activities.report.payload(request)], say)
    return result


async def _stage(
    executor: ActivityExecutor, name: str, calls: Sequence[ActivityBuilder[T]], say: Say
) -> list[T]:
    """Enqueue all calls in batches; their results in the order of the calls."""
    futures: list[ActivityFuture[T]] = []
    for some in batched(calls, ENQUEUE_BATCH):
        futures += await executor.execute_many(some)
    progress = _Progress(name, len(futures), say)

    async def settled(future: ActivityFuture[T]) -> T:
        result = await future
        progress.advance()
        return result

    results: list[T] = []
    try:
        for some in batched(futures, _AWAITED):
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(settled(future)) for future in some]
            results += [task.result() for task in tasks]
    except* RunnerQError as failures:
        # One lost activity makes the index incomplete, so the first is the answer for all.
        raise failures.exceptions[0] from None
    return results


class _Progress:
    """Counts a stage's results and says so, at most once a second and at the end."""

    def __init__(self, name: str, total: int, say: Say) -> None:
        self._name, self._total, self._say = name, total, say
        self._done = 0
        self._started = self._said = time.monotonic()
        say(f"{name}: {total:,} enqueued")

    def advance(self) -> None:
        self._done += 1
        now = time.monotonic()
        if self._done == self._total or now - self._said >= _SAY_EVERY:
            self._said = now
            seconds = now - self._started
            self._say(f"{self._name}: {self._done:,} of {self._total:,} after {seconds:.1f} s")


async def _connected(options: Options, corpus: Corpus, say: Say) -> Report:
    async with await connect() as executor:
        return await index(executor, corpus, batch=options.batch, say=say)


def _to_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """`python -m docs_index.run`: index through the queue, write the page, print its path."""
    parser = argparse.ArgumentParser(prog="docs_index.run", description=__doc__)
    add_options(parser)
    parser.add_argument(
        "--check",
        action="store_true",
        help="also compute the report serially here and fail if the two differ",
    )
    arguments = parser.parse_args(argv)
    options = options_from(arguments)
    corpus = find_sources(options.roots, limit=options.limit)
    try:
        result = asyncio.run(_connected(options, corpus, _to_stderr))
    except RunnerQError as error:
        _to_stderr(f"docs_index: {error}")
        return 1
    options.output.write_text(result.html, encoding="utf-8")
    _to_stderr(
        f"{result.documents:,} documents, {result.words:,} words, "
        f"{result.near_duplicate_groups:,} groups of near-duplicates, "
        f"{result.not_indexed:,} files not indexed"
    )
    if arguments.check:
        if result != serial.index(corpus, batch=options.batch):
            _to_stderr("docs_index: the report differs from the one computed serially")
            return 1
        _to_stderr("check: the same report was computed serially")
    print(options.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
