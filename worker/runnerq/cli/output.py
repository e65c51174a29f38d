"""Printing: data on stdout in the format that was asked for, everything else on stderr.

JSON has the shapes of `runnerq.documents`, the same as REST. Text of activities is foreign: control
characters in it are shown, never sent to the terminal.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

import click
import msgspec

from runnerq.documents import encode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rich.console import RenderableType
    from rich.text import Text

    from runnerq.documents import Document

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
WIDE = 10_000
"""Columns when stdout is no terminal: nothing is cut for a program that reads it."""


def safe(text: object) -> str:
    """Text without characters that command a terminal or reorder a line.

    >>> safe("a\\x1b[31mb")
    'a\\\\x1b[31mb'
    """
    return _CONTROL.sub(lambda match: ascii(match[0])[1:-1], str(text))


def emit_one(
    document: Document, output: str, *, name: str, table: Callable[[], RenderableType]
) -> None:
    """One document; `name` is what `-o name` prints."""
    match output:
        case "json":
            _write(msgspec.json.format(encode(document), indent=2))
        case "jsonl":
            _write(encode(document))
        case "yaml":
            from runnerq.cli.yaml_text import yaml_of

            click.echo(yaml_of(encode(document)), nl=False)
        case "name":
            click.echo(name)
        case _:
            draw(table())


def emit_list(
    document: Document,
    items: Sequence[Document],
    output: str,
    *,
    name: str,
    table: Callable[[], RenderableType],
) -> None:
    """A list: `document` is the whole for json and yaml, `items` its rows; `name` the naming key."""
    match output:
        case "jsonl":
            for item in items:
                _write(encode(item))
        case "name":
            for item in items:
                click.echo(safe(item[name]))
        case _:
            emit_one(document, output, name="", table=table)


def write_line(document: Document) -> None:
    """One JSON line, sent at once: for streams."""
    _write(encode(document))
    sys.stdout.flush()


def draw(renderable: RenderableType) -> None:
    """Something rich, in colour where stdout is a terminal and NO_COLOR is not set."""
    if renderable == "":
        return
    from rich.console import Console

    console = Console(width=None if sys.stdout.isatty() else WIDE, highlight=False)
    with console.capture() as drawn:
        console.print(renderable)
    for line in drawn.get().splitlines():
        click.echo(line.rstrip())


def columns(names: Sequence[str], rows: Iterable[Sequence[object]]) -> RenderableType:
    """A plain table: headers and left-aligned columns, numbers to the right."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="dim", show_header=any(names))
    cells = [tuple(row) for row in rows]
    for index, name in enumerate(names):
        numeric = bool(cells) and all(isinstance(row[index], int | float) for row in cells)
        table.add_column(name, justify="right" if numeric else "left", overflow="fold")
    for row in cells:
        table.add_row(*(cell if isinstance(cell, Text) else Text(safe(cell)) for cell in row))
    return table


def state_text(state: str) -> Text:
    """A state in its colour."""
    from rich.text import Text

    return Text(state, style=_STYLES.get(state, ""))


def say(message: str) -> None:
    """For the person at the terminal; never part of the data."""
    click.echo(safe(message), err=True)


_STYLES = {
    "pending": "blue",
    "processing": "cyan",
    "scheduled": "magenta",
    "retrying": "yellow",
    "completed": "green",
    "failed": "red",
    "dead_letter": "bold red",
    "cancelled": "dim",
}


def _write(line: bytes) -> None:
    # Bytes, so that what is printed does not depend on the locale's encoding.
    click.echo(line)
