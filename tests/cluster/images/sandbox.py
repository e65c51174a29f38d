"""The sandbox image that holds a pod's namespaces: one static program of our own."""

from __future__ import annotations

import hashlib
from pathlib import Path

from tests.cluster.cache import cache_folder
from tests.cluster.commands import run
from tests.cluster.images.archive import write_image

_SOURCE = Path(__file__).parent.parent / "pause.c"


def build_pause() -> Path:
    """Compile the program once for each version of its source and return its path."""
    digest = hashlib.sha256(_SOURCE.read_bytes()).hexdigest()[:12]
    program = cache_folder("pause") / f"pause-{digest}"
    if not program.exists():
        part = program.with_suffix(".part")
        run(["gcc", "-static", "-Os", "-s", "-Wall", "-Werror", "-o", part, _SOURCE])
        part.replace(program)
    return program


def sandbox_archive(reference: str) -> Path:
    """The image under this name, as a docker-archive in the cache."""
    program = build_pause()
    archive = program.with_suffix(".tar")
    if not archive.exists():
        write_image(
            archive,
            reference,
            {"pause": program.read_bytes()},
            entrypoint=["/pause"],
            user="65535:65535",
        )
    return archive
