"""Notes what happens to pods and replicas while a test does something else."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.cluster.e2e.place import Place

_POD_LINE = (
    "jsonpath={.metadata.labels.runnerq\\.dev/queue} {.metadata.labels.runnerq\\.dev/pool} "
    '{.metadata.name}{"\\n"}'
)
_REPLICAS_LINE = 'jsonpath={.metadata.name} {.spec.replicas}{"\\n"}'


@dataclass
class History:
    """What was seen so far, in order, with the moment on this machine's clock."""

    pods: list[tuple[float, str, str]] = field(default_factory=list[tuple[float, str, str]])
    """(when, `<queue>-<pool>`, pod) of each pod's first appearance."""
    replicas: list[tuple[float, str, int]] = field(default_factory=list[tuple[float, str, int]])
    """(when, Deployment, replicas asked for) of each change."""

    def first_pod(self, pool: str, *, since: float) -> float | None:
        """When the pool's first pod after `since` appeared."""
        return next((at for at, of, _ in self.pods if of == pool and at >= since), None)

    def course(self, deployment: str, *, since: float = 0.0) -> list[int]:
        """The replicas of a Deployment one after the other, without repetitions."""
        found: list[int] = []
        for at, name, replicas in self.replicas:
            if name == deployment and at >= since and (not found or found[-1] != replicas):
                found.append(replicas)
        return found


@contextmanager
def watched(place: Place) -> Generator[History]:
    """Note pods and replicas of the namespace while the block runs."""
    history = History()
    seen: set[str] = set()

    def pod_line(line: str) -> None:
        words = line.split()
        if len(words) == 3 and words[2] not in seen:
            seen.add(words[2])
            history.pods.append((time.time(), f"{words[0]}-{words[1]}", words[2]))

    def replicas_line(line: str) -> None:
        words = line.split()
        if len(words) == 2:
            history.replicas.append((time.time(), words[0], int(words[1])))

    commands = [("pods", _POD_LINE, pod_line), ("deployments", _REPLICAS_LINE, replicas_line)]
    processes: list[subprocess.Popen[str]] = []
    readers: list[threading.Thread] = []
    try:
        for kind, line, note in commands:
            command = place.cluster.kubectl_command(
                "-n", place.namespace, "get", kind, "--watch", "-o", line
            )
            process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            processes.append(process)
            reader = threading.Thread(target=_read, args=(process, note), daemon=True)
            reader.start()
            readers.append(reader)
        yield history
    finally:
        for process in processes:
            process.terminate()
        for reader in readers:
            reader.join()
        for process in processes:
            process.wait()


def _read(process: subprocess.Popen[str], note: object) -> None:
    assert process.stdout is not None
    assert callable(note)
    for line in process.stdout:
        note(line)
