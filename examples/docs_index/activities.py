"""The three activities: the pure functions with a type name, a time limit and a number of attempts.

`extract` and `report` wait for disks more than they compute and run in threads; `analyse` computes
and runs in processes, in a pool of its own, so that it can never hold up the other two.
"""

from __future__ import annotations

from docs_index.analyse import Analysed, AnalyseRequest
from docs_index.analyse import analyse as analyse_batch
from docs_index.corpus import SourceFile
from docs_index.extract import Extracted
from docs_index.extract import extract as extract_file
from docs_index.report import Report, ReportRequest
from docs_index.report import report as report_page
from runnerq import activity


@activity("extract", timeout=30, max_attempts=3)
def extract(file: SourceFile) -> Extracted:
    """The leading terms of one file."""
    return extract_file(file)


@activity("analyse", timeout=120, max_attempts=3, cpu=True)
def analyse(request: AnalyseRequest) -> Analysed:
    """Keywords, readability and signatures of a batch of files."""
    return analyse_batch(request)


@activity("report", timeout=120, max_attempts=3)
def report(request: ReportRequest) -> Report:
    """The finished page of the whole index."""
    return report_page(request)
