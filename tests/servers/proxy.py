"""A TCP proxy that loses answers: what the network does at the worst moment, on demand."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Self
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from types import TracebackType

_CHUNK = 65_536


class Proxy:
    """Passes everything on, until it is `deaf`: then the server's answers go nowhere."""

    def __init__(self, server_url: str) -> None:
        self._target = urlsplit(server_url)
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self.deaf = False

    @property
    def url(self) -> str:
        if self._server is None:
            raise RuntimeError("the proxy is not running")
        port = self._server.sockets[0].getsockname()[1]
        return f"postgresql://{self._target.username}@127.0.0.1:{port}{self._target.path}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._server is not None:
            self._server.close()
        self.cut()

    def cut(self) -> None:
        """Reset every connection."""
        for writer in list(self._writers):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(self._target.hostname, self._target.port)
        self._writers |= {writer, back}
        try:
            # Whichever side ends, both are closed: the other pump then ends by itself.
            with suppress(OSError):
                async with asyncio.TaskGroup() as pumps:
                    pumps.create_task(self._pump(reader, back, answers=False))
                    pumps.create_task(self._pump(there, writer, answers=True))
        except* OSError:
            pass
        finally:
            self._writers -= {writer, back}
            writer.close()
            back.close()

    async def _pump(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, answers: bool
    ) -> None:
        try:
            while data := await source.read(_CHUNK):
                if not (answers and self.deaf):
                    sink.write(data)
                    await sink.drain()
        finally:
            sink.close()
