"""The statements of this backend, by the names of their files in `sql/`."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def load_queries() -> Mapping[str, str]:
    """Every `sql/NAME.sql` as NAME -> text."""
    return {
        entry.name.removesuffix(".sql"): entry.read_text("utf-8")
        for entry in resources.files("runnerq.storage.sqlite").joinpath("sql").iterdir()
        if entry.name.endswith(".sql")
    }
