"""A private Prometheus for tests: own data folder, free port, stopped by its pid.

It scrapes what an address of HTTP service discovery lists. Debian's package; nothing else is touched.
"""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple, Self
from urllib.parse import urlencode, urlsplit

from tests.servers import loopback
from tests.servers.postgres_server import free_port

SCRAPE_SECONDS = 0.25
_DEADLINE_SECONDS = 20.0


class Sample(NamedTuple):
    labels: dict[str, str]
    values: list[tuple[float, float]]
    """(time, value), oldest first; of an instant query one."""

    @property
    def last(self) -> float:
        return self.values[-1][1]

    @property
    def numbers(self) -> list[float]:
        """The values that are numbers."""
        return [value for _, value in self.values if not math.isnan(value)]


class PrometheusServer:
    """A running Prometheus; a context manager."""

    def __init__(self, targets_url: str) -> None:
        binary = shutil.which("prometheus")
        if binary is None:
            raise RuntimeError("there is no prometheus; run: apt-get install prometheus")
        self._binary = binary
        self._targets_url = targets_url
        self._folder = Path(tempfile.mkdtemp(prefix="runnerq-prometheus-"))
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"http://127.0.0.1:{free_port()}"

    def __enter__(self) -> Self:
        config = {
            "global": {
                "scrape_interval": f"{SCRAPE_SECONDS * 1000:.0f}ms",
                "scrape_timeout": f"{SCRAPE_SECONDS * 1000:.0f}ms",
            },
            "scrape_configs": [
                {
                    "job_name": "runnerq",
                    "http_sd_configs": [{"url": self._targets_url, "refresh_interval": "500ms"}],
                }
            ],
        }
        (self._folder / "prometheus.yml").write_text(json.dumps(config))  # JSON is YAML
        try:
            with (self._folder / "log").open("wb") as log:
                self._process = subprocess.Popen(
                    [
                        self._binary,
                        f"--config.file={self._folder / 'prometheus.yml'}",
                        f"--storage.tsdb.path={self._folder / 'data'}",
                        f"--web.listen-address={urlsplit(self.url).netloc}",
                    ],
                    stdout=log,
                    stderr=log,
                    cwd=self._folder,
                )
            self._wait_until_ready()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.terminate()
            try:
                process.wait(_DEADLINE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def now(self, expression: str, *, at: float | None = None) -> list[Sample]:
        """An instant query. Raises loopback.Refused when Prometheus does not understand it."""
        return self._samples("query", {"query": expression, "time": at or time.time()})

    def between(self, expression: str, start: float, end: float) -> list[Sample]:
        """A range query with a step of a scrape, up to `end` exactly. Raises loopback.Refused."""
        steps = math.floor((end - start) / SCRAPE_SECONDS)
        first = end - steps * SCRAPE_SECONDS
        asked = {"query": expression, "start": first, "end": end, "step": SCRAPE_SECONDS}
        return self._samples("query_range", asked)

    def number(self, expression: str, *, at: float | None = None) -> float | None:
        """The value of a query with one answer; None when it has none."""
        found = self.now(expression, at=at)
        assert len(found) <= 1, f"{expression}: {len(found)} answers"
        return found[0].last if found else None

    def _samples(self, kind: str, parameters: dict[str, Any]) -> list[Sample]:
        found = loopback.document(f"{self.url}/api/v1/{kind}?{urlencode(parameters)}")["data"]
        if found["resultType"] == "scalar":
            return [Sample({}, [_pair(found["result"])])]
        return [
            Sample(one["metric"], [_pair(pair) for pair in one.get("values") or [one["value"]]])
            for one in found["result"]
        ]

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + _DEADLINE_SECONDS
        while time.monotonic() < deadline:
            if self._process is not None and self._process.poll() is not None:
                break
            try:
                loopback.text(f"{self.url}/-/ready")
            except (OSError, loopback.Refused):
                time.sleep(0.05)
            else:
                return
        log = (self._folder / "log").read_text(errors="replace")
        raise RuntimeError(f"prometheus did not become ready:\n{log}")


def _pair(pair: list[Any]) -> tuple[float, float]:
    return float(pair[0]), float(pair[1])
