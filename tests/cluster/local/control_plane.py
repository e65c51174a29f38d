"""etcd, the API server, the controller manager and the scheduler, inside the node."""

from __future__ import annotations

import ssl
import urllib.request
from pathlib import Path

from tests.cluster.local.addresses import DOMAIN, PODS, SERVICES, node_address
from tests.cluster.local.credentials import Credentials
from tests.cluster.local.node import Node
from tests.cluster.waiting import eventually

AUDIT_POLICY = Path(__file__).parent.parent / "audit-policy.yaml"
AUDIT_LOG = "audit.log"
_ETCD = "http://127.0.0.1:2379"


class ControlPlane:
    """Starts the four programs and knows when they answer."""

    def __init__(
        self, node: Node, binaries: Path, folder: Path, credentials: Credentials, subnet: int
    ) -> None:
        self._node = node
        self._binaries = binaries
        self._folder = folder
        self._credentials = credentials
        self._address = node_address(subnet)

    def start_api(self) -> None:
        """Start etcd and the API server, which waits for it by itself."""
        self._node.start(
            "etcd",
            [
                self._binaries / "etcd",
                f"--data-dir={self._folder / 'etcd'}",
                f"--listen-client-urls={_ETCD}",
                f"--advertise-client-urls={_ETCD}",
                "--listen-peer-urls=http://127.0.0.1:2380",
                "--unsafe-no-fsync",  # nothing in here outlives the machine
                "--log-level=warn",
            ],
        )
        made = self._credentials
        self._node.start(
            "kube-apiserver",
            [
                self._binaries / "kube-apiserver",
                f"--etcd-servers={_ETCD}",
                "--bind-address=0.0.0.0",
                f"--advertise-address={self._address}",  # where 10.96.0.1 leads to
                "--secure-port=6443",
                f"--service-cluster-ip-range={SERVICES}",
                f"--client-ca-file={made.authority}",
                f"--tls-cert-file={made.certificate('apiserver')}",
                f"--tls-private-key-file={made.key('apiserver')}",
                f"--token-auth-file={made.tokens}",
                "--authorization-mode=Node,RBAC",
                "--enable-admission-plugins=NodeRestriction",
                f"--service-account-issuer=https://kubernetes.default.svc.{DOMAIN}",
                f"--service-account-key-file={made.folder / 'service-accounts.pub'}",
                f"--service-account-signing-key-file={made.key('service-accounts')}",
                f"--kubelet-client-certificate={made.certificate('kubelet-client')}",
                f"--kubelet-client-key={made.key('kubelet-client')}",
                "--kubelet-preferred-address-types=InternalIP",
                "--allow-privileged=true",
                f"--audit-policy-file={AUDIT_POLICY}",
                f"--audit-log-path={self._folder / AUDIT_LOG}",
                "--audit-log-mode=blocking",  # an answered request is in the log
                "--profiling=false",
            ],
        )

    def start_controllers(self) -> None:
        """Start the controller manager and the scheduler; the API server must be ready."""
        made = self._credentials
        self._node.start(
            "kube-controller-manager",
            [
                self._binaries / "kube-controller-manager",
                f"--kubeconfig={made.kubeconfig('controller-manager')}",
                "--bind-address=127.0.0.1",
                "--leader-elect=false",
                "--use-service-account-credentials",
                # It makes some forty accounts before it starts; its usual limit takes 4 s for that.
                "--kube-api-qps=500",
                "--kube-api-burst=500",
                f"--service-account-private-key-file={made.key('service-accounts')}",
                f"--root-ca-file={made.authority}",
                "--allocate-node-cidrs",
                f"--cluster-cidr={PODS}",
                f"--service-cluster-ip-range={SERVICES}",
            ],
        )
        self._node.start(
            "kube-scheduler",
            [
                self._binaries / "kube-scheduler",
                f"--kubeconfig={made.kubeconfig('scheduler')}",
                "--bind-address=127.0.0.1",
                "--leader-elect=false",
            ],
        )

    def wait_for_api(self) -> None:
        """Return once the API server says that it is ready, seen from the machine."""
        trust = ssl.create_default_context(cafile=str(self._credentials.authority))
        url = f"https://{self._address}:6443/readyz"

        def ready() -> bool:
            self._node.require_running()
            try:
                with urllib.request.urlopen(url, context=trust, timeout=5) as answer:
                    return answer.status == 200
            except OSError:
                return False  # not listening yet, or one of its checks is not done

        eventually(
            ready,
            seconds=120,
            what="the API server",
            detail=lambda: self._node.log_tail("kube-apiserver"),
        )
