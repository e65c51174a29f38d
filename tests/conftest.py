"""What every test may ask for: the servers of tests/servers."""

from __future__ import annotations

import signal

pytest_plugins = ["tests.servers.postgres"]


def pytest_configure() -> None:
    """A shell starts background jobs with SIGINT ignored, and every program started from here would
    inherit that: tests that interrupt one would wait for ever."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
