"""The worker's HTTP port: /metrics, /healthz and /readyz, served from a thread of its own.

Readiness says that the engine has started and is not stopping. It does not depend on load or on the
backend: Kubernetes removes not-ready pods first, so a busy worker must not look unready.
"""

from __future__ import annotations

import logging
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

from runnerq.engine.worker_engine import Phase
from runnerq.metrics import PrometheusMetrics

if TYPE_CHECKING:
    from runnerq.engine.worker_engine import WorkerEngine
    from runnerq.metrics import MetricsSink

log = logging.getLogger(__name__)

CLIENT_PATIENCE = 10.0
"""Seconds a client has for its request: one that never sends it must not keep a thread."""
PROMETHEUS_TEXT = "text/plain; version=0.0.4; charset=utf-8"


class HealthServer:
    """Serves until `stop`. `port` 0 takes a free one; `port` tells which after `start`."""

    def __init__(
        self, engine: WorkerEngine, metrics: MetricsSink, *, port: int, host: str = ""
    ) -> None:
        self._engine = engine
        self._metrics = metrics
        self._server = ThreadingHTTPServer((host, port), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="runnerq-health", daemon=True
        )

    @property
    def port(self) -> int:
        return self._server.server_address[1]

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        if self._thread.is_alive():  # `shutdown` waits for a loop, for ever if there is none
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()

    def answer(self, path: str) -> tuple[int, str, bytes]:
        """(status, content type, body) of a path."""
        match path.partition("?")[0]:
            case "/healthz":
                # A dead engine must be restarted; one that waits for its backend must not.
                alive = self._engine.phase is not Phase.STOPPED
                return (200 if alive else 503), "text/plain", self._engine.phase.encode()
            case "/readyz":
                ready = self._engine.phase is Phase.RUNNING
                return (200 if ready else 503), "text/plain", self._engine.phase.encode()
            case "/metrics" if isinstance(self._metrics, PrometheusMetrics):
                return 200, PROMETHEUS_TEXT, self._metrics.render()
            case "/metrics":
                return 501, "text/plain", b'metrics need: pip install "runnerq[metrics]"'
            case _:
                return 404, "text/plain", b"here are /metrics, /healthz and /readyz"

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            timeout = CLIENT_PATIENCE

            def do_GET(self) -> None:
                status, content_type, body = server.answer(self.path)
                self.send_response(status)
                self.send_header("Content-Type", content_type)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                log.debug(format, *args)

        return Handler
