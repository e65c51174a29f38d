"""What a child process writes, line by line, without waiting for those that inherited its pipe.

asyncio's own pipes keep `Process.wait()` from returning until every holder of the pipe is gone, also a
grandchild that outlived the child. Ours are apart from it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

_LINE_LIMIT = 1024 * 1024
_LAST_LINES_SECONDS = 0.5


@asynccontextmanager
async def output_pipe(line: Callable[[str], None]) -> AsyncGenerator[Pipe]:
    """A pipe for a child's stdout and stderr; `line` gets each line, decoded.

    Hand `pipe.write_end` to the child and call `pipe.handed_over` once it runs. Leaving waits for half
    a second for last lines.
    """
    read_end, write_end = os.pipe()
    pipe = Pipe(write_end)
    reader = asyncio.StreamReader(limit=_LINE_LIMIT)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(read_end, "rb", 0)
    )
    forwarding = asyncio.create_task(_forward(reader, line))
    try:
        yield pipe
        pipe.handed_over()
        await asyncio.wait({forwarding}, timeout=_LAST_LINES_SECONDS)
    finally:
        pipe.handed_over()
        forwarding.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await forwarding
        transport.close()


class Pipe:
    def __init__(self, write_end: int) -> None:
        self.write_end = write_end
        self._open = True

    def handed_over(self) -> None:
        """The child has it: close our copy, so that the pipe ends with the child."""
        if self._open:
            self._open = False
            os.close(self.write_end)


async def _forward(reader: asyncio.StreamReader, line: Callable[[str], None]) -> None:
    while True:
        try:
            text = await reader.readline()
        except ValueError:
            line(f"(a line of more than {_LINE_LIMIT} bytes was left out)")
            continue
        if not text:
            return
        line(text.decode(errors="replace").rstrip())
