"""FaultyBackend: any backend, with faults on demand. For tests of what an app does in an outage.

Never fails by itself: without a fault it is the backend that it wraps.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from runnerq.errors import BackendUnavailable, StorageError
from runnerq.storage import ports
from runnerq.storage.wakeup import Wakeup

if TYPE_CHECKING:
    from collections.abc import Callable

    from runnerq.storage.ports import Storage as _Wrapped
else:
    # At run time the calls are handed on by `__getattr__`, which a base's own methods would hide.
    _Wrapped = object


@dataclass(eq=False, kw_only=True)
class _Fault:
    methods: frozenset[str]
    left: int | None
    """Calls it still strikes; None: until it is lifted."""
    error: Exception | None = None
    after: bool = False
    """The call has its effect, only the answer is lost."""
    seconds: float = 0
    stall: Stall | None = None
    when: Callable[..., bool] | None = None


class Stall:
    """Calls that neither answer nor fail until `release`."""

    def __init__(self) -> None:
        self._released = threading.Event()
        self._changed = Wakeup()
        self._waiting = 0

    @property
    def waiting(self) -> int:
        """Calls that are stuck here now."""
        return self._waiting

    def release(self) -> None:
        self._released.set()
        self._changed.notify()

    async def wait(self) -> None:
        self._waiting += 1
        try:
            seen = self._changed.version()
            while not self._released.is_set():
                seen = await self._changed.wait(seen, timeout=3600)
        finally:
            self._waiting -= 1

    def wait_blocking(self) -> None:
        self._waiting += 1
        try:
            self._released.wait()
        finally:
            self._waiting -= 1


@dataclass
class _Calls:
    counts: Counter[str] = field(default_factory=Counter[str])
    faults: list[_Fault] = field(default_factory=list[_Fault])
    lock: threading.Lock = field(default_factory=threading.Lock)


class FaultyBackend(_Wrapped):
    """Wraps `backend`; faults strike calls by method name, in the order in which they were given.

    >>> from runnerq.storage.memory import MemoryBackend
    >>> backend = FaultyBackend(MemoryBackend())
    >>> backend.fail("acknowledge", times=3)
    """

    def __init__(self, backend: ports.Storage) -> None:
        self._backend: Any = backend
        self._calls = _Calls()

    @property
    def calls(self) -> Counter[str]:
        """How often each method was called, faults included."""
        return self._calls.counts

    def fail(
        self,
        *methods: str,
        times: int | None = 1,
        error: Exception | None = None,
        when: Callable[..., bool] | None = None,
    ) -> None:
        """The next `times` calls (None: all) raise `error`, by default BackendUnavailable, without any
        effect. `when` is asked with the call's arguments whether this one is meant."""
        failure = error or BackendUnavailable("a fault of the test: the backend is not there")
        self._add(_Fault(methods=_known(methods), left=times, error=failure, when=when))

    def refuse(
        self, *methods: str, times: int | None = 1, when: Callable[..., bool] | None = None
    ) -> None:
        """The backend is there, but says no: StorageError."""
        self.fail(
            *methods, times=times, error=StorageError("a fault of the test: refused"), when=when
        )

    def lose_answer(self, *methods: str, times: int | None = 1) -> None:
        """The call has its effect and raises BackendUnavailable all the same."""
        error = BackendUnavailable("a fault of the test: the answer was lost")
        self._add(_Fault(methods=_known(methods), left=times, error=error, after=True))

    def delay(self, *methods: str, seconds: float, times: int | None = 1) -> None:
        """The call takes that much longer."""
        self._add(_Fault(methods=_known(methods), left=times, seconds=seconds))

    def stall(self, *methods: str) -> Stall:
        """Calls hang until the stall that is returned is released."""
        stall = Stall()
        self._add(_Fault(methods=_known(methods), left=None, stall=stall))
        return stall

    def cut_off(self) -> None:
        """Every call fails, until `heal`."""
        self.fail(*_METHODS, times=None)

    def heal(self) -> None:
        """Lift all faults; calls that are stalled go on."""
        with self._calls.lock:
            faults, self._calls.faults = self._calls.faults, []
        for fault in faults:
            if fault.stall is not None:
                fault.stall.release()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._backend, name)
        if name not in _METHODS:
            return found
        if inspect.iscoroutinefunction(found):

            async def call(*args: Any, **kwargs: Any) -> Any:
                fault = self._strike(name, args, kwargs)
                if fault is None:
                    return await found(*args, **kwargs)
                await asyncio.sleep(fault.seconds)
                if fault.stall is not None:
                    await fault.stall.wait()
                if fault.error is not None and not fault.after:
                    raise fault.error
                answer = await found(*args, **kwargs)
                if fault.error is not None:
                    raise fault.error
                return answer

            return call

        def call_blocking(*args: Any, **kwargs: Any) -> Any:
            fault = self._strike(name, args, kwargs)
            if fault is None:
                return found(*args, **kwargs)
            time.sleep(fault.seconds)
            if fault.stall is not None:
                fault.stall.wait_blocking()
            if fault.error is not None and not fault.after:
                raise fault.error
            answer = found(*args, **kwargs)
            if fault.error is not None:
                raise fault.error
            return answer

        return call_blocking

    def _add(self, fault: _Fault) -> None:
        with self._calls.lock:
            self._calls.faults.append(fault)

    def _strike(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Fault | None:
        """The fault that strikes this call, if any."""
        with self._calls.lock:
            self._calls.counts[name] += 1
            for fault in self._calls.faults:
                if name not in fault.methods or fault.left == 0:
                    continue
                if fault.when is not None and not fault.when(*args, **kwargs):
                    continue
                if fault.left is not None:
                    fault.left -= 1
                return fault
        return None


_METHODS = frozenset(
    name
    for name in dir(ports.Storage)
    if not name.startswith("_") and name not in ("capabilities", "default_queue", "work_signal")
)
"""What faults can strike: everything that talks to the backend."""


def _known(methods: tuple[str, ...]) -> frozenset[str]:
    unknown = set(methods) - _METHODS
    if unknown or not methods:
        raise ValueError(
            f"methods: {', '.join(sorted(unknown)) or 'none given'}; a backend has "
            f"{', '.join(sorted(_METHODS))}"
        )
    return frozenset(methods)
