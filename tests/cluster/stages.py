"""Progress and timing of long work: one line per stage, and a sign of life while one runs.

It must never swallow an error of the stage it times.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

_SIGN_OF_LIFE_SECONDS = 10.0


@dataclass
class Stages:
    """Prints `name: 1.2 s` after each stage; `seconds` keeps them for whoever wants a table.

    A stage that takes longer than ten seconds shows every ten what it last said through `note`.
    `write` gets each line, without its end; stderr when nothing else is said.
    """

    write: Callable[[str], object] = lambda line: print(line, file=sys.stderr, flush=True)
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    _note: str = ""

    def say(self, text: str) -> None:
        """Print a line of its own."""
        self.write(text)

    def note(self, text: str) -> None:
        """Remember the last thing that the running stage said."""
        self._note = text.strip()[:100]

    @contextmanager
    def stage(self, name: str) -> Generator[None]:
        """Time the block under this name."""
        self._note = ""
        started = time.monotonic()
        ended = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(name, started, ended), daemon=True)
        watcher.start()
        result = "failed after"
        try:
            yield
            result = "took"
        finally:
            ended.set()
            watcher.join()
            took = time.monotonic() - started
            self.seconds[name] = self.seconds.get(name, 0.0) + took
            self.say(f"{name} {result} {took:.1f} s")

    def _watch(self, name: str, started: float, ended: threading.Event) -> None:
        while not ended.wait(_SIGN_OF_LIFE_SECONDS):
            elapsed = time.monotonic() - started
            self.say(f"{name}: {elapsed:.0f} s so far  {self._note}")

    def table(self) -> str:
        """All stages with their seconds, and the sum."""
        rows = [f"  {took:6.1f} s  {name}" for name, took in self.seconds.items()]
        return "\n".join([*rows, f"  {sum(self.seconds.values()):6.1f} s  together"])
