"""Removes a cluster from its written state alone; nothing of it stays behind.

It must work after a half failed `up`, after the processes were killed, and twice. Each step runs
even when another failed, and everything that stayed is named at the end.

    holder killed -> namespaces end (processes, mounts, links) -> cgroups -> settings -> folder -> state
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

from tests.cluster.commands import CommandFailed, run
from tests.cluster.local import processes
from tests.cluster.local.cgroups import cgroup_folders, removed
from tests.cluster.local.state import ClusterState, known_names
from tests.cluster.waiting import DeadlinePassed, eventually

SYSCTLS = Path("/proc/sys")

# The kubelet sets these for the whole machine.
CHANGED_BY_KUBELET = (
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
)


class LeftBehind(RuntimeError):
    """Something of a cluster could not be removed; the message names each thing."""


def read_sysctls() -> dict[str, str]:
    """The machine's settings that a kubelet changes, as they are now."""
    return {name: (SYSCTLS / name).read_text().strip() for name in CHANGED_BY_KUBELET}


def tear_down(state: ClusterState) -> None:
    """Remove everything that belongs to this cluster, then its state.

    Raises:
        LeftBehind: something stayed; the state stays too, so that it can be tried again.
    """
    problems: list[str] = []
    for step in (_end_processes, _remove_link, _remove_cgroups, _restore_sysctls, _remove_folder):
        try:
            step(state)
        except (OSError, CommandFailed, DeadlinePassed, LeftBehind) as error:
            problems.append(f"{step.__name__.strip('_').replace('_', ' ')}: {error}")
    if problems:
        raise LeftBehind(f"cluster {state.name}: " + "; ".join(problems))
    state.forget()


def _end_processes(state: ClusterState) -> None:
    # The kernel ends every process of the node together with the node's process 1.
    processes.kill(state.holder)
    processes.kill(state.launcher)
    for process in (state.holder, state.launcher):
        if process is not None:
            _until(lambda mark=process: not processes.alive(mark), f"the end of {process.pid}")


def _remove_link(state: ClusterState) -> None:
    # It goes by itself with the node's network namespace, unless that was never made.
    try:
        _until(lambda: state.link not in _links(), f"the end of link {state.link}", seconds=5)
    except DeadlinePassed:
        run(["ip", "link", "delete", state.link])


def _links() -> list[str]:
    return [link["ifname"] for link in json.loads(run(["ip", "-json", "link", "show"]))]


def _remove_cgroups(state: ClusterState) -> None:
    for top in cgroup_folders(state.cgroup):
        _until(lambda top=top: removed(top), f"the end of {top}", seconds=20)


def _restore_sysctls(state: ClusterState) -> None:
    if set(known_names()) - {state.name}:
        return  # another kubelet wants them as they are; the last cluster puts them back
    for name, value in state.sysctls.items():
        if (SYSCTLS / name).read_text().strip() != value:
            (SYSCTLS / name).write_text(value)


def _remove_folder(state: ClusterState) -> None:
    folder = Path(state.folder)
    mounted = mounts_below(folder)
    for path in sorted(mounted, key=len, reverse=True):
        run(["umount", path])
    if mounts_below(folder):
        raise LeftBehind(f"still mounted below {folder}: {mounts_below(folder)}")
    if folder.exists():
        shutil.rmtree(folder)


def mounts_below(folder: Path) -> list[str]:
    """Mount points of this machine at or below the folder."""
    points = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return [point for point in points if Path(point).is_relative_to(folder)]


def _until(probe: Callable[[], bool], what: str, *, seconds: float = 30) -> None:
    eventually(probe, seconds=seconds, what=what, every=0.05)
