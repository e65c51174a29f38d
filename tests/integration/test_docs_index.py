"""The example on a real engine: the same page as the serial script, whatever the workers do."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
import yaml

from docs_index import activities, run, serial
from docs_index.corpus import Corpus, SourceFile, find_sources
from docs_index.extract import Extracted
from runnerq import (
    ActivityExecutor,
    ActivityFailed,
    NonRetryable,
    WorkerEngine,
    activity,
    open_backend,
)
from runnerq.storage.memory import MemoryBackend
from runnerq_operator.model.queue import RunnerQueue

EXAMPLE = Path(activities.__file__).parent
DEFINITIONS = (activities.extract, activities.analyse, activities.report)


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    """Real files of the standard library, and one of each kind that cannot be indexed."""
    root = tmp_path / "odd"
    root.mkdir()
    (root / "binary.txt").write_bytes(b"\0\1")
    (root / "empty.py").write_text("")
    (root / "latin.txt").write_bytes(b"\xe9t\xe9")
    (root / "huge.txt").write_bytes(b"a" * 1_100_000)
    library = Path(os.__file__).parent
    sampled = find_sources([library / "json", library / "email", library / "asyncio"], limit=60)
    odd = find_sources([root])
    return Corpus((*sampled.files, *odd.files), odd.bad)


@pytest.fixture
async def backend() -> AsyncIterator[MemoryBackend]:
    backend = MemoryBackend("docs-index")
    await backend.open()
    yield backend
    await backend.close()


async def test_engine_and_serial_script_make_the_same_page(backend: MemoryBackend, corpus: Corpus):
    said: list[str] = []
    engine = WorkerEngine(backend, activities=DEFINITIONS, max_workers=4)
    await engine.start()
    try:
        result = await run.index(ActivityExecutor(backend), corpus, batch=7, say=said.append)
    finally:
        await engine.stop()
    assert result.html == serial.index(corpus).html
    assert result == serial.index(corpus)
    assert result.not_indexed == 4
    assert said[0] == "extract: 64 enqueued"
    assert re.fullmatch(r"report: 1 of 1 after \d+\.\d s", said[-1])


async def test_two_pools_each_do_their_own_types(backend: MemoryBackend, corpus: Corpus):
    light = WorkerEngine(
        backend, activities=DEFINITIONS, max_workers=4, activity_types=["extract", "report"]
    )
    heavy = WorkerEngine(backend, activities=DEFINITIONS, max_workers=1, activity_types=["analyse"])
    await light.start()
    await heavy.start()
    try:
        result = await run.index(ActivityExecutor(backend), corpus, say=lambda line: None)
    finally:
        await light.stop()
        await heavy.stop()
    assert result == serial.index(corpus)


async def test_an_activity_that_fails_for_good_ends_the_index_with_its_error(
    backend: MemoryBackend, corpus: Corpus
):
    @activity("extract")
    def extract(file: SourceFile) -> Extracted:
        raise NonRetryable(f"no disk for {file.name}")

    engine = WorkerEngine(backend, activities=[extract], max_workers=4)
    await engine.start()
    try:
        with pytest.raises(ActivityFailed, match="no disk for"):
            await run.index(ActivityExecutor(backend), corpus, say=lambda line: None)
    finally:
        await engine.stop()


async def test_the_driver_finds_its_queue_in_the_environment_and_checks_its_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    url = f"sqlite:///{tmp_path / 'queue.db'}"
    monkeypatch.setenv("RUNNERQ_BACKEND_URL", url)
    monkeypatch.setenv("RUNNERQ_QUEUE", "docs-index")
    root, page = str(Path(json.__file__).parent), tmp_path / "page.html"
    backend = open_backend(url, queue="docs-index")
    await backend.migrate()
    engine = WorkerEngine(backend, activities=DEFINITIONS, max_workers=2)
    await engine.start()
    try:
        arguments = ["--root", root, "--output", str(page), "--check"]
        code = await asyncio.to_thread(run.main, arguments)
    finally:
        await engine.stop()
        await backend.close()
    printed = capsys.readouterr()
    assert (code, printed.out) == (0, f"{page}\n")
    assert "check: the same report was computed serially" in printed.err
    assert page.read_text("utf-8") == serial.index(find_sources([Path(root)])).html


def test_the_driver_says_what_to_set_when_no_backend_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.delenv("RUNNERQ_BACKEND_URL", raising=False)
    page = tmp_path / "page.html"
    assert run.main(["--root", str(tmp_path), "--output", str(page)]) == 1
    assert "RUNNERQ_BACKEND_URL" in capsys.readouterr().err
    assert not page.exists()


def test_queue_yaml_is_valid_and_serves_every_activity_in_exactly_one_pool():
    document = yaml.safe_load((EXAMPLE / "queue.yaml").read_text("utf-8"))
    queue = msgspec.convert(document, RunnerQueue)
    served = [name for pool in queue.spec.pools for name in pool.activity_types]
    assert sorted(served) == sorted(each.type for each in DEFINITIONS)
    assert {pool.app for pool in queue.spec.pools} == {activities.__name__}
    assert {pool.scaling.min_replicas for pool in queue.spec.pools} == {0}
