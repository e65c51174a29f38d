"""Notifier: sends what this process has to say to others, packed, at most once per 20 ms.

A NOTIFY takes a lock at commit that serialises every notifying commit of the database: so never one per
activity, never within a claim or an enqueue, only after our own commit. What cannot be sent is dropped
after a while: everybody who listens polls as well.

A payload is lines: the sender's tag, then one item each.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from runnerq.errors import StorageError
from runnerq.storage.postgres.background import Background

if TYPE_CHECKING:
    from collections.abc import Iterable

    from runnerq.storage.postgres.connections import Database

_log = logging.getLogger(__name__)

_PAUSE_SECONDS = 0.02
_PAYLOAD_BYTES = 7_900
"""Postgres refuses 8,000."""
_AFTER_FAILURE_SECONDS = 0.5
_KEPT_ITEMS = 20_000
"""While the server is away. Above, all of them are dropped."""


class Notifier:
    def __init__(self, database: Database, own_tag: str) -> None:
        self._database = database
        self._own_tag = own_tag
        self._items: dict[tuple[str, str], None] = {}
        """Insertion-ordered set of (channel, item): the same hint twice is one hint."""
        self._arrived = asyncio.Event()
        self._background = Background("runnerq-notify", self._run)

    def add(self, channel: str, items: Iterable[str]) -> None:
        """Send soon. Never waits, never fails."""
        for item in items:
            self._items[channel, item] = None
        self._arrived.set()

    def start(self) -> None:
        self._background.start()

    async def stop(self) -> None:
        """Send what is left, then end."""
        await self._background.stop()
        if self._items:
            await self._send()

    async def _run(self) -> None:
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            sent = await self._send()
            await asyncio.sleep(_PAUSE_SECONDS if sent else _AFTER_FAILURE_SECONDS)

    async def _send(self) -> bool:
        items, self._items = self._items, {}
        payloads = packed(self._own_tag, items)
        try:
            await self._database.fetch(
                "notify", [channel for channel, _ in payloads], [text for _, text in payloads]
            )
        except StorageError as error:
            _log.debug("could not notify: %s", error)
            if len(items) + len(self._items) <= _KEPT_ITEMS:
                self._items = items | self._items
            self._arrived.set()
            return False
        return True


def packed(tag: str, items: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """(channel, payload) pairs, each payload below the limit of NOTIFY.

    >>> packed("me", [("work", "1"), ("ended", "a"), ("work", "2")])
    [('work', 'me\\n1\\n2'), ('ended', 'me\\na')]
    """
    full: list[tuple[str, str]] = []
    filling: dict[str, list[str]] = {}
    sizes: dict[str, int] = {}
    for channel, item in items:
        size = len(item.encode()) + 1
        if channel not in filling or sizes[channel] + size > _PAYLOAD_BYTES:
            if channel in filling:
                full.append((channel, "\n".join(filling[channel])))
            filling[channel], sizes[channel] = [tag], len(tag)
        filling[channel].append(item)
        sizes[channel] += size
    return full + [(channel, "\n".join(lines)) for channel, lines in filling.items()]


def lines_of(payload: str) -> tuple[str, list[str]]:
    """The sender's tag and the items of a payload."""
    tag, *lines = payload.split("\n")
    return tag, lines
