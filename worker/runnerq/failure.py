"""Exceptions as stored text: type, message, trimmed traceback, cause chain.

Never raises, whatever an exception's own `__str__` or `__repr__` do, and keeps no frame alive.
"""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING

from runnerq.storage.records import ErrorInfo, ErrorKind

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

MAX_MESSAGE = 4_000
MAX_TRACEBACK = 16_000
MAX_CAUSES = 10
_OURS = frozenset(
    f"runnerq.{name}"
    for name in (
        "activity",
        "engine.run",
        "engine.isolation",
        "engine.threads",
        "engine.processes",
        "engine.cpu_child",
    )
)


def describe(error: BaseException, kind: ErrorKind = ErrorKind.HANDLER) -> ErrorInfo:
    return ErrorInfo(
        kind=kind,
        type=_type_name(error),
        message=_message(error),
        traceback=_traceback(error),
        causes=tuple(f"{_type_name(cause)}: {_message(cause)}" for cause in _chain(error)),
    )


def worker_lost(attempt: int) -> ErrorInfo:
    """The error of an attempt whose owner vanished; the same words on every backend."""
    return ErrorInfo(
        kind=ErrorKind.WORKER_LOST,
        type="WorkerLost",
        message=f"worker lost: the process that ran attempt {attempt} died or lost the backend",
    )


def timed_out(timeout_ms: int) -> ErrorInfo:
    return ErrorInfo(
        kind=ErrorKind.TIMEOUT,
        type="ActivityTimedOut",
        message=f"the handler did not end within its timeout of {timeout_ms / 1000:g} s",
    )


def _type_name(error: BaseException) -> str:
    kind = type(error)
    name = (
        kind.__qualname__
        if kind.__module__ == "builtins"
        else f"{kind.__module__}.{kind.__qualname__}"
    )
    return _storable(name, 200)


def _message(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception as broken:  # noqa: BLE001 - foreign code; its failure is the message then
        text = f"(its message could not be made: {type(broken).__name__})"
    return _storable(text, MAX_MESSAGE)


def _traceback(error: BaseException) -> str:
    frames = _handler_frames(error.__traceback__)
    try:
        text = "".join(traceback.format_exception(type(error), error, frames))
    except Exception:  # noqa: BLE001 - the frames alone then; formatting an exception calls foreign code
        text = "".join(traceback.format_tb(frames))
    if len(text) > MAX_TRACEBACK:
        # The last frames are the ones nearest to the fault.
        text = "... (trimmed)\n" + text[-MAX_TRACEBACK:]
    return _storable(text, MAX_TRACEBACK + 20)


def _handler_frames(trace: TracebackType | None) -> TracebackType | None:
    """Without the engine's own frames at the top, which say nothing about the handler's fault."""
    skipped = trace
    while skipped is not None and skipped.tb_frame.f_globals.get("__name__", "") in _OURS:
        skipped = skipped.tb_next
    return trace if skipped is None else skipped


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen = {id(error)}
    cause = _cause_of(error)
    while cause is not None and id(cause) not in seen and len(seen) <= MAX_CAUSES:
        yield cause
        seen.add(id(cause))
        cause = _cause_of(cause)


def _cause_of(error: BaseException) -> BaseException | None:
    if error.__cause__ is not None:
        return error.__cause__
    return None if error.__suppress_context__ else error.__context__


def _storable(text: str, limit: int) -> str:
    """Text every backend can store: no NUL, no lone surrogates, bounded."""
    # Cut before it is cleaned as well: a message may have hundreds of megabytes.
    clean = text[: limit + 1].encode("utf-8", "backslashreplace").decode("utf-8")
    clean = clean.replace("\x00", "\\x00")
    return clean if len(clean) <= limit else clean[:limit] + "…"
