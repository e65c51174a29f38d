"""The operator as the chart installs it, and who of its two replicas leads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.cluster.audit import AuditEvent
from tests.cluster.provider import Cluster

CHART = Path(__file__).parents[3] / "charts" / "runnerq"
RELEASE = "runnerq"
NAMESPACE = "runnerq-system"


@dataclass(frozen=True, slots=True)
class Installation:
    """A release in a cluster."""

    cluster: Cluster
    since: datetime = field(default_factory=lambda: datetime.now(UTC))
    """When it was made; a cluster that is kept has a longer memory."""

    def install(self, image: str, values: Mapping[str, Any] | None = None) -> None:
        """Install or upgrade, and wait until every replica is there."""
        repository, _, tag = image.rpartition(":")
        chosen = {"image": {"repository": repository, "tag": tag}, **(values or {})}
        self.cluster.helm(
            *("upgrade", "--install", RELEASE, CHART),
            *("--namespace", NAMESPACE, "--create-namespace"),
            *("--set-json", f"image={json.dumps(chosen.pop('image'))}"),
            *[word for name, value in chosen.items() for word in _set(name, value)],
        )
        self.cluster.kubectl(
            "label", "namespace", NAMESPACE, "pod-security.kubernetes.io/enforce=restricted"
        )
        # The one difference to what users get: processes of a pod see each other, so that a test
        # can kill the operator's from a shell beside it; the first process of a container is immune.
        patch = {"spec": {"template": {"spec": {"shareProcessNamespace": True}}}}
        self.kubectl("patch", "deployment", RELEASE, "--patch", json.dumps(patch))
        self.kubectl("rollout", "status", f"deployment/{RELEASE}", "--timeout=120s")

    def remove(self) -> None:
        """Uninstall the release; the CRDs are kept, as for users. The Lease would be left behind."""
        self.cluster.helm("uninstall", RELEASE, "--namespace", NAMESPACE)
        self.kubectl("delete", "lease", RELEASE, "--ignore-not-found")

    def kubectl(self, *arguments: str) -> str:
        return self.cluster.kubectl("-n", NAMESPACE, *arguments)

    def holder(self) -> str:
        """Who holds the Lease, as it calls itself; "" = nobody."""
        lease = self.cluster.get("-n", NAMESPACE, "lease", RELEASE)
        return lease["spec"].get("holderIdentity") or ""

    def leader(self) -> str:
        """Name of the pod that holds the Lease; "" = none."""
        return self.holder().rpartition("_")[0]

    def pods(self) -> list[str]:
        """Names of the operator's pods."""
        items = self.cluster.get("-n", NAMESPACE, "pods")["items"]
        return [item["metadata"]["name"] for item in items]

    def logs(self) -> str:
        """What every replica has said, also before it was restarted."""
        return "\n".join(
            f"--- {name}\n{self.kubectl('logs', name, '--tail=200')}" for name in self.pods()
        )

    def kill_leader(self) -> str:
        """kill -9 of the leading process; the identity that it had."""
        holder = self.holder()
        kill = (
            "import os, pathlib, signal\n"
            "for p in pathlib.Path('/proc').glob('[0-9]*/cmdline'):\n"
            "    words = p.read_bytes().split(bytes(1))\n"
            "    if b'operator' in words and int(p.parent.name) != os.getpid():\n"
            "        os.kill(int(p.parent.name), signal.SIGKILL)\n"
        )
        self.kubectl("exec", self.leader(), "--", "python", "-c", kill)
        return holder

    @property
    def user(self) -> str:
        """The operator as the audit log calls it."""
        return f"system:serviceaccount:{NAMESPACE}:{RELEASE}"

    def requests(self) -> list[AuditEvent]:
        """Everything that this installation asked of the API server, oldest first."""
        events = self.cluster.audit_events()
        return [each for each in events if each.user == self.user and each.at >= self.since]

    def granted(self) -> set[tuple[str, str, str]]:
        """(group, resource, verb) of everything that its roles allow."""
        cluster_role = self.cluster.get("clusterrole", RELEASE)
        lease_role = self.cluster.get("-n", NAMESPACE, "role", f"{RELEASE}-lease")
        return {
            (group, resource, verb)
            for role in (cluster_role, lease_role)
            for rule in role["rules"]
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
        }


def _set(name: str, value: Any) -> list[str]:
    return ["--set-json", f"{name}={json.dumps(value)}"]
