"""A Postgres server of our own: data in the state folder, loopback only, with a password.

Durable: its data survives every restart. It is a session of its own, so Ctrl-C does not reach it before
the workers have drained; it is stopped last, by its pid. One that dies is started again on the same port, so
that those who use it find it where it was.

    none --initdb--> stopped --start--> running --stop (fast shutdown)--> stopped
                                          ^ '-dies-> started again
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

from runnerq.errors import BackendUnavailable
from runnerq_operator.local.binaries import Binaries
from runnerq_operator.local.folder import write_private

logger = logging.getLogger(__name__)

USER = "runnerq"
DATABASE = "postgres"
_START_SECONDS = 60.0
_STOP_SECONDS = 20.0
_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 30.0
"""Seconds before a server that died is started again, doubled for each time that fails."""
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "200",
    "log_timezone": "UTC",
    "timezone": "UTC",
}


class LocalPostgres:
    """`folder` holds data and log; `started` is told the server's process id."""

    def __init__(
        self,
        binaries: Binaries,
        folder: Path,
        *,
        password: str,
        started: Callable[[int], None],
    ) -> None:
        self._binaries = binaries
        self._data = folder / f"postgres-{binaries.major}"
        self._log = folder / "postgres.log"
        self._password = password
        self._started = started
        self._port = 0
        self._process: asyncio.subprocess.Process | None = None
        self._keeper: asyncio.Task[None] | None = None

    async def start(self) -> str:
        """Start, and make the data folder before if there is none; the URL. Raises
        BackendUnavailable with the end of the server's log."""
        if not (self._data / "PG_VERSION").exists():
            await asyncio.to_thread(self._initialise)
        self._port = _free_port()
        await self._launch()
        self._keeper = asyncio.create_task(self._keep_running(), name="postgres-keeper")
        return self._url

    async def stop(self) -> None:
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            keeper.cancel()
            await asyncio.wait({keeper})
        await self._end()

    @property
    def _url(self) -> str:
        return f"postgresql://{USER}:{self._password}@127.0.0.1:{self._port}/{DATABASE}"

    async def _launch(self) -> None:
        """Until the server answers, or is gone again."""
        options = [part for name, value in _SETTINGS.items() for part in ("-c", f"{name}={value}")]
        account = self._binaries.account
        log = self._log.open("ab")
        with log:
            self._process = await asyncio.create_subprocess_exec(
                self._binaries.folder / "postgres",
                *("-D", str(self._data), "-p", str(self._port), *options),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._data,
                start_new_session=True,
                user=account.uid if account else None,
                group=account.gid if account else None,
                extra_groups=() if account else None,
            )
        self._started(self._process.pid)
        try:
            await self._until_answering(self._url)
        except BaseException:
            await self._end()
            raise

    async def _keep_running(self) -> None:
        """Start the server again whenever it dies: killed for its memory, say. What it had committed
        is on disk, and clients try again."""
        pause = _FIRST_PAUSE
        while True:
            if self._process is not None:
                code = await self._process.wait()
                logger.warning("Postgres died (%s); starting it again", _ending(code))
            await asyncio.sleep(pause)
            try:
                await self._launch()
            except (BackendUnavailable, OSError) as error:
                pause = min(pause * 2, _LONGEST_PAUSE)
                logger.warning("Postgres: %s; tried again in %.0f s", error, pause)
            else:
                pause = _FIRST_PAUSE
                logger.warning("Postgres runs again")

    async def _end(self) -> None:
        process, self._process = self._process, None
        if process is None or process.returncode is not None:
            return
        process.send_signal(signal.SIGINT)
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                await process.wait()
        except TimeoutError:
            logger.warning("Postgres did not stop within %.0f s; killed", _STOP_SECONDS)
            process.kill()
            await process.wait()

    def _initialise(self) -> None:
        """Make the data folder: under another name until it is complete, so that one that was
        interrupted half-way is never taken for it."""
        unfinished = self._data.with_suffix(".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(mode=0o700)
        account = self._binaries.account
        if account is not None:
            os.chown(unfinished, account.uid, account.gid)
        # In a file that only the server's account may read: never in the process list.
        password = self._data.with_suffix(".password")
        write_private(password, self._password)
        try:
            if account is not None:
                os.chown(password, account.uid, account.gid)
            made = subprocess.run(
                [
                    self._binaries.folder / "initdb",
                    *("-D", str(unfinished), "-U", USER, "-A", "scram-sha-256"),
                    *("--encoding", "UTF8", "--locale", "C", f"--pwfile={password}"),
                ],
                capture_output=True,
                text=True,
                check=False,
                cwd=unfinished,
                user=account.uid if account else None,
                group=account.gid if account else None,
                extra_groups=() if account else None,
            )
        finally:
            password.unlink()
        if made.returncode:
            raise BackendUnavailable(f"initdb failed: {made.stderr.strip()}")
        unfinished.rename(self._data)

    async def _until_answering(self, url: str) -> None:
        import asyncpg

        deadline = asyncio.get_running_loop().time() + _START_SECONDS
        while True:
            if self._process is None or self._process.returncode is not None:
                raise BackendUnavailable(f"Postgres did not start: {self._last_words()}")
            try:
                connection = await asyncpg.connect(url, timeout=2)
            except (OSError, TimeoutError, asyncpg.CannotConnectNowError):
                if asyncio.get_running_loop().time() > deadline:
                    raise BackendUnavailable(
                        f"Postgres did not answer within {_START_SECONDS:.0f} s: {self._last_words()}"
                    ) from None
                await asyncio.sleep(0.05)
            else:
                await connection.close()
                return

    def _last_words(self) -> str:
        try:
            lines = self._log.read_text(errors="replace").splitlines()[-5:]
        except FileNotFoundError:
            return "it wrote no log"
        return " / ".join(lines)


def _ending(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
