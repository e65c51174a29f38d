"""Gate: the reasons for which an engine does not claim. Open only when there is none."""

from __future__ import annotations

import asyncio
from enum import StrEnum


class Closed(StrEnum):
    STOPPING = "stopping"
    CORDONED = "cordoned"
    CUT_OFF = "cut off from the backend"
    UNFLUSHED = "acknowledgements are waiting for the backend"
    CALLBACKS = "end callbacks are waiting for their turn"


class Gate:
    def __init__(self) -> None:
        self._reasons: set[Closed] = set()
        self._open = asyncio.Event()
        self._open.set()

    @property
    def is_open(self) -> bool:
        return not self._reasons

    @property
    def reasons(self) -> frozenset[Closed]:
        return frozenset(self._reasons)

    def set(self, reason: Closed, *, closed: bool) -> None:
        if closed:
            self._reasons.add(reason)
            self._open.clear()
        else:
            self._reasons.discard(reason)
            if not self._reasons:
                self._open.set()

    async def wait_open(self) -> None:
        await self._open.wait()
