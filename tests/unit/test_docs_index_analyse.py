"""Keywords, readability, signatures, and the groups of near-duplicates they lead to."""

from __future__ import annotations

import zlib
from pathlib import Path

import msgspec
import pytest

from docs_index.analyse import (
    AnalyseRequest,
    Analysis,
    analyse,
    keywords,
    reading_ease,
    signature,
)
from docs_index.corpus import Kind, Problem, SourceFile
from docs_index.duplicates import near_duplicates, similarity


def text_of(seed: int, words: int = 400) -> list[str]:
    """Words drawn from a large vocabulary: two seeds share no shingle."""
    return [f"word{zlib.crc32(f'{seed}/{n}'.encode()) % 5000:x}" for n in range(words)]


def changed(words: list[str], share: float) -> list[str]:
    """The words with a share of them replaced, evenly spread."""
    every = round(1 / share)
    return [f"new{n:x}" if n % every == 0 else word for n, word in enumerate(words)]


def jaccard(one: list[str], other: list[str]) -> float:
    a, b = (set(zip(each, each[1:], each[2:], strict=False)) for each in (one, other))
    return len(a & b) / len(a | b)


def analysis(name: str, words: list[str] | None) -> Analysis:
    return Analysis(
        name=name,
        kind=Kind.TEXT,
        title="",
        size_bytes=1,
        words=1,
        keywords=[],
        reading_ease=None,
        signature=None if words is None else signature(words),
    )


def test_keywords_prefer_what_is_frequent_here_and_rare_elsewhere():
    words = ["common"] * 9 + ["special"] * 5 + ["single"]
    frequency = {"common": 90, "special": 2, "single": 2}
    assert keywords(words, frequency, 100) == ["special", "single", "common"]


def test_keywords_of_equal_weight_are_in_order_of_their_names():
    assert keywords(["beta", "alpha"], {"beta": 1, "alpha": 1}, 10) == ["alpha", "beta"]


def test_keywords_are_at_most_six():
    assert len(keywords([f"term{letter * 2}" for letter in "abcdefghij"], {}, 10)) == 6


def test_reading_ease_is_flesch_score():
    # 40 words of one syllable in 4 sentences: 206.835 - 1.015 * 10 - 84.6
    assert reading_ease(["cat"] * 40, 4) == 100.0  # 112.1 held to the scale
    # 40 words of two syllables in 2 sentences: 206.835 - 1.015 * 20 - 169.2
    assert reading_ease(["table"] * 40, 2) == 17.3
    assert reading_ease(["readability"] * 40, 1) == 0.0


def test_a_short_text_has_no_reading_ease_and_no_signature():
    assert reading_ease(["cat"] * 39, 4) is None
    assert signature(text_of(1, words=23)) is None
    assert signature(text_of(1, words=24)) is not None


def test_a_signature_is_the_same_in_every_version_of_this_example():
    # Pinned: workers of an old and a new build must agree, or a rolling update splits groups.
    words = [f"word{n}" for n in range(100)]
    assert signature(words) == "0fda49e46913b37715930bb35c3413051bfdcb60a086e84dfe51bcbcf41085d0"


@pytest.mark.parametrize("share", [0.01, 0.05, 0.1, 0.5])
def test_similarity_estimates_the_jaccard_index_of_shingles(share: float):
    estimates: list[float] = []
    truths: list[float] = []
    for seed in range(12):
        one = text_of(seed)
        other = changed(one, share)
        estimates.append(similarity(str(signature(one)), str(signature(other))))
        truths.append(jaccard(one, other))
    # 12 estimates with a standard error of about 0.06 each.
    assert sum(estimates) / 12 == pytest.approx(sum(truths) / 12, abs=0.06)


def test_strangers_are_not_similar_and_equal_texts_are():
    one, other = str(signature(text_of(1))), str(signature(text_of(2)))
    assert similarity(one, other) < 0.2
    assert similarity(one, one) == 1.0


def test_near_duplicates_are_grouped_and_strangers_are_not():
    one, two = text_of(1), text_of(2)
    documents = [
        analysis("z/copy", one),
        analysis("a/original", one),
        analysis("m/edited", changed(one, 0.01)),
        analysis("b/other", two),
        analysis("c/other copy", two),
        analysis("d/stranger", text_of(3)),
        analysis("e/short", None),
        analysis("f/short too", None),
    ]
    groups = near_duplicates(documents)
    assert [group.names for group in groups] == [
        ("a/original", "m/edited", "z/copy"),
        ("b/other", "c/other copy"),
    ]
    assert groups[1].similarity == 1.0
    assert 0.8 <= groups[0].similarity < 1.0
    assert near_duplicates(reversed(documents)) == groups


def test_no_document_is_in_two_groups_and_no_group_is_single():
    documents = [
        analysis(f"{seed}/{edit}", changed(text_of(seed), 1 / (200 - edit)))
        for seed in range(6)
        for edit in range(5)
    ]
    groups = near_duplicates(documents)
    names = [name for group in groups for name in group.names]
    assert len(names) == len(set(names))
    assert [len(group.names) for group in groups] == [5] * 6


def test_a_thousand_copies_are_one_group():
    one = analysis("0000", text_of(1))
    copies = [msgspec.structs.replace(one, name=f"{n:04}") for n in range(1000)]
    (group,) = near_duplicates(copies)
    assert len(group.names) == 1000


def request_for(tmp_path: Path, **files: str) -> AnalyseRequest:
    sources: list[SourceFile] = []
    for name, text in files.items():
        path = tmp_path / f"{name}.txt"
        path.write_text(text)
        sources.append(SourceFile(str(path), f"root/{name}.txt"))
    return AnalyseRequest(sources, {}, 2)


def test_analyse_answers_for_each_file_in_order(tmp_path: Path):
    request = request_for(tmp_path, b="Sheep sleep. " * 30, a="Only few words")
    answer = analyse(request)
    assert answer.bad == []
    first, second = answer.documents
    assert (first.name, first.kind, first.words) == ("root/b.txt", Kind.TEXT, 60)
    assert first.keywords == ["sheep", "sleep"]
    assert first.reading_ease == 100.0
    assert first.signature is not None
    assert (second.name, second.reading_ease, second.signature) == ("root/a.txt", None, None)
    assert second.title == "Only few words"


def test_an_analysis_does_not_depend_on_its_batch(tmp_path: Path):
    request = request_for(tmp_path, a="Sheep sleep. " * 30, b="Wolves wake. " * 30)
    alone = [
        analyse(AnalyseRequest([file], {}, 2)).documents[0] for file in reversed(request.files)
    ]
    assert analyse(request).documents == list(reversed(alone))


def test_a_file_gone_since_it_was_extracted_is_reported_and_the_rest_analysed(tmp_path: Path):
    request = request_for(tmp_path, a="Sheep sleep", b="Wolves wake")
    Path(request.files[0].path).unlink()
    answer = analyse(request)
    assert [each.name for each in answer.documents] == ["root/b.txt"]
    assert [(each.name, each.problem) for each in answer.bad] == [
        ("root/a.txt", Problem.UNREADABLE)
    ]


def test_a_record_is_no_prose_and_so_has_no_readability(tmp_path: Path):
    path = tmp_path / "RECORD"
    path.write_text("".join(f"sheep/file{n}.py,sha256=x,1\n" for n in range(50)))
    (document,) = analyse(AnalyseRequest([SourceFile(str(path), "root/RECORD")], {}, 1)).documents
    assert (document.kind, document.reading_ease, document.signature) == (Kind.RECORD, None, None)
