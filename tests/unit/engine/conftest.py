"""Every test of an engine also checks that the engine leaves nothing behind."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import psutil
import pytest
from tests.conformance.eventually import eventually
from tests.unit.engine.rig import Rig

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Traces:
    """What an engine could leave behind: tasks, threads, processes, open files."""

    def __init__(self) -> None:
        self._process = psutil.Process()
        self._tasks = asyncio.all_tasks()
        self._threads = set(threading.enumerate())
        self._children = set(self._process.children())
        self._files = self._process.num_fds()

    def left(self) -> list[str]:
        ours = self._tasks | {asyncio.current_task()}  # the one that looks
        tasks = [task.get_name() for task in asyncio.all_tasks() if task not in ours]
        threads = [thread.name for thread in set(threading.enumerate()) - self._threads]
        children = [str(child) for child in set(self._process.children()) - self._children]
        files = self._process.num_fds() - self._files
        return [*tasks, *threads, *children, *([f"{files} files"] if files > 0 else ())]


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    traces = Traces()
    made = Rig()
    yield made
    await made.stop_all()
    try:
        await eventually(lambda: not traces.left())
    except AssertionError:
        raise AssertionError(f"the engine left behind: {traces.left()}") from None
