"""ProcessSlots: `cpu=True` handlers in processes that can be ended.

A process is started when first needed and reused. One whose attempt was interrupted is killed, since
nothing else stops a computation; the next attempt gets a new one.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import TYPE_CHECKING, Any

import msgspec

from runnerq.engine.cpu_child import HEADER, CpuReply, CpuRequest
from runnerq.errors import ConfigurationError

if TYPE_CHECKING:
    from runnerq.activity import ActivityDefinition

log = logging.getLogger(__name__)


class CpuProcessDied(Exception):
    """The process ended in the middle of a handler (killed, out of memory, a crash in C code)."""


class ProcessSlots:
    """At most `limit` processes. `acquire` waits for one; `release` gives it back."""

    def __init__(self, limit: int) -> None:
        self._free = asyncio.Semaphore(limit)
        self._idle: list[_Child] = []
        self._all: set[_Child] = set()

    async def acquire(self) -> _Child:
        await self._free.acquire()
        while self._idle:
            child = self._idle.pop()
            if child.alive:
                return child
        child = None
        try:
            child = await _Child.start()
            self._all.add(child)
            await child.prepare()
        except BaseException:
            if child is None:
                self._free.release()
            else:
                self.release(child, reusable=False)
            raise
        return child

    def release(self, child: _Child, *, reusable: bool) -> None:
        if reusable and child.alive:
            self._idle.append(child)
        else:
            child.kill()
        # One that was killed takes a moment to be gone; `close` waits for it if it must.
        self._all = {one for one in self._all if one.alive}
        self._free.release()

    async def close(self) -> None:
        children, self._idle = list(self._all), []
        self._all.clear()
        for child in children:
            child.kill()
        for child in children:
            await child.gone()


class _Child:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls) -> _Child:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",  # not -m: that would import the module twice, and say so on stderr
            "from runnerq.engine.cpu_child import main; main()",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        return cls(process)

    async def prepare(self) -> None:
        """Give it the import path of this process."""
        try:
            await self._send(msgspec.json.encode(sys.path))
        except ConnectionError as error:
            raise await self._died() from error

    @property
    def alive(self) -> bool:
        return self._process.returncode is None

    async def run(self, definition: ActivityDefinition[Any, Any], payload: bytes) -> CpuReply:
        """Raises CpuProcessDied when the process ends before it replies."""
        module, name = importable_name(definition)
        try:
            await self._send(
                msgspec.msgpack.encode(CpuRequest(module=module, name=name, payload=payload))
            )
            assert self._process.stdout is not None  # noqa: S101 - opened as PIPE above
            header = await self._process.stdout.readexactly(HEADER.size)
            data = await self._process.stdout.readexactly(HEADER.unpack(header)[0])
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise await self._died() from error
        return msgspec.msgpack.decode(data, type=CpuReply)

    def kill(self) -> None:
        if self.alive:
            try:
                self._process.kill()
            except ProcessLookupError:
                log.debug("cpu process %d was already gone", self._process.pid)

    async def gone(self) -> None:
        await self._process.wait()

    async def _died(self) -> CpuProcessDied:
        code = await self._process.wait()
        return CpuProcessDied(
            f"the process of the handler ended with code {code} before it replied"
        )

    async def _send(self, data: bytes) -> None:
        assert self._process.stdin is not None  # noqa: S101 - opened as PIPE above
        self._process.stdin.write(HEADER.pack(len(data)) + data)
        await self._process.stdin.drain()


def importable_name(definition: ActivityDefinition[Any, Any]) -> tuple[str, str]:
    """Where another process finds the definition. Raises ConfigurationError if it cannot."""
    module = getattr(definition.function, "__module__", None)
    name = getattr(definition.function, "__qualname__", None)
    found: Any = sys.modules.get(module or "")
    for part in (name or "").split("."):
        found = getattr(found, part, None)
    if module is None or name is None or module == "__main__" or found is not definition:
        raise ConfigurationError(
            f"{definition.type!r} is cpu=True, but another process cannot import it as {module}.{name}; "
            "declare it with @activity at the top level of a module",
            field="cpu",
        )
    return module, name
