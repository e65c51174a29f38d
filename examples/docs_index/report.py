"""Report: the fan-in of the index, one HTML page that needs nothing beside itself.

Pure: the same request gives the same bytes. Nothing of the moment, the machine or the order of
arrival may enter the page, and every text from a file is escaped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from html import escape
from pathlib import Path

import msgspec

from docs_index import charts
from docs_index.analyse import Analysis
from docs_index.corpus import BadFile, Kind, Problem
from docs_index.duplicates import Group, near_duplicates

_GROUPS_SHOWN = 40
_GROUPS_PER_PACKAGE = 4  # one package of generated modules would fill the list
_NAMES_SHOWN = 40
_BAD_SHOWN = 200


class ReportRequest(msgspec.Struct, frozen=True):
    """All documents of the index and all files that are in it only by name."""

    documents: list[Analysis]
    bad: list[BadFile]


class Report(msgspec.Struct, frozen=True):
    """The page, and the totals that a caller wants without reading HTML."""

    html: str
    documents: int
    words: int
    near_duplicate_groups: int
    not_indexed: int


def report(request: ReportRequest) -> Report:
    """The whole page for an index. An empty index gives a page that says so."""
    documents = sorted(request.documents, key=lambda each: each.name)
    bad = sorted(request.bad, key=lambda each: (each.problem is Problem.EMPTY, each.name))
    groups = near_duplicates(documents)
    words = sum(each.words for each in documents)
    body = "\n".join(
        [
            _header(documents, bad, groups, words),
            _keywords(documents),
            _composition(documents),
            _reading(documents),
            _duplicates(groups),
            _table(documents),
            _not_indexed(bad),
        ]
    )
    return Report(
        html=_page(body),
        documents=len(documents),
        words=words,
        near_duplicate_groups=len(groups),
        not_indexed=len(bad),
    )


def _page(body: str) -> str:
    here = Path(__file__)
    style = here.with_name("report.css").read_text("utf-8")
    script = here.with_name("report.js").read_text("utf-8")
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<title>Documentation index</title>
<style>
{style}</style>
</head>
<body>
<main>
{body}
</main>
<script>
{script}</script>
</body>
</html>
"""


def _header(
    documents: Sequence[Analysis], bad: Sequence[BadFile], groups: Sequence[Group], words: int
) -> str:
    scores = sorted(each.reading_ease for each in documents if each.reading_ease is not None)
    alike = sum(len(group.names) for group in groups)
    unusable = sum(1 for each in bad if each.problem is not Problem.EMPTY)
    cards = [
        (f"{len(documents):,}", "documents"),
        (f"{words:,}", "words"),
        (f"{len({_package(each.name) for each in documents}):,}", "packages and modules"),
        (f"{scores[len(scores) // 2]:.0f}" if scores else "–", "median reading ease"),
        (f"{alike:,}", f"near-duplicates in {len(groups):,} groups"),
        (f"{unusable:,}", f"unusable files, and {len(bad) - unusable:,} without a word"),
    ]
    shown = "".join(f"<li><b>{figure}</b><span>{label}</span></li>" for figure, label in cards)
    roots = Counter(each.name.split("/", 1)[0] for each in documents)
    origin = ", ".join(f"<b>{escape(root)}</b> ({n:,})" for root, n in sorted(roots.items()))
    return (
        "<header><h1>Documentation index</h1>"
        f"<p>What this Python installation has to read: {origin or 'nothing yet'}.</p>"
        f'<ul class="cards">{shown}</ul></header>'
    )


def _keywords(documents: Sequence[Analysis]) -> str:
    spread = {
        (term, _package(each.name))
        for each in documents
        if each.kind is not Kind.RECORD
        for term in each.keywords
    }
    counts = Counter(term for term, _ in spread)
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:70]
    return _section(
        "Keywords",
        "The terms that set documents apart (tf-idf), sized by how many packages they matter in.",
        charts.cloud(sorted(ranked), title="Keywords by number of packages"),
    )


def _composition(documents: Sequence[Analysis]) -> str:
    kinds = Counter(str(each.kind) for each in documents)
    packages: Counter[str] = Counter()
    for each in documents:
        packages[_package(each.name)] += each.words
    by_kind = sorted(kinds.items(), key=lambda item: (-item[1], item[0]))
    by_words = sorted(packages.items(), key=lambda item: (-item[1], item[0]))[:14]
    return (
        '<div class="pair">'
        + _section(
            "Most words",
            "Packages and modules by words of prose.",
            charts.bars(by_words, title="Words by package"),
        )
        + _section(
            "Kinds of file", "Documents by kind.", charts.bars(by_kind, title="Documents by kind")
        )
        + "</div>"
    )


