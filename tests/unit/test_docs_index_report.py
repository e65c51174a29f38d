"""The plan between the stages, the page, and the serial script that makes it."""

from __future__ import annotations

import re
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest

from docs_index import charts, serial
from docs_index.analyse import Analysed, AnalyseRequest, Analysis
from docs_index.corpus import BadFile, Kind, Problem, SourceFile, find_sources
from docs_index.extract import Extracted
from docs_index.plan import analyse_requests, batched, report_request
from docs_index.report import Report, ReportRequest, report

HOSTILE = """<script>alert(1)</script>"'&"""


def extracted(name: str, *terms: str, bad: Problem | None = None) -> Extracted:
    file = SourceFile(f"/data/{name}", name)
    return Extracted(file, list(terms), BadFile(name, bad, "why") if bad else None)


def document(
    name: str, *, title: str = "A title", ease: float | None = 50.0, words: int = 500
) -> Analysis:
    return Analysis(
        name=name,
        kind=Kind.PYTHON,
        title=title,
        size_bytes=100,
        words=words,
        keywords=["sheep", "sleep"],
        reading_ease=ease,
        signature="0" * 64,
    )


LETTERS = str.maketrans("0123456789", "ghijklmnop")


def digest(*parts: object) -> str:
    """64 hexadecimal digits that look random and are always the same."""
    return sha256("/".join(map(str, parts)).encode()).hexdigest()


class Outline(HTMLParser):
    """The tags of a page and its visible text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small library: prose, code, a page, metadata, copies, and every kind of bad file."""
    root = tmp_path_factory.mktemp("tree") / "lib"
    (root / "sheep").mkdir(parents=True)
    for number in range(12):
        words = [digest(number, n).translate(LETTERS)[:6] for n in range(270)]
        sentences = ". ".join(" ".join(words[n : n + 9]) for n in range(0, 270, 9))
        (root / "sheep" / f"m{number}.py").write_text(f'"""Module {number}.\n\n{sentences}.\n"""\n')
    (root / "sheep" / "copy.py").write_text((root / "sheep" / "m0.py").read_text())
    (root / "page.html").write_text("<title>A page</title><p>About sheep and sleep.")
    (root / "METADATA").write_text("Name: sheep\nVersion: 1\nSummary: Counts\n\nThe body.\n")
    (root / "empty.txt").write_text("")
    (root / "binary.txt").write_bytes(b"\0")
    (root / "latin.txt").write_bytes(b"\xe9t\xe9")
    (root / "huge.txt").write_bytes(b"a" * 1_100_000)
    return root


def test_batches_cover_all_items_in_order():
    assert list(batched("abcde", 2)) == [["a", "b"], ["c", "d"], ["e"]]
    assert list(batched("", 2)) == []


def test_a_batch_below_one_is_refused_by_name():
    with pytest.raises(ValueError, match=r"^batch: 0 documents"):
        list(batched("abc", 0))


def test_requests_carry_the_frequencies_of_their_own_terms_only():
    answers = [
        extracted("a", "sheep", "sleep"),
        extracted("b", "sheep"),
        extracted("c", bad=Problem.HUGE),
        extracted("d", "wolf", "sheep"),
    ]
    first, second = analyse_requests(answers, batch=2)
    assert [file.name for file in first.files] == ["a", "b"]
    assert first.document_frequency == {"sheep": 3, "sleep": 1}
    assert first.documents == 3
    assert [file.name for file in second.files] == ["d"]
    assert second.document_frequency == {"sheep": 3, "wolf": 1}


def test_the_order_in_which_answers_arrive_leaves_no_trace():
    answers = [extracted("a", "x"), extracted("b", bad=Problem.BINARY)]
    batches = [
        Analysed([document("r/b"), document("r/a")], [BadFile("r/z", Problem.HUGE, "")]),
        Analysed([document("r/c")], []),
    ]
    one = report_request([BadFile("r/y", Problem.UNNAMEABLE, "")], answers, batches)
    other = report_request(
        [BadFile("r/y", Problem.UNNAMEABLE, "")], answers[::-1], reversed(batches)
    )
    assert one == other
    assert [each.name for each in one.documents] == ["r/a", "r/b", "r/c"]
    assert [each.name for each in one.bad] == ["b", "r/y", "r/z"]


def test_the_page_is_the_same_for_the_same_documents_in_any_order():
    documents = [document(f"lib/{n}.py", ease=float(n)) for n in range(30)]
    bad = [BadFile(f"lib/{n}.txt", Problem.HUGE, "big") for n in range(5)]
    assert report(ReportRequest(documents, bad)) == report(
        ReportRequest(documents[::-1], bad[::-1])
    )


def test_the_page_shows_totals_documents_groups_and_what_is_missing():
    result = report(
        ReportRequest(
            [document("lib/json/a.py"), document("lib/json/b.py", ease=None)],
            [
                BadFile("lib/x.txt", Problem.BINARY, "NUL at byte 3"),
                BadFile("lib/y.txt", Problem.EMPTY, "no words"),
            ],
        )
    )
    assert (result.documents, result.words, result.not_indexed) == (2, 1000, 2)
    assert result.near_duplicate_groups == 1
    page = Outline(result.html)
    assert page.tags.count("table") == 2
    assert page.tags.count("svg") == 4
    assert page.tags.count("details") == 1
    for shown in ("lib/json/a.py", "sheep, sleep", "1,000", "NUL at byte 3", "1 binary, 1 empty"):
        assert shown in page.text
    assert page.text.index("lib/x.txt") < page.text.index("lib/y.txt")


