"""What makes the node run pods: containerd, the kubelet and kube-proxy."""

from __future__ import annotations

from pathlib import Path

from tests.cluster.commands import CommandFailed, run
from tests.cluster.local.addresses import DOMAIN, NODE, NODE_PODS, PODS, node_address
from tests.cluster.local.credentials import Credentials
from tests.cluster.local.node import Node
from tests.cluster.local.packages import CNI_PLUGINS
from tests.cluster.local.state import ClusterState
from tests.cluster.local.templates import write_filled
from tests.cluster.waiting import eventually

SANDBOX_IMAGE = "localhost/runnerq-pause:1"


class Runtime:
    """Starts the three programs and loads images."""

    def __init__(self, node: Node, state: ClusterState) -> None:
        self._node = node
        self._state = state
        self._folder = Path(state.folder)

    def start_containerd(self) -> None:
        """Start containerd and return once it answers."""
        write_filled("pods.conflist", self._folder / "cni" / "10-pods.conflist",
                     folder=self._folder, node_pods=NODE_PODS)  # fmt: skip
        config = write_filled("containerd.toml", self._folder / "containerd.toml",
                              folder=self._folder, sandbox_image=SANDBOX_IMAGE,
                              cni_plugins=CNI_PLUGINS)  # fmt: skip
        self._node.start("containerd", ["containerd", "--config", config])

        def answers() -> bool:
            self._node.require_running()
            try:
                run(self._ctr("version"))
            except CommandFailed:
                return False
            return True

        eventually(
            answers,
            seconds=30,
            what="containerd",
            detail=lambda: self._node.log_tail("containerd"),
        )

    def load_image(self, archive: Path) -> None:
        """Import a docker-archive under the names that it carries, unpacked for the first pod."""
        run(self._ctr("images", "import", archive), timeout=300)

    def start_kubelet(self, binaries: Path, credentials: Credentials) -> None:
        """Start the kubelet and kube-proxy; the API server must be ready."""
        (self._folder / "resolv.conf").write_text("")
        config = write_filled("kubelet.yaml", self._folder / "kubelet.yaml", folder=self._folder,
                              authority=credentials.authority, cgroup=self._state.cgroup,
                              address=node_address(self._state.subnet), domain=DOMAIN)  # fmt: skip
        self._node.start(
            "kubelet",
            [
                binaries / "kubelet",
                f"--config={config}",
                f"--kubeconfig={credentials.kubeconfig('kubelet')}",
                f"--root-dir={self._folder / 'kubelet'}",
                f"--hostname-override={NODE}",
                f"--node-ip={node_address(self._state.subnet)}",
            ],
        )
        config = write_filled("kube-proxy.yaml", self._folder / "kube-proxy.yaml", pods=PODS,
                              kubeconfig=credentials.kubeconfig("proxy"))  # fmt: skip
        self._node.start(
            "kube-proxy",
            [binaries / "kube-proxy", f"--config={config}", f"--hostname-override={NODE}"],
        )

    def _ctr(self, *arguments: str | Path) -> list[str | Path]:
        # From the machine: the socket is a file, and containerd itself does the unpacking.
        socket = self._folder / "containerd.sock"
        return ["ctr", "--address", socket, "--namespace", "k8s.io", *arguments]
