"""Finds the input files: the text, HTML and metadata files below a list of root folders.

Only looks at names; it never opens a file. What it cannot list or name is returned as a problem,
never dropped in silence. The same tree gives the same list, whatever the order of the disk.
"""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

import msgspec


class Kind(StrEnum):
    """How the text of a file is written, and so how it is read."""

    PYTHON = "python"
    TEXT = "text"
    RESTRUCTURED = "rst"
    MARKDOWN = "markdown"
    HTML = "html"
    METADATA = "metadata"
    RECORD = "record"


class Problem(StrEnum):
    """Why a file is listed in the report instead of being analysed."""

    EMPTY = "empty"
    HUGE = "huge"
    BINARY = "binary"
    UNDECODABLE = "undecodable"
    MALFORMED = "malformed"
    UNREADABLE = "unreadable"
    UNNAMEABLE = "unnameable"


class SourceFile(msgspec.Struct, frozen=True):
    """One file to index: where it is, and the name the report gives it (root/relative/path)."""

    path: str
    name: str


class BadFile(msgspec.Struct, frozen=True):
    """A file that could not be indexed: its name, why, and the detail a person needs to look."""

    name: str
    problem: Problem
    detail: str


class Corpus(msgspec.Struct, frozen=True):
    """What a search of the roots found; both lists are sorted by name."""

    files: tuple[SourceFile, ...]
    bad: tuple[BadFile, ...]


_BY_SUFFIX = {
    ".py": Kind.PYTHON,
    ".txt": Kind.TEXT,
    ".rst": Kind.RESTRUCTURED,
    ".md": Kind.MARKDOWN,
    ".html": Kind.HTML,
    ".htm": Kind.HTML,
}
_BY_NAME = {"METADATA": Kind.METADATA, "PKG-INFO": Kind.METADATA, "RECORD": Kind.RECORD}
# Distributions ship these without a suffix, or with one of their own such as LICENSE.APACHE.
_TEXT_STEMS = frozenset(
    {"AUTHORS", "CHANGES", "CHANGELOG", "COPYING", "CREDITS", "LICENCE", "LICENSE", "NOTICE"}
    | {"README", "THANKS"}
)
# A standard library contains its interpreter's site-packages, which need not be this environment's:
# those folders count only where they are roots themselves.
_NOT_ENTERED = frozenset({"__pycache__", "node_modules", "site-packages", "dist-packages"})


def kind_of(name: str) -> Kind | None:
    """The kind of a file by its base name, or None when it is not a document."""
    suffix = os.path.splitext(name)[1].lower()  # noqa: PTH122 - a name, not a path on disk
    if suffix in _BY_SUFFIX:
        return _BY_SUFFIX[suffix]
    if name in _BY_NAME:
        return _BY_NAME[name]
    return Kind.TEXT if name.split(".", maxsplit=1)[0].upper() in _TEXT_STEMS else None


def default_roots() -> tuple[Path, ...]:
    """The standard library and the installed packages of the running interpreter."""
    paths = sysconfig.get_paths()
    roots = (Path(paths[key]).resolve() for key in ("stdlib", "purelib", "platlib"))
    return tuple(dict.fromkeys(root for root in roots if root.is_dir()))


def find_sources(roots: Sequence[Path], *, limit: int | None = None) -> Corpus:
    """All documents below `roots`, each once, under the first root that reaches it.

    `limit` keeps that many files, taken evenly over the whole list so that a small run still sees
    every part of the tree. Raises ValueError for a root that is no folder or a limit below 1.
    """
    if limit is not None and limit < 1:
        raise ValueError(f"limit: {limit} files is not an index; give 1 or more, or leave it out")
    files: dict[str, SourceFile] = {}
    bad: list[BadFile] = []
    for label, root in _labelled(roots):
        if not root.is_dir():
            raise ValueError(f"root {str(root)!r}: not a folder; give one that exists")
        for source in _walk(label, root, bad):
            files.setdefault(source.path, source)
    ordered = sorted(files.values(), key=lambda source: source.name)
    if limit is not None and limit < len(ordered):
        ordered = [ordered[index * len(ordered) // limit] for index in range(limit)]
    return Corpus(tuple(ordered), tuple(sorted(bad, key=lambda each: each.name)))


def _labelled(roots: Sequence[Path]) -> list[tuple[str, Path]]:
    """Each root with a short name of its own: two folders called `lib` become lib and lib-2."""
    labelled: list[tuple[str, Path]] = []
    seen: dict[str, int] = {}
    for root in dict.fromkeys(root.resolve() for root in roots):
        base = root.name or "root"
        seen[base] = seen.get(base, 0) + 1
        labelled.append((base if seen[base] == 1 else f"{base}-{seen[base]}", root))
    return labelled


def _walk(label: str, root: Path, bad: list[BadFile]) -> list[SourceFile]:
    """The documents below one root; folders that cannot be listed and odd names go to `bad`."""

    def unlisted(error: OSError) -> None:
        folder = os.path.relpath(error.filename or root, root)
        bad.append(
            BadFile(_printable(f"{label}/{folder}"), Problem.UNREADABLE, str(error.strerror))
        )

    found: list[SourceFile] = []
    for folder, folders, names in os.walk(root, onerror=unlisted):
        folders[:] = sorted(
            each for each in folders if each not in _NOT_ENTERED and not each.startswith(".")
        )
        for name in names:
            if kind_of(name) is None:
                continue
            path = Path(folder) / name
            shown = f"{label}/{path.relative_to(root).as_posix()}"
            if _printable(shown) == shown:
                found.append(SourceFile(str(path), shown))
            else:
                # Such a name is bytes that are no text; a payload could not carry it faithfully.
                bad.append(BadFile(_printable(shown), Problem.UNNAMEABLE, "not valid UTF-8"))
    return found


def _printable(name: str) -> str:
    return name.encode("utf-8", "backslashreplace").decode("utf-8")
