"""Fetches the wheels that an image installs, for builds that reach no package index.

The files are those of the hash-locked requirement lists and nothing else; the machine's own pip
settings say where they come from.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.cluster.cache import cache_folder, locked
from tests.cluster.commands import follow
from tests.cluster.stages import Stages

PYTHON_OF_THE_IMAGES = "3.11"


def wheelhouse(requirements: Sequence[Path], stages: Stages) -> Path:
    """Return a folder with the wheels of all these lists; downloads only when a list is new.

    Raises:
        CommandFailed: pip could not have one, or its hash differs.
    """
    folder = cache_folder("wheels")
    with locked("wheels"):
        for listed in requirements:
            digest = hashlib.sha256(listed.read_bytes()).hexdigest()[:16]
            done = folder / f".{listed.stem}-{digest}"
            if not done.exists():
                with stages.stage(f"wheels of {listed.name}"):
                    _download(listed, folder, stages)
                done.touch()
    return folder


def pinned(name: str, listed: Path) -> str:
    """The lines of one package in a requirement list, hashes included.

    Raises:
        ValueError: the list does not have it.
    """
    lines = listed.read_text().splitlines()
    for number, line in enumerate(lines):
        if line.startswith(f"{name}=="):
            end = number
            while lines[end].endswith("\\"):
                end += 1
            return "\n".join(lines[number : end + 1]) + "\n"
    raise ValueError(f"{listed} does not pin {name}; run requirements/update.sh")


def _download(listed: Path, folder: Path, stages: Stages) -> None:
    follow(
        [sys.executable, "-m", "pip", "download", "--require-hashes", "--no-deps",
         "--only-binary=:all:", f"--python-version={PYTHON_OF_THE_IMAGES}",
         "--dest", folder, "-r", listed],
        stages.note,
    )  # fmt: skip
