"""A TCP proxy in front of the API server that can go silent without closing anything, as networks do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager


class SilentProxy:
    """Forwards; `freeze` makes the connections of that moment swallow everything, new ones work."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._generation = 0
        self._frozen = -1
        self.connections = 0
        self.port = 0

    def freeze(self) -> None:
        self._frozen = self._generation
        self._generation += 1

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[SilentProxy]:
        serving: list[asyncio.Task[None]] = []
        async with asyncio.TaskGroup() as group:

            def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                serving.append(group.create_task(self._serve(reader, writer)))

            server = await asyncio.start_server(connected, "127.0.0.1", 0)
            self.port = server.sockets[0].getsockname()[1]
            try:
                yield self
            finally:
                server.close()
                for task in serving:
                    task.cancel()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        generation = self._generation
        self.connections += 1
        ahead_reader, ahead_writer = await asyncio.open_connection("127.0.0.1", self._target)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pump(generation, reader, ahead_writer))
                group.create_task(self._pump(generation, ahead_reader, writer))
        except* OSError:
            pass  # one side went away: so does the other
        finally:
            writer.close()
            ahead_writer.close()

    async def _pump(
        self, generation: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        while data := await reader.read(65536):
            if generation <= self._frozen:
                continue
            writer.write(data)
            await writer.drain()
        raise ConnectionResetError("the other side closed")
