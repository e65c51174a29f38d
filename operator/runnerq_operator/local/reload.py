"""Watches the apps' code and the queue's file, and says when one of them changed.

Only finds and watches; what a change leads to is the session's business.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterable
from importlib.machinery import PathFinder
from pathlib import Path

from runnerq.errors import ConfigurationError
from runnerq_operator.model.pool import PoolEntry

Version = tuple[int, int, int] | None
_LOOK_SECONDS = 0.3


def code_of(pools: Iterable[PoolEntry], *, working_folder: Path) -> list[Path]:
    """The files and folders that the pools' apps are in. Nothing is imported.

    Raises ConfigurationError for an app that cannot be found: a worker would only crash.
    """
    search = [str(working_folder), *sys.path]
    found: set[Path] = set()
    for index, pool in enumerate(pools):
        for part in pool.app.split(","):
            top = part.partition(":")[0].partition(".")[0]
            spec = PathFinder.find_spec(top, search)
            if spec is None:
                raise ConfigurationError(
                    f"there is no module {top!r} in {working_folder} or on PYTHONPATH; start from the "
                    "project's folder, or set PYTHONPATH",
                    field=f"spec.pools[{index}].app",
                )
            if spec.submodule_search_locations:
                found |= {Path(location) for location in spec.submodule_search_locations}
            elif spec.origin is not None:
                found.add(Path(spec.origin))
    return sorted(path for path in found if "site-packages" not in path.parts)


async def watch_code(paths: Iterable[Path], changed: Callable[[str], None]) -> None:
    """Call `changed` with the name of a file whenever Python code below the paths changes."""
    from watchfiles import PythonFilter, awatch  # pyright: ignore[reportUnknownVariableType]

    async for changes in awatch(*paths, watch_filter=PythonFilter()):
        changed(Path(min(path for _, path in changes)).name)


async def watch_file(path: Path, seen: Version, changed: Callable[[], None]) -> None:
    """Call `changed` whenever the file is no longer the `seen` one, also when an editor puts a new one
    in its place. By looking: a single file costs nothing, and no change before we began is missed."""
    while True:
        await asyncio.sleep(_LOOK_SECONDS)
        now = version_of(path)
        if now != seen:
            seen = now
            changed()


def version_of(path: Path) -> Version:
    """Differs when the file does; None while it is not there."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
