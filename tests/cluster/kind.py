"""A cluster made by kind, where Docker runs and kind can have its node image."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from string import Template

from tests.cluster.audit import AuditEvent, parse_events
from tests.cluster.cache import cache_folder
from tests.cluster.commands import CommandFailed, follow, run
from tests.cluster.provider import Cluster, ClusterFailed
from tests.cluster.stages import Stages

IMAGE_VARIABLE = "RUNNERQ_TEST_KIND_IMAGE"
_HERE = Path(__file__).parent
_AUDIT_LOG = "/var/log/kubernetes/audit.log"


class KindCluster(Cluster):
    """One node in a container; the name is kind's own, with `runnerq-` before it."""

    provider = "kind"

    def __init__(self, name: str) -> None:
        self._name = f"runnerq-{name}"
        self._folder = cache_folder("kind", name)
        self.kubeconfig = self._folder / "kubeconfig"

    @staticmethod
    def missing() -> str | None:
        """Why kind cannot be used here; None when it can be tried."""
        for program in ("docker", "kind"):
            if shutil.which(program) is None:
                return f"{program} is not on PATH"
        try:
            run(["docker", "info"], timeout=20)
        except (CommandFailed, subprocess.TimeoutExpired):
            return "`docker info` fails: the daemon does not run or you may not use it"
        return None

    def up(self, stages: Stages) -> None:
        """Create the cluster, or find it running.

        Raises:
            ClusterFailed: kind could not, for instance because its node image cannot be had.
        """
        if self.running():
            return
        config = self._folder / "kind.yaml"
        policy = _HERE / "audit-policy.yaml"
        config.write_text(Template((_HERE / "kind.yaml").read_text()).substitute(policy=policy))
        command = ["kind", "create", "cluster", "--name", self._name, "--wait", "120s"]
        command += ["--kubeconfig", str(self.kubeconfig), "--config", str(config)]
        image = os.environ.get(IMAGE_VARIABLE)
        if image:
            command += ["--image", image]
        with stages.stage("kind cluster"):
            try:
                follow(command, stages.note)
            except CommandFailed as error:
                raise ClusterFailed(str(error)) from error

    def running(self) -> bool:
        """Whether kind knows it and its API server answers."""
        if self._name not in run(["kind", "get", "clusters"]).split():
            return False
        if not self.kubeconfig.exists():
            self.kubeconfig.write_text(run(["kind", "get", "kubeconfig", "--name", self._name]))
        try:
            self.kubectl("get", "--raw", "/readyz", timeout=10)
        except (CommandFailed, subprocess.TimeoutExpired):
            return False
        return True

    def load_image(self, archive: Path, reference: str) -> None:
        run(["kind", "load", "image-archive", archive, "--name", self._name], timeout=600)

    def audit_events(self) -> list[AuditEvent]:
        log = run(["docker", "exec", f"{self._name}-control-plane", "cat", _AUDIT_LOG])
        return parse_events(log.splitlines(keepends=True))

    def down(self) -> None:
        run(["kind", "delete", "cluster", "--name", self._name], timeout=300)
        shutil.rmtree(self._folder)
