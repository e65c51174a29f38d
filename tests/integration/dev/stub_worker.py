"""A worker as a ProcessFleet sees one: answers /readyz, drains on SIGTERM. APP says how it behaves.

ok | crash (exits at once) | late (ready after 0.3 s) | stubborn (ignores SIGTERM) | family (has a child)
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path


class Ready(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the test reads what is written."""


def main(app: str) -> None:
    print(f"pool={os.environ['RUNNERQ_POOL']} extra={os.environ.get('EXTRA', '')}", flush=True)
    if app == "crash":
        sys.exit(3)
    stop = threading.Event()
    if app == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    else:
        signal.signal(signal.SIGTERM, lambda _number, _frame: stop.set())
    if app == "family":
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        Path(os.environ["CHILD_FILE"]).write_text(str(child.pid))
    if app == "late":
        time.sleep(0.3)
    server = HTTPServer(("127.0.0.1", int(os.environ["RUNNERQ_METRICS_PORT"])), Ready)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    stop.wait()
    print("drained", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
