"""The core needs no extra, starts nothing when it is imported, and is imported quickly."""

from __future__ import annotations

import subprocess
import sys

EXTRAS = ("asyncpg", "aiohttp", "prometheus_client", "yaml", "redis", "pydantic", "click", "rich")

WITHOUT_EXTRAS = f"""
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {EXTRAS!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
"""

WORK = """
import asyncio
from runnerq import *
from runnerq.errors import ConfigurationError

@activity("double")
async def double(value: int) -> int:
    return value * 2

async def main():
    backend = open_backend("memory://")
    engine = WorkerEngine(backend, activities=[double])
    await engine.start()
    future = await double.payload(4).on(engine.get_activity_executor()).execute()
    assert await future == 8
    await engine.stop()

asyncio.run(main())
"""


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_an_engine_works_without_any_extra() -> None:
    names = "NoopMetrics, WorkerEngine, activity, open_backend"
    run(WITHOUT_EXTRAS + WORK.replace("import *", f"import {names}"))


def test_a_missing_extra_is_named_with_the_way_to_install_it() -> None:
    code = """
from runnerq import ConfigurationError, PrometheusMetrics, open_backend
for use in (PrometheusMetrics, lambda: open_backend("postgres://host/db")):
    try:
        use()
    except ConfigurationError as error:
        print(error)
"""
    assert run(WITHOUT_EXTRAS + code).splitlines() == [
        'metrics: prometheus-client is missing; install "runnerq[metrics]"',
        'backend_url: asyncpg is missing; install "runnerq[postgres]"',
    ]


def test_importing_the_package_starts_nothing_and_loads_no_engine() -> None:
    code = """
import sys, threading
import runnerq
print(threading.active_count(), "asyncio" in sys.modules, "runnerq.engine" in sys.modules)
"""
    threads, _, engine = run(code).split()
    assert (threads, engine) == ("1", "False")


def test_importing_the_package_takes_little_time() -> None:
    # CPU time of the import alone, the best of three: other work on the machine must not count.
    code = """
import time
before = time.process_time()
import runnerq
print(time.process_time() - before)
"""
    assert min(float(run(code)) for _ in range(3)) < 0.5
