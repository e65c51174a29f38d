"""Which files the index takes, and what it says about the others."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from docs_index.corpus import Kind, Problem, default_roots, find_sources, kind_of


def write(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("text\n")


def names(*roots: Path, limit: int | None = None) -> list[str]:
    return [each.name for each in find_sources(roots, limit=limit).files]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("json.py", Kind.PYTHON),
        ("Grammar.txt", Kind.TEXT),
        ("index.rst", Kind.RESTRUCTURED),
        ("README.md", Kind.MARKDOWN),
        ("index.HTML", Kind.HTML),
        ("METADATA", Kind.METADATA),
        ("PKG-INFO", Kind.METADATA),
        ("RECORD", Kind.RECORD),
        ("LICENSE", Kind.TEXT),
        ("LICENSE.APACHE", Kind.TEXT),
        ("licence", Kind.TEXT),
        ("module.so", None),
        ("table.json", None),
        ("metadata", None),
    ],
)
def test_a_file_is_a_document_by_its_name_alone(name: str, kind: Kind | None):
    assert kind_of(name) is kind


def test_files_are_named_by_root_and_sorted_whatever_the_disk_says(tmp_path: Path):
    root = tmp_path / "lib"
    write(root, "b.py", "a/z.txt", "a/a.txt", "skip.bin")
    found = find_sources([root])
    assert [each.name for each in found.files] == ["lib/a/a.txt", "lib/a/z.txt", "lib/b.py"]
    assert [each.path for each in found.files] == [
        str(root / "a/a.txt"),
        str(root / "a/z.txt"),
        str(root / "b.py"),
    ]
    assert found.bad == ()


def test_installed_packages_count_only_as_a_root_of_their_own(tmp_path: Path):
    lib = tmp_path / "python3"
    write(lib, "os.py", "site-packages/click/core.py", "__pycache__/x.txt", ".hidden/y.txt")
    assert names(lib) == ["python3/os.py"]
    assert names(lib, lib / "site-packages") == ["python3/os.py", "site-packages/click/core.py"]


def test_a_file_reached_by_two_roots_is_listed_once_under_the_first(tmp_path: Path):
    write(tmp_path / "outer", "inner/a.py", "b.py")
    outer, inner = tmp_path / "outer", tmp_path / "outer" / "inner"
    assert names(outer, inner, outer) == ["outer/b.py", "outer/inner/a.py"]
    assert names(inner, outer) == ["inner/a.py", "outer/b.py"]


def test_two_roots_of_one_name_are_told_apart(tmp_path: Path):
    write(tmp_path, "one/lib/a.py", "two/lib/a.py")
    assert names(tmp_path / "one/lib", tmp_path / "two/lib") == ["lib-2/a.py", "lib/a.py"]


def test_a_limit_samples_the_whole_list_evenly(tmp_path: Path):
    write(tmp_path, *(f"{number:02}.txt" for number in range(20)))
    assert [Path(name).stem for name in names(tmp_path, limit=4)] == ["00", "05", "10", "15"]
    assert len(names(tmp_path, limit=20)) == 20
    assert len(names(tmp_path, limit=1000)) == 20


def test_a_limit_below_one_is_refused_by_name(tmp_path: Path):
    with pytest.raises(ValueError, match=r"^limit: 0 files"):
        find_sources([tmp_path], limit=0)


def test_a_root_that_is_no_folder_is_refused_by_name(tmp_path: Path):
    write(tmp_path, "file.txt")
    with pytest.raises(ValueError, match=r"^root .*file\.txt'"):
        find_sources([tmp_path / "file.txt"])


def test_a_name_that_is_no_text_is_reported_and_not_listed(tmp_path: Path):
    write(tmp_path, "good.txt")
    (Path(os.fsdecode(os.fsencode(tmp_path) + b"/bad\xff.txt"))).write_text("text")
    found = find_sources([tmp_path])
    assert [Path(each.name).name for each in found.files] == ["good.txt"]
    (bad,) = found.bad
    assert bad.problem is Problem.UNNAMEABLE
    assert bad.name.endswith("bad\\udcff.txt")


def test_a_folder_that_cannot_be_listed_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    write(tmp_path, "open/a.txt", "closed/b.txt")
    scandir = os.scandir

    def refusing(path: str | Path):
        if Path(path).name == "closed":  # file modes would not stop a test that runs as root
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    found = find_sources([tmp_path])
    assert [Path(each.name).name for each in found.files] == ["a.txt"]
    assert [(each.problem, each.detail) for each in found.bad] == [
        (Problem.UNREADABLE, "Permission denied")
    ]
    assert found.bad[0].name.endswith("/closed")


def test_the_default_is_this_interpreters_library_and_packages():
    roots = default_roots()
    assert Path(os.__file__).resolve().parent in roots
    assert Path(pytest.__file__).resolve().parent.parent in roots
