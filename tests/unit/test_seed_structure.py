"""The seams of the RunnerQ architecture: who may know whom, and what a backend has to offer."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import runnerq
from runnerq import (
    ActivityNotFound,
    BackendUnavailable,
    CapabilityMissing,
    ClaimLost,
    ConfigurationError,
    DuplicateActivity,
    InvalidActivity,
    QueueInspector,
    RunnerQError,
    SchemaMismatch,
    StorageError,
)
from runnerq.storage import ports
from runnerq.storage.memory import MemoryBackend
from runnerq.storage.postgres import PostgresBackend
from runnerq.storage.sqlite import SqliteBackend

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path(runnerq.__file__).parent
BACKENDS = ("memory", "sqlite", "postgres")


def imports_of(folder: Path, forbidden: tuple[str, ...]) -> list[tuple[str, str]]:
    """(file, module) of the imports below a folder that begin with a forbidden name, also of those
    for type checkers only. Fails where nothing is imported at all: the folder is then another one."""
    found = list(_imports(folder))
    assert found, f"there is no code in {folder}"
    return [entry for entry in found if entry[1].startswith(forbidden)]


def _imports(folder: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                yield from ((path.name, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module is not None:
                yield path.name, node.module


def calls(protocol: type) -> set[str]:
    """What a protocol asks for, by name."""
    return {name for name in dir(protocol) if not name.startswith("_")}


@pytest.mark.parametrize("part", ["engine", "console"])
def test_engine_and_console_know_backends_only_by_their_ports(part: str) -> None:
    homes = tuple(f"runnerq.storage.{name}" for name in BACKENDS)
    assert imports_of(PACKAGE / part, homes) == []


def test_storage_knows_nothing_of_the_engine_nor_of_whoever_enqueues() -> None:
    above = ("runnerq.engine", "runnerq.console", "runnerq.executor", "runnerq.activity")
    assert imports_of(PACKAGE / "storage", above) == []


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_backend_knows_another(backend: str) -> None:
    others = tuple(f"runnerq.storage.{name}" for name in BACKENDS if name != backend)
    assert imports_of(PACKAGE / "storage" / backend, others) == []


def test_queue_and_inspection_both_read_results_and_storage_is_both() -> None:
    results = calls(ports.ResultStorage)
    assert "get_result" in results
    assert results < calls(ports.QueueStorage)
    assert results < calls(ports.InspectionStorage)
    assert calls(ports.QueueStorage) | calls(ports.InspectionStorage) <= calls(ports.Storage)


def test_what_the_seed_asks_of_a_queue_is_asked_of_ours() -> None:
    """Its names and ours are compared in the decision on names."""
    asked = {
        *("enqueue", "claim", "acknowledge", "process_scheduled", "reap"),
        *("extend_lease", "get_result", "capabilities"),
    }
    assert asked <= calls(ports.QueueStorage)


def test_what_the_seed_asks_of_an_inspection_is_asked_of_ours() -> None:
    asked = {
        *("stats", "list_activities", "get_activity"),
        *("get_activity_events", "event_stream", "get_result"),
    }
    assert asked <= calls(ports.InspectionStorage)


def test_the_inspector_has_no_call_that_changes_anything() -> None:
    assert calls(QueueInspector) == {
        *("stats", "list", "get_activity", "get_activity_events", "get_result", "event_stream"),
        *("list_pending", "list_processing", "list_scheduled"),
        *("list_completed", "list_dead_letter"),
    }


def test_errors_of_storage_and_of_the_engine_are_told_apart_and_share_a_root() -> None:
    storage = (BackendUnavailable, SchemaMismatch, CapabilityMissing)
    engine = (ConfigurationError, InvalidActivity, DuplicateActivity, ActivityNotFound, ClaimLost)
    assert all(issubclass(error, StorageError) for error in storage)
    assert not any(issubclass(error, StorageError) for error in engine)
    assert all(issubclass(error, RunnerQError) for error in (*storage, *engine))


def test_memory_says_that_it_neither_lasts_nor_is_shared() -> None:
    memory = MemoryBackend().capabilities
    assert (memory.durable, memory.cross_process) == (False, False)
    postgres = PostgresBackend("postgres://localhost/mydb").capabilities
    assert (postgres.durable, postgres.cross_process) == (True, True)


@pytest.mark.parametrize("backend", [MemoryBackend, SqliteBackend, PostgresBackend])
def test_a_backend_offers_every_call_with_its_parameters(backend: type[Any]) -> None:
    for name in sorted(calls(ports.Storage)):
        asked, offered = getattr(ports.Storage, name), getattr(backend, name)
        if isinstance(asked, property):
            assert isinstance(offered, property)
        else:
            assert list(inspect.signature(offered).parameters) == list(
                inspect.signature(asked).parameters
            )
