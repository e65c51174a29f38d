"""Which calls of a backend are to fail, and how. The part of `FaultyBackend` that knows no backend."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from runnerq.errors import BackendUnavailable, StorageError
from runnerq.storage import ports
from runnerq.storage.wakeup import Wakeup

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

P = ParamSpec("P")
R = TypeVar("R")

METHODS = frozenset(
    name
    for name in dir(ports.Storage)
    if not name.startswith("_") and name not in ("capabilities", "default_queue", "work_signal")
)
"""What faults can strike: everything that talks to the backend."""


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
        """From any thread."""
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


class FaultPlan:
    """Faults strike calls by method name, in the order in which they were given."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        """How often each method was called, faults included."""
        self._faults: list[_Fault] = []
        self._lock = threading.Lock()

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
        error = StorageError("a fault of the test: refused")
        self.fail(*methods, times=times, error=error, when=when)

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
        self.fail(*METHODS, times=None)

    def heal(self) -> None:
        """Lift all faults; calls that are stalled go on."""
        with self._lock:
            faults, self._faults = self._faults, []
        for fault in faults:
            if fault.stall is not None:
                fault.stall.release()

    async def run(self, call: Callable[P, Awaitable[R]], *args: P.args, **kwargs: P.kwargs) -> R:
        """The call's answer, or what a fault makes of it."""
        fault = self._strike(call, args, kwargs)
        if fault is None:
            return await call(*args, **kwargs)
        await asyncio.sleep(fault.seconds)
        if fault.stall is not None:
            await fault.stall.wait()
        if fault.error is not None and not fault.after:
            raise fault.error
        answer = await call(*args, **kwargs)
        if fault.error is not None:
            raise fault.error
        return answer

    def run_blocking(self, call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """The same for a call that does not await."""
        fault = self._strike(call, args, kwargs)
        if fault is None:
            return call(*args, **kwargs)
        time.sleep(fault.seconds)
        if fault.stall is not None:
            fault.stall.wait_blocking()
        if fault.error is not None and not fault.after:
            raise fault.error
        answer = call(*args, **kwargs)
        if fault.error is not None:
            raise fault.error
        return answer

    def _add(self, fault: _Fault) -> None:
        with self._lock:
            self._faults.append(fault)

    def _strike(
        self, call: Callable[..., object], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> _Fault | None:
        """The fault that strikes this call, if any."""
        name = call.__name__
        with self._lock:
            self.calls[name] += 1
            for fault in self._faults:
                if name not in fault.methods or fault.left == 0:
                    continue
                if fault.when is not None and not fault.when(*args, **kwargs):
                    continue
                if fault.left is not None:
                    fault.left -= 1
                return fault
        return None


def _known(methods: tuple[str, ...]) -> frozenset[str]:
    unknown = set(methods) - METHODS
    if unknown or not methods:
        raise ValueError(
            f"methods: {', '.join(sorted(unknown)) or 'none given'}; a backend has "
            f"{', '.join(sorted(METHODS))}"
        )
    return frozenset(methods)
