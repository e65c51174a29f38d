"""Fills the configuration files beside it; a name that is missing is an error."""

from __future__ import annotations

from pathlib import Path
from string import Template

_FILES = Path(__file__).parent / "files"


def write_filled(name: str, target: Path, **values: object) -> Path:
    """Write `files/<name>` with its `$names` replaced to the target and return that."""
    filled = Template((_FILES / name).read_text()).substitute(
        {key: str(value) for key, value in values.items()}
    )
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(filled)
    return target
