"""What counts as the prose of a file, and that bad input is an answer and no exception."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docs_index.corpus import BadFile, Kind, Problem, SourceFile
from docs_index.extract import HUGE_BYTES, Prose, extract, read_prose
from docs_index.words import words_of

ReadProse = Callable[[str, str | bytes], Prose]
FindProblem = Callable[[str, str | bytes], BadFile]


@pytest.fixture
def prose_of(tmp_path: Path) -> ReadProse:
    def read(name: str, content: str | bytes) -> Prose:
        prose = read_prose(written(tmp_path, name, content))
        assert isinstance(prose, Prose), prose
        return prose

    return read


@pytest.fixture
def problem_of(tmp_path: Path) -> FindProblem:
    def read(name: str, content: str | bytes) -> BadFile:
        bad = read_prose(written(tmp_path, name, content))
        assert isinstance(bad, BadFile), bad
        assert bad.name == f"root/{name}"
        return bad

    return read


def written(folder: Path, name: str, content: str | bytes) -> SourceFile:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return SourceFile(str(path), f"root/{name}")


MODULE = '''#!/usr/bin/env python
# -*- coding: utf-8 -*-
"""Counts sheep.

Falls asleep in the end.
"""
NAME = "not # a comment"  # the flock's name
other = 'nor """this"""'
# one paragraph
# in two lines
x = 1  # noqa: E501

def count():
    \'\'\'How many there are.\'\'\'
    return "he said \\"# no\\""
'''


def test_python_is_read_for_its_comments_and_docstrings(prose_of: ReadProse):
    prose = prose_of("sheep.py", MODULE)
    assert prose.kind is Kind.PYTHON
    assert prose.title == "Counts sheep."
    assert prose.size_bytes == len(MODULE)
    paragraphs = [" ".join(part.split()) for part in prose.text.split("\n\n") if part.strip()]
    assert paragraphs == [
        "Counts sheep.",
        "Falls asleep in the end.",
        "the flock's name",
        "one paragraph in two lines",
        "How many there are.",
    ]


def test_python_that_no_parser_would_take_is_still_read(prose_of: ReadProse):
    assert words_of(prose_of("broken.py", "def (:\n# still a remark\nx = '''open").text) == [
        "still",
        "a",
        "remark",
    ]


def test_python_declares_its_own_encoding(prose_of: ReadProse):
    source = "# coding: latin-1\n# Grüße aus Köln\n".encode("latin-1")
    assert words_of(prose_of("greetings.py", source).text) == ["grüße", "aus", "köln"]


def test_html_is_read_without_markup_scripts_and_styles(prose_of: ReadProse):
    page = (
        "<!doctype html><title>The &amp; page</title><style>p {color: red}</style>"
        "<p>First <b>bo</b>ld word.<script>var hidden = '<p>';</script><p>Second.</p>"
    )
    prose = prose_of("page.html", page)
    assert prose.title == "The & page"
    assert words_of(prose.text) == ["the", "page", "first", "bold", "word", "second"]


def test_metadata_gives_its_summary_and_description(prose_of: ReadProse):
    source = "Metadata-Version: 2.1\nName: sheep\nVersion: 1.2\nSummary: Counts them\n\nA body.\n"
    prose = prose_of("METADATA", source)
    assert prose.title == "sheep 1.2: Counts them"
    assert words_of(prose.text) == ["counts", "them", "a", "body"]


def test_metadata_of_the_old_form_has_its_description_in_a_header(prose_of: ReadProse):
    source = "Metadata-Version: 1.0\nName: sheep\nDescription: Old words\n        go on\n"
    assert words_of(prose_of("PKG-INFO", source).text) == ["old", "words", "go", "on"]


def test_a_record_gives_its_paths_without_hashes_and_sizes(prose_of: ReadProse):
    prose = prose_of("RECORD", "sheep/count.py,sha256=abcdef,120\nsheep/RECORD,,\n")
    assert words_of(prose.text) == ["sheep", "count", "py", "sheep", "record"]
    assert prose.title == "2 installed files"


def test_markdown_loses_its_code_blocks_and_every_text_its_addresses(prose_of: ReadProse):
    text = "# Heading here\nSee https://example.org/some/page now.\n```sh\nrm file\n```\nEnd.\n"
    prose = prose_of("README.md", text)
    assert prose.title == "Heading here"
    assert words_of(prose.text) == ["heading", "here", "see", "now", "end"]


def test_a_byte_order_mark_and_foreign_line_ends_leave_no_trace(prose_of: ReadProse):
    assert prose_of("a.txt", b"\xef\xbb\xbfOne line\r\nTwo\rThree").text == "One line\nTwo\nThree"


def test_a_long_title_is_one_printable_line_cut_at_a_word(prose_of: ReadProse):
    title = prose_of("a.txt", "word \x1b[1m " * 40).title
    assert title.isprintable()
    assert len(title) <= 73
    assert title.endswith("…")


def test_bytes_that_are_no_text_are_undecodable(problem_of: FindProblem):
    bad = problem_of("a.txt", b"th\xe9 noir")
    assert bad.problem is Problem.UNDECODABLE
    assert "0xe9" in bad.detail


def test_an_unknown_source_encoding_is_undecodable(problem_of: FindProblem):
    assert problem_of("a.py", "# coding: uft-8\n").problem is Problem.UNDECODABLE


def test_a_nul_makes_a_file_binary_wherever_it_stands(problem_of: FindProblem):
    bad = problem_of("a.txt", b"word " * 5000 + b"\0")
    assert (bad.problem, bad.detail) == (Problem.BINARY, "NUL at byte 25,000")


def test_a_huge_file_is_never_read(problem_of: FindProblem):
    bad = problem_of("a.txt", b"a" * (HUGE_BYTES + 1))
    assert (bad.problem, bad.detail) == (
        Problem.HUGE,
        "1,048,577 bytes, the limit is 1,048,576",
    )


def test_a_file_of_the_largest_size_is_read(prose_of: ReadProse):
    assert prose_of("a.txt", b"a" * HUGE_BYTES).size_bytes == HUGE_BYTES


@pytest.mark.parametrize("content", ["", "1 + 1 = 2\n", "\n\n"])
def test_a_file_without_a_word_is_empty(problem_of: FindProblem, content: str):
    assert problem_of("a.txt", content).problem is Problem.EMPTY


def test_a_page_that_the_parser_gives_up_on_is_malformed(
    problem_of: FindProblem, monkeypatch: pytest.MonkeyPatch
):
    def give_up(page: object, data: str) -> None:
        raise AssertionError("unexpected call to parse_declaration()")

    monkeypatch.setattr("docs_index.extract.HTMLParser.feed", give_up)
    bad = problem_of("a.html", "<p>word")
    assert bad.problem is Problem.MALFORMED
    assert "parse_declaration" in bad.detail


def test_a_missing_file_is_unreadable(tmp_path: Path):
    bad = read_prose(SourceFile(str(tmp_path / "gone.txt"), "root/gone.txt"))
    assert bad == BadFile("root/gone.txt", Problem.UNREADABLE, "No such file or directory")


def test_a_pipe_is_refused_before_it_could_block(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe.txt")
    bad = read_prose(SourceFile(str(tmp_path / "pipe.txt"), "root/pipe.txt"))
    assert bad == BadFile("root/pipe.txt", Problem.UNREADABLE, "not a regular file")


def test_extract_names_the_terms_a_file_leads_with(tmp_path: Path):
    file = written(tmp_path, "a.txt", "Sheep sleep. Sheep sleep; sheep dream of the meadow.")
    answer = extract(file)
    assert answer.bad is None
    assert answer.file == file
    assert answer.terms == ["sheep", "sleep", "dream", "meadow"]


def test_extract_answers_for_a_bad_file_too(tmp_path: Path):
    answer = extract(written(tmp_path, "a.txt", b"\0"))
    assert answer.bad is not None
    assert answer.bad.problem is Problem.BINARY
    assert answer.terms == []


@given(content=st.binary(max_size=400) | st.text(max_size=400).map(str.encode))
@pytest.mark.parametrize("name", ["a.py", "a.txt", "a.md", "a.html", "METADATA", "RECORD"])
def test_no_content_whatever_raises(
    tmp_path_factory: pytest.TempPathFactory, name: str, content: bytes
):
    folder = tmp_path_factory.getbasetemp() / "any"
    folder.mkdir(exist_ok=True)
    prose = read_prose(written(folder, name, content))
    if isinstance(prose, Prose):
        assert words_of(prose.text)
        assert prose.title.isprintable()
        prose.text.encode()
