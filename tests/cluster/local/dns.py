"""Cluster DNS: CoreDNS on the node, at the address that the kubelet tells every pod."""

from __future__ import annotations

import urllib.request
from pathlib import Path

from tests.cluster.local.addresses import DOMAIN, node_address
from tests.cluster.local.credentials import Credentials
from tests.cluster.local.node import Node
from tests.cluster.local.templates import write_filled
from tests.cluster.waiting import eventually


class ClusterDns:
    """Starts CoreDNS and knows when it answers."""

    def __init__(self, node: Node, binaries: Path, folder: Path, subnet: int) -> None:
        self._node = node
        self._binaries = binaries
        self._folder = folder
        self._address = node_address(subnet)

    def start(self, credentials: Credentials) -> None:
        """Start it; it waits by itself until the API server has told it all Services."""
        config = write_filled("Corefile", self._folder / "Corefile", address=self._address,
                              domain=DOMAIN, kubeconfig=credentials.kubeconfig("dns"))  # fmt: skip
        self._node.start("coredns", [self._binaries / "coredns", "-conf", config])

    def wait(self) -> None:
        """Return once it knows the cluster's Services."""

        def ready() -> bool:
            self._node.require_running()
            try:
                with urllib.request.urlopen(f"http://{self._address}:8181/ready", timeout=5):
                    return True
            except OSError:
                return False

        eventually(
            ready,
            seconds=60,
            what="cluster DNS",
            detail=lambda: self._node.log_tail("coredns"),
        )
