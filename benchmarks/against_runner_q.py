"""RunnerQ for Python against the Rust original, on the same Postgres, in one run.

    python -m benchmarks.against_runner_q [--activities 20000] [--peer-activities 3000] [--rounds 3]

Both work off a backlog of small activities whose handler does nothing, in one process, with fsync and
synchronous_commit on. Rounds alternate, so that a slow moment of the machine hits both; the medians
are compared. The peer is built from its published crate (cargo is needed).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, cast

import asyncpg
import msgspec
from tests.servers.postgres_server import FOR_BENCHMARKS, PostgresServer

from runnerq.bench import BenchPlan, machine, run_bench
from runnerq.connection import open_backend

PEER = Path(__file__).parent / "peers" / "runner_q"


def build_peer() -> Path:
    target = Path(
        os.environ.get("CARGO_TARGET_DIR", Path(tempfile.gettempdir()) / "runner-q-bench")
    )
    print("building the peer (minutes the first time)", file=sys.stderr)
    subprocess.run(
        ["cargo", "build", "--release", "--quiet"],
        cwd=PEER,
        env={**os.environ, "CARGO_TARGET_DIR": str(target)},
        check=True,
    )
    return target / "release" / "runner-q-bench"


async def new_database(url: str, name: str) -> str:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(f'CREATE DATABASE "{name}"')
    finally:
        await connection.close()
    return url.rpartition("/")[0] + "/" + name


def run_peer(binary: Path, url: str, activities: int, workers: int) -> dict[str, float]:
    done = subprocess.run(
        [str(binary), url, str(activities), str(workers)],
        check=True,
        capture_output=True,
        text=True,
        timeout=600,
    )
    return cast("dict[str, float]", json.loads(done.stdout.strip().splitlines()[-1]))


async def run_ours(url: str, plan: BenchPlan) -> dict[str, Any]:
    backend = open_backend(url)
    await backend.migrate()
    await backend.open()
    try:
        return cast("dict[str, Any]", msgspec.to_builtins(await run_bench(backend, plan)))
    finally:
        await backend.close()


async def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    binary = build_peer()
    plan = BenchPlan(activities=arguments.activities, max_workers=arguments.workers)
    ours: list[dict[str, Any]] = []
    peer: list[dict[str, float]] = []
    with PostgresServer(arguments.postgres, settings=FOR_BENCHMARKS) as server:
        for number in range(arguments.rounds):
            peer_url = await new_database(server.url, f"peer{number}")
            peer.append(
                run_peer(binary, peer_url, arguments.peer_activities, arguments.peer_workers)
            )
            print(f"round {number + 1}: runner_q {peer[-1]}", file=sys.stderr)
            ours.append(await run_ours(await new_database(server.url, f"ours{number}"), plan))
            print(
                f"round {number + 1}: runnerq {ours[-1]['processed_per_second']}", file=sys.stderr
            )

    def median(rows: list[dict[str, Any]] | list[dict[str, float]], name: str) -> float:
        return statistics.median(float(row[name]) for row in rows)

    names = ("processed_per_second", "enqueued_per_second")
    return {
        "machine": machine(),
        "postgres": arguments.postgres,
        "rounds": arguments.rounds,
        "runnerq": {name: median(ours, name) for name in names},
        "runner_q 0.6.4": {name: median(peer, name) for name in names},
        "ratio": {name: round(median(ours, name) / median(peer, name), 1) for name in names},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--activities", type=int, default=20_000)
    parser.add_argument("--peer-activities", type=int, default=3_000)
    parser.add_argument("--workers", type=int, default=200, help="our slots")
    parser.add_argument("--peer-workers", type=int, default=8, help="the peer's worker loops")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--postgres", default="postgres15", choices=("postgres15", "postgres18"))
    arguments = parser.parse_args()
    print(json.dumps(asyncio.run(measure(arguments)), indent=2))


if __name__ == "__main__":
    main()
