"""Each deliberate fault is noticed by the cases of its rule: a suite that cannot fail proves nothing.

Every fault gets a run of its own, in a process of its own, over its rule's file on one backend.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.conformance.mutants import MEMORY, MUTANTS, POSTGRES, SQLITE
from tests.servers.postgres import POSTGRES_PARAMS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
RULES = range(1, 15)


@pytest.mark.parametrize("name", sorted(MUTANTS))
async def test_the_cases_of_the_rule_notice(
    name: str, postgres_schema: Callable[[str], Awaitable[tuple[str, str]]]
) -> None:
    mutant = MUTANTS[name]
    environment = dict(os.environ)
    backend = mutant.backend
    if backend == POSTGRES:
        # The server of this session, so that the run need not start one.
        url, _ = await postgres_schema(POSTGRES_PARAMS[0])
        environment["RUNNERQ_TEST_POSTGRES_URL"] = url
        backend = "external"
    [file] = HERE.glob(f"test_rule_{mutant.rule:02}_*.py")
    run = subprocess.run(  # noqa: ASYNC221 - nothing else is to happen meanwhile
        [
            *(sys.executable, "-m", "pytest", str(file.relative_to(ROOT)), "--mutant", name),
            *("-k", f"{backend} and {mutant.cases}", "-x", "-q", "-p", "no:cacheprovider"),
        ],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    summary = run.stdout.strip().splitlines()[-1]
    # A run that could not start, or an error outside the case, is not a case that noticed.
    assert re.search(r"\b1 failed\b", summary), run.stdout[-4_000:] + run.stderr[-2_000:]
    assert "error" not in summary, run.stdout[-4_000:]


def test_every_rule_has_a_mutant() -> None:
    assert {mutant.rule for mutant in MUTANTS.values()} == set(RULES)


def test_every_backend_has_mutants() -> None:
    assert {mutant.backend for mutant in MUTANTS.values()} == {MEMORY, SQLITE, POSTGRES}


def test_every_rule_has_its_file_of_cases() -> None:
    for rule in RULES:
        assert len(list(HERE.glob(f"test_rule_{rule:02}_*.py"))) == 1
