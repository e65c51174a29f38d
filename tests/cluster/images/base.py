"""A base image like the public `python:3.11-slim`, for machines that reach no registry.

Made with debootstrap from the packages that the machine's own apt is configured for, and kept as
a tar of the root file system. Tests only: the published images start from the public one.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from tests.cluster.cache import cache_folder, locked
from tests.cluster.commands import follow, run
from tests.cluster.stages import Stages

BASE_IMAGE = "python:3.11-slim"
_SUITE = "bookworm"  # its Python is 3.11
_PACKAGES = "python3,python3-venv,python3-pip,ca-certificates,netbase,tzdata"
_VERSION = "1"  # part of the cached file's name: raise it when this module changes the content

# What debootstrap leaves and nobody in a container reads.
_UNUSED = (
    "var/cache/apt/*", "var/lib/apt/lists/*", "var/log/*", "usr/share/doc/*", "usr/share/man/*",
    "usr/share/locale/*", "usr/share/info/*", "dev/*",
    # Debian forbids pip outside of a virtual environment; the public image does not.
    "usr/lib/python3*/EXTERNALLY-MANAGED",
)  # fmt: skip


def base_filesystem(stages: Stages) -> Path:
    """Return the tar of the root file system; the first call makes it in one to two minutes."""
    target = cache_folder("images") / f"base-{_SUITE}-{_VERSION}.tar"
    with locked("base-image"):
        if not target.exists():
            with stages.stage("base image (made on the first run)"):
                _make(target, stages)
    return target


def _make(target: Path, stages: Stages) -> None:
    folder = Path(tempfile.mkdtemp(prefix="base-", dir=cache_folder("images")))
    try:
        root = folder / "root"
        # In a mount namespace of its own: whatever it mounts is gone when it ends, also if killed.
        follow(
            ["unshare", "--mount", "--", "debootstrap", "--variant=minbase",
             f"--include={_PACKAGES}", _SUITE, root, *_mirror()],
            stages.note,
            environment={"DEBIAN_FRONTEND": "noninteractive"},
        )  # fmt: skip
        for pattern in _UNUSED:
            for path in root.glob(pattern):
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                else:
                    path.unlink()
        # The names that the public image has.
        for name in ("python", "python3"):
            (root / "usr/local/bin" / name).symlink_to("/usr/bin/python3.11")
        part = folder / "root.tar"
        run(["tar", "--numeric-owner", "--sort=name", "--mtime=@0", "-C", root, "-cf", part, "."])
        part.replace(target)
    finally:
        shutil.rmtree(folder)


def _mirror() -> list[str]:
    """Where this machine's apt gets the suite from; empty for debootstrap's own default."""
    if shutil.which("apt-get") is None:
        return []
    indexes = run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI)", f"Codename: {_SUITE}",
         "Component: main", "Created-By: Packages"],
    ).split()  # fmt: skip
    return indexes[:1]


def require_root() -> None:
    """Raise PermissionError unless this process may make file systems and mounts."""
    if os.geteuid() != 0:
        raise PermissionError("images are made as root where no registry can be reached")
