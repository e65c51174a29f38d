"""The Debian packages that a node and the image builds need."""

from __future__ import annotations

import os
import shutil

from tests.cluster.commands import MissingProgram, require, run

INSTALL_COMMAND = "python -m tests.cluster install-packages"

# Each program that is called, and the package that has it.
_PROGRAMS = {
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "nft": "nftables",
    "conntrack": "conntrack",
    "buildah": "buildah",
    "debootstrap": "debootstrap",
    "ip": "iproute2",
    "iptables": "iptables",
    "mount": "mount",
    "nsenter": "util-linux",
    "openssl": "openssl",
    "gcc": "gcc",
}
CNI_PLUGINS = "/usr/lib/cni"
_WITHOUT_PROGRAM = ["containernetworking-plugins", "libc6-dev", "ca-certificates", "netbase"]


def require_packages() -> None:
    """Raise MissingProgram, with the command that helps, unless everything is there."""
    require(list(_PROGRAMS), install=INSTALL_COMMAND)
    if not os.access(f"{CNI_PLUGINS}/ptp", os.X_OK):
        raise MissingProgram(f"no network plugins in {CNI_PLUGINS}; run `{INSTALL_COMMAND}`")


def install_packages() -> None:
    """Install what is missing with apt-get; needs root and asks nothing.

    Raises:
        MissingProgram: this is not a Debian-like machine.
        CommandFailed: with what apt-get said.
    """
    if shutil.which("apt-get") is None:
        names = sorted({*_PROGRAMS.values(), *_WITHOUT_PROGRAM})
        raise MissingProgram(f"no apt-get here; install these by hand: {', '.join(names)}")
    try:
        require_packages()
    except MissingProgram:
        quiet = {"DEBIAN_FRONTEND": "noninteractive"}
        names = sorted({*_PROGRAMS.values(), *_WITHOUT_PROGRAM})
        run(["apt-get", "update", "-q"], environment=quiet)
        run(
            ["apt-get", "install", "-y", "-q", "--no-install-recommends", *names],
            environment=quiet,
        )
        require_packages()
