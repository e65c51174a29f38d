"""A cluster that somebody else runs: RUNNERQ_TEST_KUBECONFIG names its kubeconfig.

Nothing is started or stopped. Images and the audit log are reached in the way that the
environment says, since only its owner knows how.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from tests.cluster.audit import AuditEvent, parse_events
from tests.cluster.commands import run
from tests.cluster.provider import Cluster, ClusterFailed

KUBECONFIG_VARIABLE = "RUNNERQ_TEST_KUBECONFIG"
LOAD_VARIABLE = "RUNNERQ_TEST_LOAD_IMAGE"
AUDIT_VARIABLE = "RUNNERQ_TEST_AUDIT_LOG"


class GivenCluster(Cluster):
    """The cluster of a kubeconfig."""

    provider = "given"

    def __init__(self, kubeconfig: Path) -> None:
        if not kubeconfig.is_file():
            raise ClusterFailed(f"{KUBECONFIG_VARIABLE}={kubeconfig}: there is no such file")
        self.kubeconfig = kubeconfig

    def load_image(self, archive: Path, reference: str) -> None:
        command = os.environ.get(LOAD_VARIABLE)
        if not command:
            raise ClusterFailed(
                f"{reference} must get onto the nodes of the given cluster: set {LOAD_VARIABLE} "
                "to a command that does it, with {archive} and {image} where they belong, e.g. "
                "'minikube image load {archive}'"
            )
        words = shlex.split(command)
        run([word.format(archive=archive, image=reference) for word in words], timeout=600)

    def audit_events(self) -> list[AuditEvent]:
        path = os.environ.get(AUDIT_VARIABLE)
        if not path:
            raise ClusterFailed(
                f"this test reads the API server's audit log: set {AUDIT_VARIABLE} to its path "
                "(its policy is tests/cluster/audit-policy.yaml)"
            )
        with Path(path).open() as lines:
            return parse_events(lines)

    def down(self) -> None:
        """A given cluster is left as it is."""
