"""A namespace with a throw-away Postgres and an app's image, and what a test does in there.

Objects are plain JSON for kubectl. Nothing here waits for a length of time.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cluster.pods import container, pod, pod_spec
from tests.cluster.provider import Cluster
from tests.cluster.waiting import eventually

Manifest = dict[str, Any]

ROOT = Path(__file__).parents[3]
APP = Path(__file__).parent / "app"
DATABASE = "database"
"""Secret with the backend's address under `url`."""
_APP_VOLUME: Manifest = {"name": "e2e-app", "configMap": {"name": "e2e-app"}}
_APP_MOUNT = {"name": "e2e-app", "mountPath": "/app/e2e_app"}
_TMP_VOLUME: Manifest = {"name": "tmp", "emptyDir": {}}
_TMP_MOUNT = {"name": "tmp", "mountPath": "/tmp"}


@dataclass(frozen=True, slots=True)
class Place:
    """One namespace. `image` has the app's Python and the documentation index."""

    cluster: Cluster
    namespace: str
    image: str

    @property
    def url(self) -> str:
        """Of the database, from any pod of the cluster."""
        host = f"runnerq-postgres.{self.namespace}.svc"
        return f"postgresql://runnerq:throw-away@{host}:5432/runnerq"

    def prepare(self) -> None:
        """Start the database, put its address and the app into the namespace."""
        example = (ROOT / "examples" / "cluster" / "postgres.yaml").read_text()
        self.apply(
            example.replace("namespace: default", f"namespace: {self.namespace}").replace(
                ".default.svc", f".{self.namespace}.svc"
            )
        )
        self.write_secret(DATABASE, self.url)
        self.kubectl("create", "configmap", "e2e-app", *[f"--from-file={f}" for f in _app_files()])
        self.kubectl("rollout", "status", "deployment/runnerq-postgres", "--timeout=120s")

    def write_secret(self, name: str, url: str) -> None:
        """Make or change a Secret with the key `url`."""
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}}
        self.apply({**body, "stringData": {"url": url}})

    def kubectl(self, *arguments: str, timeout: float = 120) -> str:
        return self.cluster.kubectl("-n", self.namespace, *arguments, timeout=timeout)

    def apply(self, manifest: Manifest | str) -> str:
        text = manifest if isinstance(manifest, str) else json.dumps(manifest)
        return self.cluster.apply(text, "-n", self.namespace)

    def get(self, *arguments: str) -> Any:
        """One object or a list, parsed."""
        return self.cluster.get("-n", self.namespace, *arguments)

    def wait_ready(self, queue: str, *, seconds: int = 60) -> None:
        self.kubectl("wait", "--for=condition=Ready", f"rq/{queue}", f"--timeout={seconds}s")

    def replicas(self, deployment: str) -> int:
        return self.get("deployment", deployment)["spec"]["replicas"]

    def pods(self, queue: str, pool: str) -> list[Manifest]:
        """Pods of a pool that were not asked to stop."""
        labels = f"runnerq.dev/queue={queue},runnerq.dev/pool={pool}"
        items: list[Manifest] = self.get("pods", "-l", labels)["items"]
        return [one for one in items if "deletionTimestamp" not in one["metadata"]]

    def start(self, name: str, command: Sequence[str], *, queue: str) -> None:
        """Start a pod that reaches the queue through the SDK, as an app of the user would."""
        env = [
            {"name": "RUNNERQ_QUEUE", "value": queue},
            {"name": "RUNNERQ_POD_NAME", "value": name},
            {
                "name": "RUNNERQ_BACKEND_URL",
                "valueFrom": {"secretKeyRef": {"name": DATABASE, "key": "url"}},
            },
        ]
        main = container(self.image, command, env=env, volumeMounts=[_APP_MOUNT, _TMP_MOUNT])
        spec = pod_spec(
            main,
            restartPolicy="Never",
            automountServiceAccountToken=False,
            volumes=[_APP_VOLUME, _TMP_VOLUME],
        )
        self.apply(pod(name, spec))

    def logs(self, name: str) -> str:
        return self.kubectl("logs", name)

    def finished(self, name: str, *, seconds: float) -> str:
        """What the pod printed, once it ended; an AssertionError with it when it failed."""

        def phase() -> str | None:
            found: str = self.get("pod", name)["status"]["phase"]
            return found if found in ("Succeeded", "Failed") else None

        ended = eventually(
            phase,
            seconds=seconds,
            every=0.5,
            what=f"the end of pod {name}",
            detail=lambda: self.logs(name),
        )
        said = self.logs(name)
        assert ended == "Succeeded", said
        return said

    def drive(self, name: str, seconds: Sequence[float], *, queue: str) -> None:
        """Start a pod that enqueues one job for each length and awaits them all."""
        words = [str(each) for each in seconds]
        self.start(name, ["python", "-m", "e2e_app.driver", *words], queue=queue)

    def enqueued(self, name: str, *, seconds: float = 60) -> Manifest:
        """When (`enqueued_at`, by the clock that all pods of the node share) and which `ids`."""
        return eventually(
            lambda: next(iter(self._printed(name)), None),
            seconds=seconds,
            what=f"the enqueue of {name}",
        )

    def wait_running(self, pod_name: str, activity_id: str, *, seconds: float = 60) -> None:
        """Until this pod's handler runs the activity; its log is faster than any status."""
        eventually(
            lambda: f"runs {activity_id}" in self.logs(pod_name),
            seconds=seconds,
            what=f"{activity_id} running in {pod_name}",
        )

    def outcomes(self, name: str, *, seconds: float) -> list[Manifest]:
        """What became of the driver's jobs, in the order of the lengths."""
        lines = self.finished(name, seconds=seconds).splitlines()
        found: list[Manifest] = json.loads(lines[-1])["outcomes"]
        return found

    def _printed(self, name: str) -> list[Manifest]:
        if self.get("pod", name)["status"]["phase"] == "Pending":
            return []
        return [json.loads(line) for line in self.logs(name).splitlines() if line.startswith("{")]


def queue(name: str, *pools: Manifest, image: str, **spec: Any) -> Manifest:
    """A RunnerQueue on the place's database."""
    template = {
        "spec": {
            "volumes": [_APP_VOLUME],
            "containers": [
                {
                    "name": "worker",
                    "image": image,
                    "imagePullPolicy": "IfNotPresent",
                    "volumeMounts": [_APP_MOUNT],
                }
            ],
        }
    }
    return {
        "apiVersion": "runnerq.dev/v1alpha1",
        "kind": "RunnerQueue",
        "metadata": {"name": name},
        "spec": {
            "backend": {"postgres": {"urlSecretRef": {"name": DATABASE}}},
            "template": template,
            "pools": list(pools),
            **spec,
        },
    }


def pool(name: str, *, concurrency: int = 1, drain: int = 25, **scaling: Any) -> Manifest:
    """A pool of the app's jobs whose times are short enough to be waited for."""
    behavior = {
        "tickSeconds": 1,
        "riseDelaySeconds": 0,
        "scaleDownWindowSeconds": 5,
        "scaleToZeroSeconds": 3,
    }
    return {
        "name": name,
        "app": "e2e_app.work",
        "activityTypes": ["job"],
        "concurrency": concurrency,
        "drain": {"timeoutSeconds": drain},
        "scaling": {"expectedSeconds": 1, "behavior": behavior, **scaling},
    }


def _app_files() -> list[Path]:
    return sorted(APP.glob("*.py"))
