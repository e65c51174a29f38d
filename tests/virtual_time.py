"""Runs a coroutine in virtual time: whenever everything waits, the clock jumps to the next timer.

An hour of retries takes milliseconds and ends at the same instant every time. Only for code without
real I/O: something that is waited for outside of the loop would never come.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from _typeshed import FileDescriptorLike

T = TypeVar("T")


class NothingWillHappen(RuntimeError):
    """Every task waits for something and no timer is set: this would hang for ever."""


class _JumpingSelector(selectors.BaseSelector):
    """Never waits: moves its clock by the time that it was asked to wait."""

    def __init__(self) -> None:
        self.now = 0.0
        self._real = selectors.DefaultSelector()

    def register(
        self, fileobj: FileDescriptorLike, events: int, data: Any = None
    ) -> selectors.SelectorKey:
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: FileDescriptorLike) -> selectors.SelectorKey:
        return self._real.unregister(fileobj)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = self._real.select(0)
        if not ready:
            if timeout is None:
                raise NothingWillHappen("all tasks wait and no timer is set")
            self.now += max(0.0, timeout)
        return ready

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._real.get_map()

    def close(self) -> None:
        self._real.close()


class _VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._virtual = _JumpingSelector()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now


def run_in_virtual_time(main: Coroutine[Any, Any, T]) -> T:
    """Like `asyncio.run`, with `asyncio.sleep`, timeouts and `loop.time()` in virtual seconds."""
    with asyncio.Runner(loop_factory=_VirtualLoop) as runner:
        return runner.run(main)
