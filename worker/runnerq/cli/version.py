"""`runnerq version`: what is installed here."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of
from typing import TYPE_CHECKING

import click

from runnerq.cli.options import FORMATS, output_option
from runnerq.cli.output import columns, emit_one

if TYPE_CHECKING:
    from runnerq.documents import Document

# What an extra brings, by the package it cannot do without.
EXTRAS = {
    "postgres": "asyncpg",
    "console": "aiohttp",
    "metrics": "prometheus-client",
    "operator": "kopf",
}


@click.command()
@output_option(*FORMATS)
def version(output: str) -> None:
    """Show the versions of RunnerQ, of Python, and of what the extras need."""
    installed = _installed("runnerq")
    extras: dict[str, str | None] = {
        extra: _installed(package) for extra, package in EXTRAS.items()
    }
    document: Document = {
        "runnerq": installed or "unknown",
        "python": platform.python_version(),
        "extras": extras,
    }
    rows = [("runnerq", installed or "unknown"), ("python", platform.python_version())]
    rows += [
        (f"{extra} ({EXTRAS[extra]})", found or "not installed") for extra, found in extras.items()
    ]
    emit_one(document, output, name=installed or "unknown", table=lambda: columns(("", ""), rows))


def _installed(package: str) -> str | None:
    try:
        return version_of(package)
    except PackageNotFoundError:
        return None
