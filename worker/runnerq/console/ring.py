"""Ring: the last frames of a live stream, so that a browser that reconnects misses nothing.

Pure. A position is `<seq>:<epoch>`: the epoch is random per stream, so a position of another process
or of an earlier life of the stream is never mistaken for ours. It never guesses: when it cannot prove
that nothing was missed, it answers the reason for a resync instead of frames.
"""

from __future__ import annotations

import re
from collections import deque
from enum import StrEnum
from typing import NamedTuple

_POSITION = re.compile(r"(\d{1,18}):([0-9a-f]{1,32})", re.ASCII)


class ResyncReason(StrEnum):
    """Why what is shown must be read again."""

    RING_OVERFLOW = "ring_overflow"
    """Away for longer than the ring remembers."""
    RESTART = "restart"
    """The position is of another process, or of none."""
    SLOW_CLIENT = "slow_client"
    """Frames came faster than this client took them."""
    BURST = "burst"
    """More activities changed at once than are sent one by one."""
    BACKEND_GAP = "backend_gap"
    """The backend's own stream lost events, or was down."""


class Position(NamedTuple):
    seq: int
    epoch: str

    def __str__(self) -> str:
        return f"{self.seq}:{self.epoch}"

    @classmethod
    def parse(cls, text: str) -> Position | None:
        """None for anything that is not a position we could have sent."""
        match = _POSITION.fullmatch(text)
        return None if match is None else cls(int(match[1]), match[2])


class Ring:
    """Holds up to `capacity` frames, oldest out first."""

    def __init__(self, epoch: str, *, capacity: int) -> None:
        self.epoch = epoch
        self._frames: deque[bytes] = deque(maxlen=capacity)
        self._last = 0

    @property
    def position(self) -> Position:
        """Where a client stands that has been sent everything."""
        return Position(self._last, self.epoch)

    def append(self, event: str, data: bytes) -> bytes:
        """Number, encode and keep one frame; answers its bytes."""
        self._last += 1
        encoded = frame(event, data, position=self.position)
        self._frames.append(encoded)
        return encoded

    def since(self, last_event_id: str) -> list[bytes] | ResyncReason:
        """The frames after a client's last position, or why they cannot be given."""
        position = Position.parse(last_event_id)
        if position is None or position.epoch != self.epoch or position.seq > self._last:
            return ResyncReason.RESTART
        missed = self._last - position.seq
        if missed > len(self._frames):
            return ResyncReason.RING_OVERFLOW
        return list(self._frames)[len(self._frames) - missed :]


def frame(event: str, data: bytes, *, position: Position | None = None) -> bytes:
    """One server-sent event. `data` is JSON on one line, as `documents.encode` makes it.

    >>> frame("resync", b'{"reason":"burst"}', position=Position(7, "ab"))
    b'id: 7:ab\\nevent: resync\\ndata: {"reason":"burst"}\\n\\n'
    """
    head = b"" if position is None else f"id: {position}\n".encode()
    # Embedded stored JSON may hold line breaks between its tokens; each line needs its own prefix.
    body = b"".join(b"data: " + line + b"\n" for line in data.splitlines() or [b""])
    return head + b"event: " + event.encode() + b"\n" + body + b"\n"
