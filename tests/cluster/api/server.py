"""A private etcd and kube-apiserver on free loopback ports, with their own folder, stopped by pid."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import time
import urllib.request
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.commands import run
from tests.cluster.local.binaries import build_binaries
from tests.cluster.provider import find_helm, find_kubectl

ADMIN_TOKEN = "admin-of-a-private-test-server"
_START_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class ApiServer:
    """A running API server without nodes or controllers."""

    kubeconfig: Path
    port: int

    def kubectl(self, *arguments: str | Path, stdin: str | None = None) -> str:
        """Run kubectl as the administrator; raises CommandFailed with what it said."""
        command = [find_kubectl(), "--kubeconfig", str(self.kubeconfig), *map(str, arguments)]
        return run(command, stdin=stdin, timeout=60)

    def helm(self, *arguments: str | Path) -> str:
        """Run helm as the administrator; raises as `kubectl` does."""
        command: list[str | Path] = [find_helm(), "--kubeconfig", self.kubeconfig, *arguments]
        return run(command, timeout=120)


@contextlib.contextmanager
def api_server(folder: Path) -> Generator[ApiServer, None, None]:
    """Start both, wait until ready, stop both."""
    binaries = build_binaries(["etcd", "kube-apiserver"])
    etcd_port, peer_port, port = (_free_port() for _ in range(3))
    with contextlib.ExitStack() as stack:
        etcd = [
            binaries / "etcd",
            f"--data-dir={folder / 'etcd'}",
            f"--listen-client-urls=http://127.0.0.1:{etcd_port}",
            f"--advertise-client-urls=http://127.0.0.1:{etcd_port}",
            f"--listen-peer-urls=http://127.0.0.1:{peer_port}",
            "--unsafe-no-fsync",
            "--log-level=error",
        ]
        stack.enter_context(_process(etcd, folder / "etcd.log"))
        key = folder / "service-accounts.key"
        run(["openssl", "genrsa", "-out", key, "2048"])
        tokens = folder / "tokens.csv"
        tokens.write_text(f'{ADMIN_TOKEN},admin,admin,"system:masters"\n')
        apiserver = [
            binaries / "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{etcd_port}",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--cert-dir={folder / 'certificates'}",
            "--authorization-mode=RBAC",
            f"--token-auth-file={tokens}",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--service-cluster-ip-range=10.96.0.0/16",
            # Needs the controller manager, which does not run here.
            "--disable-admission-plugins=ServiceAccount",
        ]
        stack.enter_context(_process(apiserver, folder / "kube-apiserver.log"))
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(json.dumps(_kubeconfig(port)))
        _wait_ready(port, folder / "kube-apiserver.log")
        yield ApiServer(kubeconfig, port)


@contextlib.contextmanager
def _process(command: list[str | Path], log: Path) -> Generator[None, None, None]:
    with log.open("w") as out:
        process = subprocess.Popen(
            [str(word) for word in command], stdin=subprocess.DEVNULL, stdout=out, stderr=out
        )
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_ready(port: int, log: Path) -> None:
    import ssl

    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    deadline = time.monotonic() + _START_SECONDS
    while True:
        # The URL is our own server's.
        request = urllib.request.Request(f"https://127.0.0.1:{port}/readyz")
        try:
            with urllib.request.urlopen(request, context=context, timeout=2):  # noqa: S310
                return
        except OSError as error:
            if time.monotonic() > deadline:
                tail = "\n".join(log.read_text().splitlines()[-20:])
                raise RuntimeError(f"kube-apiserver is not ready: {error}\n{tail}") from error
            time.sleep(0.1)  # a poll with a deadline; there is nothing to wait on


def _kubeconfig(port: int) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": "test",
                "cluster": {
                    "server": f"https://127.0.0.1:{port}",
                    "insecure-skip-tls-verify": True,
                },
            }
        ],
        "users": [{"name": "admin", "user": {"token": ADMIN_TOKEN}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin"}}],
        "current-context": "test",
    }


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
