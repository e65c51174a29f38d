"""The node's namespaces: made once, entered to start programs, gone with the one process.

The process that holds them is the node's process 1, so whatever was left behind in the node is
its child and ends when it is killed; mounts, links and packet-filter rules end with it as well.

    machine --pair of links-- node (mount, network, process, host-name and IPC namespaces of its own)
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from tests.cluster.commands import Argument, run
from tests.cluster.local import processes
from tests.cluster.local.addresses import NODE, machine_address, node_address
from tests.cluster.local.state import ClusterState
from tests.cluster.waiting import eventually

# What the node may not share with the machine: sockets and named network namespaces in /run, the
# network plugins' books in /var/lib, pods' logs in /var/log. Mounts in the node are shared among
# its own pods (the kubelet needs that) and never reach the machine.
_OWN_FOLDERS = """
set -eu
mount --make-rprivate /
mount --make-rshared /
mount -t tmpfs -o mode=755 node-run /run
mkdir -p "$1/var-lib" "$1/var-log"
mount --bind "$1/var-lib" /var/lib
mount --bind "$1/var-log" /var/log
hostname "$2"
"""


class ProgramEnded(RuntimeError):
    """A program of the node ended although it should stay; the message has its last words."""


class Node:
    """The namespaces of one cluster's node."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._folder = Path(state.folder)
        self._started: dict[str, int] = {}
        self.logs = self._folder / "logs"

    def open(self, pause: Path) -> None:
        """Make the namespaces and the links; `pause` is the program that holds them open."""
        for mounted_over in ("/var/lib", "/var/log", "/run"):
            if self._folder.is_relative_to(mounted_over) or pause.is_relative_to(mounted_over):
                raise RuntimeError(
                    f"the node hides {mounted_over}; set TMPDIR and RUNNERQ_CLUSTER_CACHE "
                    "to folders outside of it"
                )
        self.logs.mkdir()
        launch = [
            "unshare", "--fork", "--kill-child", "--pid", "--mount-proc", "--mount", "--net",
            "--uts", "--ipc", "--", pause, self._folder,
        ]  # fmt: skip
        pid = int(run(["sh", "-c", _in_background(launch, self.logs / "node.log")]))
        self._state.launcher = processes.mark(pid)
        self._state.save()
        holder = eventually(
            lambda: next(iter(processes.children(pid)), None),
            seconds=10,
            what="the node's process 1",
        )
        self._state.holder = processes.mark(holder)
        self._state.save()
        # unshare mounts the node's own /proc and only then becomes the program: wait for that.
        eventually(
            lambda: Path(f"/proc/{holder}/cmdline").read_bytes().startswith(bytes(pause)),
            seconds=10,
            what="the node's namespaces",
        )
        self.run(["sh", "-c", _OWN_FOLDERS, "sh", self._folder, NODE])
        self._link(holder)

    def _link(self, holder: int) -> None:
        link, subnet = self._state.link, self._state.subnet
        peer = ["peer", "name", "eth0", "netns", str(holder)]
        run(["ip", "link", "add", link, "type", "veth", *peer])
        run(["ip", "address", "add", f"{machine_address(subnet)}/30", "dev", link])
        run(["ip", "link", "set", link, "up"])
        self.run(["ip", "address", "add", f"{node_address(subnet)}/30", "dev", "eth0"])
        self.run(["ip", "link", "set", "eth0", "up"])
        self.run(["ip", "link", "set", "lo", "up"])
        self.run(["ip", "route", "add", "default", "via", machine_address(subnet)])
        self.run(["sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"])

    def command(self, command: Sequence[Argument]) -> list[str]:
        """The command line that runs this command inside the node."""
        if not processes.alive(self._state.holder):
            raise RuntimeError(f"the node of cluster {self._state.name} has ended")
        assert self._state.holder is not None
        enter = ["nsenter", "--target", str(self._state.holder.pid)]
        enter += ["--mount", "--net", "--pid", "--uts", "--ipc", "--"]
        return [*enter, *(str(word) for word in command)]

    def run(self, command: Sequence[Argument], *, timeout: float | None = 60) -> str:
        """Run a command inside the node to its end and return its stdout."""
        return run(self.command(command), timeout=timeout)

    def start(self, name: str, command: Sequence[Argument]) -> None:
        """Start a program that stays, as a child of the node; its log is `logs/<name>.log`."""
        # Once the shell has ended, the program belongs to the node's process 1.
        pid = self.run(["sh", "-c", _in_background(command, self.logs / f"{name}.log")])
        self._started[name] = int(pid)

    def require_running(self) -> None:
        """Raise ProgramEnded, with the end of its log, when a started program has ended."""
        holder = self._state.holder
        assert holder is not None
        running = {processes.pid_inside(pid) for pid in processes.children(holder.pid)}
        for name, pid in self._started.items():
            if pid not in running:
                raise ProgramEnded(f"{name} has ended:\n{self.log_tail(name)}")

    def log_tail(self, name: str, lines: int = 15) -> str:
        """The end of a program's log, for error messages."""
        path = self.logs / f"{name}.log"
        if not path.exists():
            return "(no log)"
        return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])


def _in_background(command: Sequence[Argument], log: Path) -> str:
    """Shell words that start a command in a session of its own and print its process id."""
    words = shlex.join(str(word) for word in command)
    return f"setsid {words} >{shlex.quote(str(log))} 2>&1 </dev/null & echo $!"