def _reading(documents: Sequence[Analysis]) -> str:
    scored = [(each.reading_ease, each) for each in documents if each.reading_ease is not None]
    counts = Counter(min(9, int(score // 10)) for score, _ in scored)
    histogram = charts.histogram(
        [counts[each] for each in range(10)],
        [f"{low}-{low + 10}" for low in range(0, 100, 10)],
        title="Documents by Flesch reading ease",
    )
    # A ranking of short or clamped texts would list accidents.
    long = [(score, each) for score, each in scored if each.words >= 400 and 0 < score < 100]
    long.sort(key=lambda item: (item[0], item[1].name))
    ends = [("Hardest", long[:6]), ("Easiest", list(reversed(long[6:][-6:])))]
    lists = "".join(
        f"<h3>{label}</h3><ol>"
        + "".join(
            f"<li><code>{escape(each.name)}</code> <b>{score:.1f}</b></li>" for score, each in some
        )
        + "</ol>"
        for label, some in ends
        if some
    )
    return (
        '<div class="pair">'
        + _section(
            "Reading ease",
            "Flesch score: 0-30 is hard, 60-70 plain, above 90 easy. Short texts have none.",
            histogram,
        )
        + _section("Both ends", "Among documents of 400 words and more.", lists or _nothing())
        + "</div>"
    )


def _duplicates(groups: Sequence[Group]) -> str:
    taken: Counter[str] = Counter()
    shown: list[Group] = []
    for group in groups:
        package = _package(group.names[0])
        taken[package] += 1
        if taken[package] <= _GROUPS_PER_PACKAGE and len(shown) < _GROUPS_SHOWN:
            shown.append(group)
    rest = len(groups) - len(shown)
    more = f"<p>And {rest:,} more groups.</p>" if rest else ""
    return _section(
        "Near-duplicates",
        "Documents whose three-word shingles agree by about four fifths and more (MinHash).",
        ("".join(map(_group, shown)) or _nothing()) + more,
    )


def _group(group: Group) -> str:
    names = "".join(f"<li><code>{escape(name)}</code></li>" for name in group.names[:_NAMES_SHOWN])
    rest = len(group.names) - _NAMES_SHOWN
    more = f"<li>and {rest:,} more</li>" if rest > 0 else ""
    alike = "no difference" if group.similarity == 1 else f"at least {group.similarity:.0%} alike"
    return (
        f"<details><summary><b>{len(group.names):,}</b> × "
        f"<code>{escape(group.names[0])}</code> "
        f"<span>{alike}</span></summary>"
        f"<ul>{names}{more}</ul></details>"
    )


def _table(documents: Sequence[Analysis]) -> str:
    head = "".join(
        f'<th scope="col" class="{style}"><button type="button">{label}</button></th>'
        for label, style in [
            ("Document", "w40"),
            ("Kind", "w9"),
            ("Words", "w9 n"),
            ("Reading ease", "w12 n"),
            ("Keywords", ""),
        ]
    )
    rows = "\n".join(_row(each) for each in documents)
    return _section(
        "Documents",
        "Every document of the index. A heading sorts by its column.",
        '<label class="filter">Filter <input type="search" id="filter" '
        'placeholder="name, title or keyword"> <output id="shown"></output></label>'
        f'<div class="scroll"><table id="documents"><thead><tr>{head}</tr></thead>'
        f"<tbody>\n{rows}\n</tbody></table></div>"
        if documents
        else _nothing(),
    )


def _row(each: Analysis) -> str:
    """One row; HTML lets the closing tags of cells go, which halves thousands of them."""
    ease = "–" if each.reading_ease is None else f"{each.reading_ease:.1f}"
    title = f"<small>{escape(each.title)}</small>" if each.title else ""
    return (
        f"<tr><td><code>{escape(each.name)}</code>{title}<td>{each.kind}"
        f'<td class="n">{each.words:,}<td class="n">{ease}<td>{escape(", ".join(each.keywords))}'
    )


def _not_indexed(bad: Sequence[BadFile]) -> str:
    counts = Counter(each.problem for each in bad)
    summary = ", ".join(f"{n:,} {problem}" for problem, n in sorted(counts.items()))
    rows = "".join(
        f"<tr><td><code>{escape(each.name)}</code><td>{each.problem}<td>{escape(each.detail)}"
        for each in bad[:_BAD_SHOWN]
    )
    rest = len(bad) - _BAD_SHOWN
    more = f"<p>And {rest:,} more.</p>" if rest > 0 else ""
    table = (
        '<div class="scroll short"><table><thead><tr><th scope="col">File<th scope="col" class="w12">Problem'
        f'<th scope="col">Detail</tr></thead><tbody>{rows}</tbody></table></div>{more}'
    )
    return _section(
        "Not indexed", f"{summary or 'Nothing'}.".capitalize(), table if bad else _nothing()
    )


def _section(title: str, lead: str, content: str) -> str:
    return f"<section><h2>{title}</h2><p>{lead}</p>{content}</section>"


def _nothing() -> str:
    return '<p class="nothing">None in this index.</p>'


def _package(name: str) -> str:
    """The package or module a document belongs to: json, click, yaml (of PyYAML-6.0.dist-info)."""
    part = name.split("/")[1]
    for ending in (".dist-info", ".egg-info"):
        if part.endswith(ending):
            return part.removesuffix(ending).rsplit("-", 1)[0].lower()
    return part.rsplit(".", 1)[0] if "/" not in name.split("/", 1)[1] else part
