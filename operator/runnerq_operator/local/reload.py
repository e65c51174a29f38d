"""Watches the apps' code and the queue's file, and says when one of them changed.

Only finds and watches; what a change leads to is the session's business.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from importlib.machinery import PathFinder
from pathlib import Path

from runnerq.errors import ConfigurationError
from runnerq_operator.model.pool import PoolEntry


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


async def watch_file(path: Path, changed: Callable[[], None]) -> None:
    """Call `changed` whenever the file (an absolute path) changes, also when an editor puts a new one
    in its place."""
    from watchfiles import awatch  # pyright: ignore[reportUnknownVariableType]

    async for changes in awatch(path.parent, recursive=False):
        if any(Path(changed_path) == path for _, changed_path in changes):
            changed()
