"""The cluster's own folder in each cgroup hierarchy, of either version.

All pods' groups are below it, so that removing the cluster cannot touch anybody else's.
"""

from __future__ import annotations

from pathlib import Path

_MOUNTED = Path("/sys/fs/cgroup")


def make_cgroups(name: str) -> None:
    """Make the folder of this name in each hierarchy."""
    for hierarchy in _hierarchies():
        (hierarchy / name).mkdir(exist_ok=True)


def cgroup_folders(name: str) -> list[Path]:
    """The folders of this name that still exist."""
    return [hierarchy / name for hierarchy in _hierarchies() if (hierarchy / name).is_dir()]


def removed(top: Path) -> bool:
    """Remove the folder and all below it, from the leaves up; False while a process is in one."""
    if not top.exists():
        return True
    below = [path for path in top.rglob("*") if path.is_dir()]
    for folder in [*sorted(below, key=lambda path: -len(path.parts)), top]:
        try:
            folder.rmdir()
        except FileNotFoundError:
            continue
        except OSError:
            return False
    return True


def _hierarchies() -> list[Path]:
    if (_MOUNTED / "cgroup.controllers").exists():
        return [_MOUNTED]
    # Version 1 has one mount per controller; `cpu,cpuacct` style links would name one twice.
    return [path for path in sorted(_MOUNTED.iterdir()) if path.is_dir() and not path.is_symlink()]
