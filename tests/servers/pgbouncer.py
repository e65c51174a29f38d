"""A private PgBouncer in front of a test's Postgres, in transaction or session mode."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Self
from urllib.parse import urlsplit

from tests.servers.postgres_server import free_port, server_account

if TYPE_CHECKING:
    from types import TracebackType

START_DEADLINE_SECONDS = 20.0


class PgBouncerMissing(RuntimeError):
    """PgBouncer is not on the machine; the message says how to get it."""


class PgBouncer:
    """A running pooler; a context manager. `url` goes through it to `server_url`'s database."""

    def __init__(self, server_url: str, *, pool_mode: str, pool_size: int = 4) -> None:
        binary = shutil.which("pgbouncer", path=os.environ.get("PATH", "") + ":/usr/sbin")
        if binary is None:
            raise PgBouncerMissing("pgbouncer is not installed; run: apt-get install pgbouncer")
        self._binary = binary
        self._server = urlsplit(server_url)
        self._mode = pool_mode
        self._size = pool_size
        self._folder = Path(tempfile.mkdtemp(prefix="runnerq-pgbouncer-"))
        self._process: subprocess.Popen[bytes] | None = None
        self.port = free_port()

    @property
    def url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}{self._server.path}"

    def __enter__(self) -> Self:
        account = server_account()
        uid = account and account.pw_uid
        gid = account and account.pw_gid
        settings = self._folder / "pgbouncer.ini"
        settings.write_text(
            "[databases]\n"
            f"* = host={self._server.hostname} port={self._server.port} user={self._server.username}\n"
            "[pgbouncer]\n"
            f"listen_addr = 127.0.0.1\nlisten_port = {self.port}\nunix_socket_dir =\n"
            f"auth_type = any\npool_mode = {self._mode}\ndefault_pool_size = {self._size}\n"
            f"max_client_conn = 100\nlogfile = {self._folder / 'log'}\n"
        )
        if uid is not None and gid is not None:
            os.chown(self._folder, uid, gid)
        self._process = subprocess.Popen(
            [self._binary, "-q", settings],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self._folder,
            user=uid,
            group=gid,
            extra_groups=None if uid is None else [],
        )
        try:
            self._wait_until_ready()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(10)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_DEADLINE_SECONDS
        while time.monotonic() < deadline:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.02)
        log = self._folder / "log"
        raise RuntimeError(f"pgbouncer did not listen: {log.read_text() if log.exists() else ''}")
