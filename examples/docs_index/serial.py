"""The same index in one plain loop: no queue, no worker, no engine.

It exists to be compared with: the page it writes equals, byte for byte, the one that the activities
make from the same files.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from docs_index.analyse import analyse
from docs_index.corpus import Corpus, find_sources
from docs_index.extract import extract
from docs_index.options import add_options, options_from
from docs_index.plan import DEFAULT_BATCH, analyse_requests, report_request
from docs_index.report import Report, report


def index(corpus: Corpus, *, batch: int = DEFAULT_BATCH) -> Report:
    """Extract, analyse and report, one after the other."""
    extracted = [extract(file) for file in corpus.files]
    analysed = [analyse(request) for request in analyse_requests(extracted, batch=batch)]
    return report(report_request(corpus.bad, extracted, analysed))


def main(argv: Sequence[str] | None = None) -> int:
    """`python -m docs_index.serial`: index, write the page, print its path."""
    parser = argparse.ArgumentParser(prog="docs_index.serial", description=__doc__)
    add_options(parser)
    options = options_from(parser.parse_args(argv))
    result = index(find_sources(options.roots, limit=options.limit), batch=options.batch)
    options.output.write_text(result.html, encoding="utf-8")
    print(options.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
