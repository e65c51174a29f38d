"""The process that runs `cpu=True` handlers: one request at a time, frames on stdin and stdout.

Started by `processes.py`. A handler's own output goes to stderr, so that it cannot disturb the frames.
"""

from __future__ import annotations

import importlib
import os
import queue
import signal
import struct
import sys
import threading
from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec

from runnerq.errors import InvalidActivity, NonRetryable, Retry, Snooze
from runnerq.failure import describe
from runnerq.payload import PayloadMismatch, encode
from runnerq.storage.records import ErrorInfo, ErrorKind

if TYPE_CHECKING:
    from types import FrameType

    from runnerq.activity import ActivityDefinition

HEADER = struct.Struct(">I")


class CpuRequest(msgspec.Struct, frozen=True):
    module: str
    name: str
    """Qualified name of the definition in its module."""
    payload: bytes


class CpuReply(msgspec.Struct, frozen=True, kw_only=True):
    result: bytes | None = None
    error: ErrorInfo | None = None
    verdict: str = "ok"
    """ok | error | non_retryable | retry | snooze | payload | result"""
    after_ms: int | None = None
    mro: tuple[str, ...] = ()
    """Qualified names of the exception's classes, for the retry policy's `non_retryable`."""


def main() -> None:
    # The parent alone decides when this process ends; signals to its whole group (Ctrl-C in a terminal)
    # come here too. Handlers, not SIG_IGN: that would be inherited by what an activity starts.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stay)
    requests, replies = _take_over_streams()
    frames: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_read_frames, args=(requests, frames), daemon=True).start()
    sys.path[:] = msgspec.json.decode(frames.get(), type=list[str])
    while True:
        reply = run(msgspec.msgpack.decode(frames.get(), type=CpuRequest))
        data = msgspec.msgpack.encode(reply)
        replies.write(HEADER.pack(len(data)) + data)
        replies.flush()


def _stay(number: int, frame: FrameType | None) -> None:
    """A signal that says nothing to this process."""


def _take_over_streams() -> tuple[BinaryIO, BinaryIO]:
    """The pipes to the parent, moved to where an activity that prints or reads does not find them."""
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return requests, replies


def _read_frames(requests: BinaryIO, frames: queue.SimpleQueue[bytes]) -> None:
    """Ends the process with its parent, also in the middle of a computation: nobody wants the result."""
    while frame := _read(requests):
        frames.put(frame)
    os._exit(0)


def run(request: CpuRequest) -> CpuReply:
    """Run one handler. Whatever it raises becomes a reply."""
    try:
        found: Any = importlib.import_module(request.module)
        for part in request.name.split("."):
            found = getattr(found, part)
        definition: ActivityDefinition[Any, Any] = found
        payload = definition.payload_decoder.decode(request.payload, field="payload")
    except PayloadMismatch as error:
        return CpuReply(verdict="payload", error=describe(error, ErrorKind.PAYLOAD))
    except Exception as error:  # noqa: BLE001 - an app that does not import is an attempt that failed
        return CpuReply(verdict="error", error=describe(error), mro=_mro(error))
    try:
        result = definition.call(payload, None)
    except Exception as error:  # noqa: BLE001 - the handler's own; the engine decides what follows
        return _failed(error)
    except BaseException as error:  # noqa: BLE001 - SystemExit of a library must not end the process
        return CpuReply(verdict="error", error=describe(error), mro=_mro(error))
    try:
        return CpuReply(result=encode(result, field="result"))
    except InvalidActivity as error:
        return CpuReply(verdict="result", error=describe(error, ErrorKind.RESULT))


def _failed(error: Exception) -> CpuReply:
    info = describe(error)
    match error:
        case Snooze():
            return CpuReply(
                verdict="snooze", error=info, after_ms=round(error.after.total_seconds() * 1000)
            )
        case Retry():
            after = error.after
            after_ms = None if after is None else round(after.total_seconds() * 1000)
            return CpuReply(verdict="retry", error=info, after_ms=after_ms)
        case NonRetryable():
            return CpuReply(verdict="non_retryable", error=info)
        case _:
            return CpuReply(verdict="error", error=info, mro=_mro(error))


def _mro(error: BaseException) -> tuple[str, ...]:
    return tuple(f"{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__)


def _read(stream: BinaryIO) -> bytes | None:
    header = stream.read(HEADER.size)
    if len(header) < HEADER.size:
        return None
    return stream.read(HEADER.unpack(header)[0])


if __name__ == "__main__":
    main()
