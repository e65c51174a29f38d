"""Each deliberate fault is noticed by the cases of its rule: a suite that cannot fail proves nothing.

Every fault gets a run of its own, in a process of its own, over its rule's file on one backend.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.conformance.mutants import MEMORY, MUTANTS, POSTGRES, SQLITE
from tests.servers.postgres import EXTERNAL, POSTGRES_PARAMS
from tests.servers.postgres_server import PostgresServer

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
RULES = range(1, 15)


def files_of(rule: int) -> list[Path]:
    return sorted(HERE.glob(f"test_rule_{rule:02}_*.py"))


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest) -> Iterator[dict[str, Future[str]]]:
    """What pytest said, for each mutant that was asked for: two at a time, all begun at once."""
    wanted = [name for name in sorted(MUTANTS) if f"[{name}]" in _ids(request.session.items)]
    with ExitStack() as ending:
        environment = {**os.environ, "RUNNERQ_TEST_WITHIN": "6"}
        if any(MUTANTS[name].backend == POSTGRES for name in wanted) and not EXTERNAL:
            # One server for all of them, instead of one for each.
            server = ending.enter_context(PostgresServer(POSTGRES_PARAMS[0]))
            environment["RUNNERQ_TEST_POSTGRES_URL"] = server.url
        two = ending.enter_context(ThreadPoolExecutor(2))
        yield {name: two.submit(_run, name, environment) for name in wanted}


def _ids(items: list[pytest.Item]) -> str:
    return " ".join(item.name for item in items if item.path == Path(__file__))


def _run(name: str, environment: dict[str, str]) -> str:
    mutant = MUTANTS[name]
    files = [str(file.relative_to(ROOT)) for file in files_of(mutant.rule)]
    backend = "external" if mutant.backend == POSTGRES else mutant.backend
    run = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", *files, "--mutant", name),
            *("-k", f"{backend} and {mutant.cases}", "-x", "-q", "-p", "no:cacheprovider"),
        ],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    return f"{run.stderr[-2_000:]}\n{run.stdout[-4_000:]}"


@pytest.mark.timeout(600)  # the first waits for its turn, as all the others do
@pytest.mark.parametrize("name", sorted(MUTANTS))
def test_the_cases_of_the_rule_notice(name: str, runs: dict[str, Future[str]]) -> None:
    said = runs[name].result()
    summary = said.strip().splitlines()[-1]
    # A run that could not start, or an error outside the case, is not a case that noticed.
    assert re.search(r"\b1 failed\b", summary), said
    assert "error" not in summary, said


def test_every_rule_has_a_mutant() -> None:
    assert {mutant.rule for mutant in MUTANTS.values()} == set(RULES)


def test_every_backend_has_mutants() -> None:
    assert {mutant.backend for mutant in MUTANTS.values()} == {MEMORY, SQLITE, POSTGRES}


def test_every_rule_has_its_file_of_cases() -> None:
    for rule in RULES:
        assert files_of(rule)
