"""The sync facade: enqueue and wait from code without an event loop.

One background thread runs the loop; every call is handed to it. Same objects, same errors.
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from runnerq.connection import connect
from runnerq.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence
    from types import TracebackType
    from uuid import UUID

    from runnerq.builder import ActivityBuilder
    from runnerq.durations import Duration
    from runnerq.future import ActivityFuture
    from runnerq.storage.records import EnqueueStatus

R = TypeVar("R")
T = TypeVar("T")


class BlockingFuture(Generic[R]):
    """An activity's end, waited for by blocking."""

    def __init__(self, future: ActivityFuture[R], owner: BlockingExecutor) -> None:
        self._future = future
        self._owner = owner

    @property
    def id(self) -> UUID:
        return self._future.id

    @property
    def status(self) -> EnqueueStatus:
        """What the enqueue did: created, existing or duplicate."""
        return self._future.status

    def done(self) -> bool:
        """As ActivityFuture.done."""
        return self._owner.wait(self._future.done())

    def get_result(self, timeout: Duration | None = None) -> R:
        """As ActivityFuture.get_result."""
        return self._owner.wait(self._future.get_result(timeout))


class BlockingExecutor:
    """`with connect_blocking() as executor: executor.execute(builder).get_result()`"""

    def __init__(self, url: str | None = None, **options: Any) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="runnerq-blocking", daemon=True
        )
        self._thread.start()
        try:
            self._executor = self.wait(connect(url, **options))
        except BaseException:
            self._end_loop()
            raise

    def activity(self, activity_type: str) -> ActivityBuilder[Any]:
        """A builder to be given to `execute`."""
        return self._executor.activity(activity_type)

    def execute(self, builder: ActivityBuilder[R]) -> BlockingFuture[R]:
        return BlockingFuture(self.wait(self._executor.execute(builder)), self)

    def execute_many(self, builders: Sequence[ActivityBuilder[R]]) -> list[BlockingFuture[R]]:
        futures = self.wait(self._executor.execute_many(builders))
        return [BlockingFuture(future, self) for future in futures]

    def future(
        self, activity_id: UUID | str, result_type: type[R] | Any = Any
    ) -> BlockingFuture[R]:
        return BlockingFuture(self._executor.future(activity_id, result_type), self)

    def wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the background loop and block for its result."""
        if self._loop.is_closed():
            coroutine.close()
            raise ConfigurationError("this executor was closed", field="executor")
        call = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return call.result()
        except BaseException:
            call.cancel()
            raise

    def close(self) -> None:
        if self._loop.is_closed():
            return
        try:
            self.wait(self._executor.close())
        finally:
            self._end_loop()

    def __enter__(self) -> BlockingExecutor:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _end_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def connect_blocking(url: str | None = None, **options: Any) -> BlockingExecutor:
    """Like `connect`, for code without an event loop. Close it, or use it in a `with`."""
    return BlockingExecutor(url, **options)
