"""The plan: how answers of one stage become requests of the next.

Pure, and used by the queue's driver and the serial script alike, so that the two differ only in who
does the work.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

from docs_index.analyse import Analysed, AnalyseRequest
from docs_index.corpus import BadFile
from docs_index.extract import Extracted
from docs_index.report import ReportRequest

DEFAULT_BATCH = 16  # documents per analyse activity: some 0.2 s of work, a few hundred activities

T = TypeVar("T")


def batched(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Consecutive lists of `size` items; the last may be shorter. Raises ValueError below 1."""
    if size < 1:
        raise ValueError(f"batch: {size} documents at a time is not possible; give 1 or more")
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch


def analyse_requests(
    extracted: Sequence[Extracted], *, batch: int = DEFAULT_BATCH
) -> list[AnalyseRequest]:
    """One request per batch of readable files, with the frequencies its own terms need."""
    readable = [each for each in extracted if each.bad is None]
    frequency = Counter(term for each in readable for term in each.terms)
    return [
        AnalyseRequest(
            files=[each.file for each in group],
            document_frequency={
                term: frequency[term] for term in sorted({t for each in group for t in each.terms})
            },
            documents=len(readable),
        )
        for group in batched(readable, batch)
    ]


def report_request(
    unlisted: Iterable[BadFile], extracted: Iterable[Extracted], analysed: Iterable[Analysed]
) -> ReportRequest:
    """Everything the report is made of, sorted by name: the order of arrival leaves no trace."""
    batches = list(analysed)
    bad = [*unlisted, *(each.bad for each in extracted if each.bad is not None)]
    bad += [each for answers in batches for each in answers.bad]
    documents = [each for answers in batches for each in answers.documents]
    return ReportRequest(
        documents=sorted(documents, key=lambda each: each.name),
        bad=sorted(bad, key=lambda each: each.name),
    )
