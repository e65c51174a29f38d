"""The command line that the driver and the serial script share.

Everything a person can get wrong is refused here, before the first file is read or enqueued.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from docs_index.corpus import default_roots
from docs_index.plan import DEFAULT_BATCH


@dataclass(frozen=True, slots=True)
class Options:
    """What to index (roots, at most `limit` files), how it is cut, and where the page goes."""

    roots: tuple[Path, ...]
    limit: int | None
    batch: int
    output: Path


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the shared options on a parser."""
    parser.add_argument(
        "--root",
        dest="roots",
        action="append",
        type=_folder,
        metavar="PATH",
        help="folder to index; repeatable (default: standard library and installed packages)",
    )
    parser.add_argument(
        "--limit", type=_positive, metavar="N", help="index N files, spread evenly (default: all)"
    )
    parser.add_argument(
        "--batch",
        type=_positive,
        default=DEFAULT_BATCH,
        metavar="N",
        help="documents per analyse activity (default: %(default)s)",
    )
    parser.add_argument(
        "--output",
        type=_writable,
        default="docs-index.html",
        metavar="FILE",
        help="where the report goes (default: %(default)s)",
    )


def options_from(arguments: argparse.Namespace) -> Options:
    """The typed options of parsed arguments."""
    roots: Sequence[Path] = arguments.roots or default_roots()
    return Options(tuple(roots), arguments.limit, arguments.batch, arguments.output)


def _folder(text: str) -> Path:
    path = Path(text)
    if not path.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is no folder; give one that exists")
    return path


def _positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number of 1 or more")
    return int(text)


def _writable(text: str) -> Path:
    path = Path(text).resolve()
    if path.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is a folder; give a file in it")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise argparse.ArgumentTypeError(f"{text!r} cannot be written; give another place")
    return path
