"""StopSignals: SIGTERM and SIGINT call a function while the context is open; afterwards whoever
handled them before does so again.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger(__name__)


class StopSignals:
    """`on_signal` is called on the running loop. Does nothing outside the main thread, where no
    handler can be set: the engine can be stopped by a call there."""

    def __init__(self, on_signal: Callable[[], None]) -> None:
        self._on_signal = on_signal
        self._loop: asyncio.AbstractEventLoop | None = None
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            before = signal.getsignal(number)
            try:
                self._loop.add_signal_handler(number, self._on_signal)
            except (NotImplementedError, ValueError, RuntimeError) as error:
                log.debug("%s is not handled: %s", number.name, error)
            else:
                self._before[number] = before
        return self

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            if self._loop is not None:
                self._loop.remove_signal_handler(number)
            # The loop puts the system's default back, not what was there. None: not set from Python.
            if before is not None:
                signal.signal(number, before)
        self._before.clear()
