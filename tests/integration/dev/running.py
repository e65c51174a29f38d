"""`runnerq dev` as a user starts it: a process in a folder with an app and a queue's file."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil

from runnerq import ActivityExecutor, connect

APP = """
import asyncio
import os

from runnerq import activity

VERSION = 1


@activity("work", max_attempts=3, timeout=120)
async def work(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return f"version {VERSION} in {os.environ['RUNNERQ_POD_NAME']}"
"""

QUICK = {
    "tickSeconds": 1,
    "riseDelaySeconds": 1,
    "scaleDownWindowSeconds": 2,
    "scaleToZeroSeconds": 2,
}


def queue_file(**scaling: Any) -> str:
    """A queue `shop` with one pool `mail`; keywords are those of its scaling."""
    return json.dumps(
        {
            "apiVersion": "runnerq.dev/v1alpha1",
            "kind": "RunnerQueue",
            "metadata": {"name": "shop"},
            "spec": {
                "backend": {"postgres": {"urlSecretRef": {"name": "unused-here"}}},
                "slo": {"maxWaitSeconds": 10},
                "pools": [
                    {
                        "name": "mail",
                        "activityTypes": ["work"],
                        "app": "shop_app",
                        "concurrency": 2,
                        "drain": {"timeoutSeconds": 20},
                        "scaling": {
                            "maxReplicas": 3,
                            "expectedSeconds": 1,
                            "behavior": QUICK,
                            **scaling,
                        },
                    }
                ],
            },
        }
    )


class Dev:
    """One run, in `folder`. Ends with the block, whatever happened in it."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self.log = folder / "output.txt"
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Dev:
        environment = {
            **{name: value for name, value in os.environ.items() if "RUNNERQ" not in name},
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry),
        }
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "runnerq.cli.main", "dev", "-f", "queue.yaml"),
                    *("--console-port", "0"),
                    *self._options,
                ],
                cwd=self.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        return self

    def __exit__(self, *_exc_info: object) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            time.sleep(0)
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(10)
        for one in self.left_running():
            one.kill()

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None
        return self._process

    @property
    def output(self) -> str:
        return self.log.read_text()

    def says(self, text: str) -> bool:
        if self.process.poll() is not None and text not in self.output:
            raise AssertionError(f"it ended without saying {text!r}:\n{self.output}")
        return text in self.output

    def interrupt(self) -> None:
        """Ctrl-C: reaches the whole foreground group of the terminal."""
        os.killpg(self.process.pid, signal.SIGINT)

    def ended(self) -> bool:
        return self.process.poll() is not None

    @property
    def code(self) -> int | None:
        return self.process.returncode

    def environment(self) -> Mapping[str, str]:
        """What `source .runnerq/env` sets."""
        lines = (self.folder / ".runnerq" / "env").read_text().splitlines()
        pairs = (shlex.split(line.removeprefix("export "))[0].partition("=") for line in lines)
        return {name: value for name, _, value in pairs}

    async def executor(self) -> ActivityExecutor:
        return await connect(environ=self.environment())

    def processes(self) -> Iterator[dict[str, Any]]:
        """What it noted of the processes that it started."""
        notes = self.folder / ".runnerq" / "processes"
        if notes.exists():
            for line in notes.read_text().splitlines():
                yield json.loads(line)

    def left_running(self) -> list[psutil.Process]:
        """Processes of it that still run."""
        found: list[psutil.Process] = []
        for noted in self.processes():
            try:
                process = psutil.Process(noted["pid"])
                if process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
            except psutil.NoSuchProcess:
                continue
        return found


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def prepared(folder: Path, **scaling: Any) -> Path:
    """A folder with the app and the queue's file."""
    (folder / "shop_app.py").write_text(APP)
    (folder / "queue.yaml").write_text(queue_file(**scaling))
    return folder


async def results(executor: ActivityExecutor, count: int, seconds: float) -> list[str]:
    """Run that many activities; their results."""
    futures = [await executor.activity("work").payload(seconds).execute() for _ in range(count)]
    return await asyncio.gather(*(future.get_result(timeout=60) for future in futures))
