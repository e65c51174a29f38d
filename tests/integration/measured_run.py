"""A whole system on this machine, measured from outside while it works: `runnerq dev` and a Prometheus.

Nothing in it is made up: workers are processes of the fleet, the pool starts at zero, and what the
numbers have to be is asked of the backend itself.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from tests.integration.measured_activities import flaky, hold, hopeless, short
from tests.servers import loopback
from tests.servers.prometheus import SCRAPE_SECONDS, PrometheusServer

from runnerq.blocking import BlockingExecutor, connect_blocking

T = TypeVar("T")

QUEUE = "measured"
WORKERS, SLOTS = 2, 4
HOLDS, SHORTS, FLAKY, HOPELESS = WORKERS * SLOTS, 32, 4, 2
COMPLETED = HOLDS + 2 * HOLDS + SHORTS + FLAKY
"""Each hold enqueues two short ones; a flaky one succeeds in the end."""
LOOKS = 40
"""At each worker: a rate is off by up to one part of so many."""

MANIFEST = {
    "apiVersion": "runnerq.dev/v1alpha1",
    "kind": "RunnerQueue",
    "metadata": {"name": QUEUE},
    "spec": {
        "backend": {"postgres": {"urlSecretRef": {"name": "unused"}}},
        "slo": {"maxWaitSeconds": 5},
        "pools": [
            {
                "name": "all",
                "app": "tests.integration.measured_activities",
                "activityTypes": ["*"],
                "concurrency": SLOTS,
                "scaling": {
                    "maxReplicas": WORKERS,
                    "expectedSeconds": 1,
                    "behavior": {"tickSeconds": 1, "scaleToZeroSeconds": 20},
                },
            }
        ],
    },
}


@dataclass(frozen=True)
class MeasuredRun:
    prometheus: PrometheusServer
    began: float
    """Before the first activity was enqueued. Wall clock, as all of these."""
    ended: float
    """When everything had ended, was measured, and the workers were still there."""
    stored: Mapping[str, int]
    """What the backend says has become of the activities."""
    pages: Mapping[str, str]
    """/metrics of one process of each job, at the end."""


@contextmanager
def measured_run(folder: Path) -> Generator[MeasuredRun]:
    """Play it; afterwards Prometheus can be asked about it until the block is left."""
    with ExitStack() as stack:
        log = stack.enter_context(running_session(folder))
        metrics = until(lambda: re.search(r"http://\S+(?=/metrics)", log.read_text()))[0]
        console = until(lambda: re.search(r"console +(http://\S+)/\n", log.read_text()))[1]
        prometheus = stack.enter_context(PrometheusServer(f"{metrics}/targets"))
        environment = until(lambda: variables_in(folder / ".runnerq" / "env"))
        executor = stack.enter_context(connect_blocking(environ=environment))
        api = f"{console}/api/observability"
        stack.enter_context(loopback.answer(f"{api}/stream"))
        until(lambda: prometheus.now("runnerq_pool_replicas_current == 0"))
        began = time.time()
        work_through(executor, folder / "gate", prometheus)
        until(lambda: all_is_measured(prometheus))
        ended = time.time()
        stored = loopback.document(f"{api}/stats")["counts"]
        requeue_a_dead_letter(api)
        yield MeasuredRun(prometheus, began, ended, stored, pages(metrics))


def work_through(executor: BlockingExecutor, gate: Path, prometheus: PrometheusServer) -> None:
    """Every activity, begun on workers that Prometheus has already seen: from a first sight on, it
    counts each of them."""
    holds = executor.execute_many([hold.payload(str(gate)) for _ in range(HOLDS)])
    until(lambda: prometheus.number("sum(runnerq_activities_in_flight)") == HOLDS)
    ending = [
        *(short.payload(0.3) for _ in range(SHORTS)),
        *(flaky.payload(None) for _ in range(FLAKY)),
        *(hopeless.payload(None) for _ in range(HOPELESS)),
    ]
    others = executor.execute_many(ending)
    waiting = 'sum(runnerq_queue_activities{state="claimable"})'
    until(lambda: prometheus.number(waiting) == HOLDS + SHORTS + FLAKY + HOPELESS)
    gate.touch()
    for future in (*holds, *others):
        until(future.done)


def all_is_measured(prometheus: PrometheusServer) -> bool:
    """Every end was seen, and each worker often enough."""
    finished = prometheus.number(
        'sum(runnerq_activities_finished_total{outcome=~"completed|dead_letter"})'
    )
    dead = prometheus.number('sum(runnerq_queue_activities{state="dead_letter"})')
    looks = prometheus.number("min(count_over_time(runnerq_worker_slots[1m]))") or 0
    return (finished, dead) == (COMPLETED + HOPELESS, HOPELESS) and looks >= LOOKS


def requeue_a_dead_letter(api: str) -> None:
    """An action, so that the console has one to tell of."""
    first = loopback.document(f"{api}/dead-letter")["items"][0]["id"]
    loopback.document(f"{api}/dead-letter/requeue", {"ids": [first]})


def pages(metrics_url: str) -> dict[str, str]:
    """What a process of each job shows."""
    groups: list[dict[str, Any]] = loopback.document(f"{metrics_url}/targets")
    return {
        group["labels"]["job"]: loopback.text(f"http://{group['targets'][0]}/metrics")
        for group in groups
    }


@contextmanager
def running_session(folder: Path) -> Generator[Path]:
    """`runnerq dev` in a process of its own; the file with its output. Drained at the end."""
    manifest, log = folder / "queue.yaml", folder / "dev.log"
    manifest.write_text(json.dumps(MANIFEST))  # JSON is YAML
    command = [sys.executable, "-m", "runnerq.cli.main", "dev", "-f", str(manifest), "--no-reload"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "--console-port", "0", "--metrics-port", "0"],
            cwd=Path(__file__).parents[2],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, "COLUMNS": "200"},
        )
    try:
        yield log
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)  # the second one kills the workers
            process.wait(30)


def variables_in(file: Path) -> dict[str, str]:
    """What a shell would get from the file; {} while it is not there."""
    if not file.exists():
        return {}
    words = shlex.split(file.read_text())
    return dict(word.split("=", 1) for word in words if word != "export")


def until(condition: Callable[[], T | None], *, within: float = 30.0) -> T:
    """The first truthy answer. Fails the test when there is none in time."""
    deadline = time.monotonic() + within
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within:g} s; still {answer!r}")
        time.sleep(SCRAPE_SECONDS / 5)
