"""What must be known to remove a cluster, written down before it is made.

One JSON file per cluster in the cache, so that `down` works from another process, after a half
failed `up`, and after everything was killed. It holds only what teardown needs.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.cluster.cache import cache_folder


@dataclass(frozen=True, slots=True)
class ProcessMark:
    """A process and the moment it started (clock ticks since boot): a number that was given to
    another process since can be told from it."""

    pid: int
    started: int


@dataclass(slots=True)
class ClusterState:
    """Everything on this machine that belongs to one cluster.

    Attributes:
        name: which cluster; `default` is the one that tests share.
        folder: all its files.
        cgroup: name of its folder under each cgroup hierarchy.
        link: the machine's end of the pair of links.
        subnet: third number of 10.213.x.0/30, the addresses of that pair.
        sysctls: kernel settings as they were before the kubelet changed them.
        holder: the process that keeps the node's namespaces open.
        launcher: its parent outside.
        owner: the process that it must not outlive; None for one that was started by hand.
        ready: whether `up` came to its end.
        images: name of each loaded image and the identity of its content.
    """

    name: str
    folder: str
    cgroup: str
    link: str
    subnet: int
    sysctls: dict[str, str] = field(default_factory=dict[str, str])
    holder: ProcessMark | None = None
    launcher: ProcessMark | None = None
    owner: ProcessMark | None = None
    ready: bool = False
    images: dict[str, str] = field(default_factory=dict[str, str])

    def save(self) -> None:
        """Write it down; a reader sees the old state or the new one, never half of it."""
        path = state_path(self.name)
        part = path.with_suffix(".part")
        part.write_text(json.dumps(asdict(self), indent=1))
        part.replace(path)

    def forget(self) -> None:
        """Remove the file: nothing of the cluster is left."""
        state_path(self.name).unlink(missing_ok=True)


def state_path(name: str) -> Path:
    """Where the state of the cluster of this name is."""
    return cache_folder("clusters") / f"{name}.json"


def load_state(name: str) -> ClusterState | None:
    """Read a cluster's state; None when there is none of that name."""
    try:
        raw: dict[str, Any] = json.loads(state_path(name).read_text())
    except FileNotFoundError:
        return None
    for key in ("holder", "launcher", "owner"):
        if raw.get(key) is not None:
            raw[key] = ProcessMark(**raw[key])
    return ClusterState(**raw)


def known_names() -> list[str]:
    """Names of all clusters that were started and not removed."""
    return sorted(path.stem for path in cache_folder("clusters").glob("*.json"))
