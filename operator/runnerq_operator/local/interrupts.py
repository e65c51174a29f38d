"""Counts the requests to stop: the first asks for an orderly end, the second to hurry."""

from __future__ import annotations

import asyncio
import signal

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Ctrl-C, a service manager, and a terminal that was closed."""


class Interrupts:
    """While inside this context manager the signals end nothing by themselves."""

    def __init__(self) -> None:
        self.first = asyncio.Event()
        self.second = asyncio.Event()

    def __enter__(self) -> None:
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self.interrupt)

    def __exit__(self, *_exc_info: object) -> None:
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.remove_signal_handler(number)

    def interrupt(self) -> None:
        (self.second if self.first.is_set() else self.first).set()