def test_an_empty_index_is_a_page_that_says_so():
    result = report(ReportRequest([], []))
    assert (result.documents, result.words, result.near_duplicate_groups) == (0, 0, 0)
    assert "None in this index." in Outline(result.html).text


def test_nothing_a_file_contains_becomes_markup():
    clean = Outline(
        report(ReportRequest([document("lib/a.py")], [BadFile("lib/b.py", Problem.HUGE, "x")])).html
    )
    name = f"lib/{HOSTILE}/a.py"
    hostile = document(name, title=HOSTILE)
    hostile = msgspec.structs.replace(hostile, keywords=[HOSTILE])
    page = Outline(report(ReportRequest([hostile], [BadFile(name, Problem.HUGE, HOSTILE)])).html)
    assert page.tags.count("script") == clean.tags.count("script") == 1
    assert HOSTILE in page.text


def test_the_page_needs_nothing_beside_itself(tree: Path):
    page = serial.index(find_sources([tree])).html
    outline = Outline(page)
    assert not {"src", "href", "srcset"} & {name for name, _ in outline.attributes}
    assert "url(" not in page
    assert "@import" not in page
    assert "default-src 'none'" in page


def test_a_package_is_known_by_its_folder_module_or_distribution():
    names = ["lib/json/tool.py", "lib/os.py", "sp/PyYAML-6.0.dist-info/METADATA", "lib/README.md"]
    page = report(ReportRequest([document(name) for name in names], [])).html
    for package in ("json", "os", "pyyaml", "README"):
        assert f'text-anchor="end">{package}</text>' in page


def test_many_alike_documents_of_one_package_do_not_fill_the_list_of_groups():
    documents = [
        msgspec.structs.replace(
            document(f"lib/{package}/{group}{copy}.py"),
            signature=digest(package, group),
        )
        for package in ("one", "two")
        for group in "abcdef"
        for copy in "12"
    ]
    result = report(ReportRequest(documents, []))
    assert result.near_duplicate_groups == 12
    assert result.html.count("<details>") == 8
    assert "And 4 more groups." in result.html


def test_charts_scale_to_their_largest_value_and_escape_labels():
    drawn = charts.bars([("<b>", 10), ("half", 5)], title="Some & more")
    first, second = (int(width) for width in re.findall(r'class="bar"[^>]* width="(\d+)"', drawn))
    assert second == pytest.approx(first / 2, abs=1)
    assert "&lt;b&gt;" in drawn
    assert 'aria-label="Some &amp; more"' in drawn


def test_charts_of_nothing_are_still_charts():
    for drawn in (
        charts.bars([], title="none"),
        charts.histogram([0, 0], ["a", "b"], title="none"),
        charts.cloud([], title="none"),
    ):
        assert drawn.startswith("<svg")
        assert drawn.endswith("</svg>")


def test_a_cloud_breaks_its_lines_before_words_would_leave_the_picture():
    rows = [(f"longer-word-{n}", n + 1) for n in range(40)]
    drawn = charts.cloud(rows, title="words")
    places = re.findall(r'x="(-?\d+)" y="\d+" font-size="\d+" textLength="(\d+)"', drawn)
    assert len(places) == 40
    assert all(int(x) >= 0 and int(x) + int(length) <= 1120 for x, length in places)


def test_the_serial_index_reports_every_file_it_was_given(tree: Path):
    corpus = find_sources([tree])
    result = serial.index(corpus, batch=3)
    assert result.documents + result.not_indexed == len(corpus.files)
    assert result.not_indexed == 4
    assert result.near_duplicate_groups == 1
    for problem in ("binary", "empty", "huge", "undecodable"):
        assert f"<td>{problem}<td>" in result.html


def test_the_size_of_a_batch_changes_no_answer(tree: Path):
    corpus = find_sources([tree])
    assert serial.index(corpus, batch=1) == serial.index(corpus, batch=100)


def test_every_value_that_travels_survives_json(tree: Path):
    corpus = find_sources([tree])
    answers = [serial.extract(file) for file in corpus.files]
    requests = analyse_requests(answers, batch=4)
    analysed = [serial.analyse(each) for each in requests]
    fan_in = report_request(corpus.bad, answers, analysed)
    for value, kind in [
        (corpus.files[0], SourceFile),
        (answers, list[Extracted]),
        (requests, list[AnalyseRequest]),
        (analysed, list[Analysed]),
        (fan_in, ReportRequest),
        (report(fan_in), Report),
    ]:
        assert msgspec.json.decode(msgspec.json.encode(value), type=kind) == value


def test_the_serial_script_writes_the_page_and_prints_its_path(
    tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    target = tmp_path / "page.html"
    assert serial.main(["--root", str(tree), "--output", str(target)]) == 0
    assert capsys.readouterr().out == f"{target}\n"
    assert target.read_text(encoding="utf-8") == serial.index(find_sources([tree])).html


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--root", "nowhere", "--root: 'nowhere' is no folder"),
        ("--limit", "0", "--limit: '0' is no whole number"),
        ("--limit", "²", "--limit: '²' is no whole number"),
        ("--batch", "-1", "--batch: '-1' is no whole number"),
        ("--output", "nowhere/page.html", "--output: 'nowhere/page.html' cannot be written"),
        ("--output", ".", "--output: '.' is a folder"),
    ],
)
def test_a_wrong_option_is_refused_by_name_before_any_work(
    option: str, value: str, message: str, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(SystemExit) as stopped:
        serial.main([f"{option}={value}"])
    assert stopped.value.code == 2
    assert f"argument {message}" in capsys.readouterr().err
