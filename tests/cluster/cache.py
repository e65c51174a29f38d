"""Where what is slow to make is kept between runs, and the lock that keeps two runs apart.

Everything in here can be deleted at any time; it is only slow to make again. Nothing else may
decide on a path below the cache.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


def cache_folder(*names: str) -> Path:
    """Return (and create) a folder of the cache: `RUNNERQ_CLUSTER_CACHE`, else the user's own."""
    given = os.environ.get("RUNNERQ_CLUSTER_CACHE")
    if given:
        root = Path(given)
    else:
        root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        root = root / "runnerq" / "cluster"
    folder = root.joinpath(*names)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def locked(name: str) -> Generator[None]:
    """Hold the named lock of the cache; another process that wants it waits.

    The file must stay: removing it would let two holders lock two different files.
    """
    path = cache_folder("locks") / name
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
