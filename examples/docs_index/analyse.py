"""Analyse: keywords, readability and a near-duplicate signature for a batch of documents.

The CPU-bound part of the example, and pure apart from reading the files again: a document's answer
depends on its text and on the document frequencies, never on what else is in the batch.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import blake2b
from heapq import nsmallest

import msgspec

from docs_index.corpus import BadFile, Kind, SourceFile
from docs_index.extract import Prose, read_prose
from docs_index.words import leading_terms, sentences_in, syllables_in, words_of

KEYWORDS_PER_DOCUMENT = 6
# Below this a score says more about the sample than about the text.
_WORDS_FOR_READABILITY = 40
_WORDS_FOR_SIGNATURE = 24
PERMUTATIONS = 64
_SHINGLE_WORDS = 3
# The smallest hashes of a document stand for all of them: bounds the cost of a long text.
_SKETCH = 768
_PRIME = 4_294_967_311  # the first prime above 2**32, the range of crc32


class AnalyseRequest(msgspec.Struct, frozen=True):
    """A batch of files, and how many of all `documents` lead with each of their terms."""

    files: list[SourceFile]
    document_frequency: dict[str, int]
    documents: int


class Analysis(msgspec.Struct, frozen=True):
    """What is known of one document.

    `reading_ease` is Flesch's score held to 0..100 (higher is easier), None where the text is too
    short or no prose. `signature` is 64 hexadecimal digits, one per permutation, or None.
    """

    name: str
    kind: Kind
    title: str
    size_bytes: int
    words: int
    keywords: list[str]
    reading_ease: float | None
    signature: str | None


class Analysed(msgspec.Struct, frozen=True):
    """The answers for a batch, in its order, and the files that could no longer be read."""

    documents: list[Analysis]
    bad: list[BadFile]


def analyse(request: AnalyseRequest) -> Analysed:
    """Analyse each file of a batch."""
    documents: list[Analysis] = []
    bad: list[BadFile] = []
    for file in request.files:
        prose = read_prose(file)
        if isinstance(prose, BadFile):
            bad.append(prose)
        else:
            documents.append(_analysis(file, prose, request))
    return Analysed(documents, bad)


def _analysis(file: SourceFile, prose: Prose, request: AnalyseRequest) -> Analysis:
    words = words_of(prose.text)
    is_prose = prose.kind is not Kind.RECORD
    return Analysis(
        name=file.name,
        kind=prose.kind,
        title=prose.title,
        size_bytes=prose.size_bytes,
        words=len(words),
        keywords=keywords(words, request.document_frequency, request.documents),
        reading_ease=reading_ease(words, sentences_in(prose.text)) if is_prose else None,
        signature=signature(words) if is_prose else None,
    )


def keywords(
    words: Sequence[str], document_frequency: Mapping[str, int], documents: int
) -> list[str]:
    """The terms that set a document apart: often in it, seldom leading elsewhere. Best first."""

    def weight(term: str, count: int) -> float:
        rarity = math.log((documents + 1) / document_frequency.get(term, 1))
        return (1 + math.log(count)) * rarity

    scored = [(-weight(term, count), term) for term, count in leading_terms(words).items()]
    return [term for _, term in sorted(scored)[:KEYWORDS_PER_DOCUMENT]]


def reading_ease(words: Sequence[str], sentences: int) -> float | None:
    """Flesch reading ease, held to 0..100 and rounded to a tenth; None for a very short text."""
    if len(words) < _WORDS_FOR_READABILITY:
        return None
    score = 206.835 - 1.015 * len(words) / sentences - 84.6 * syllables_in(words) / len(words)
    return round(min(100.0, max(0.0, score)), 1)


def signature(words: Sequence[str]) -> str | None:
    """A b-bit MinHash of a text's three-word shingles: 4 bits of each of 64 minima.

    Two texts agree in a digit with probability J + (1 - J)/16, J being the Jaccard index of their
    shingles. None for a text too short to compare.
    """
    if len(words) < _WORDS_FOR_SIGNATURE:
        return None
    shingles = zip(*(words[start:] for start in range(_SHINGLE_WORDS)), strict=False)
    hashes = nsmallest(_SKETCH, {zlib.crc32(" ".join(each).encode()) for each in shingles})
    minima = (min([(a * each + b) % _PRIME for each in hashes]) for a, b in _permutations())
    return "".join(f"{minimum & 15:x}" for minimum in minima)


@cache
def _permutations() -> tuple[tuple[int, int], ...]:
    """Fixed factors and offsets, the same in every process and on every machine."""
    digests = (blake2b(index.to_bytes(2), digest_size=8).digest() for index in range(PERMUTATIONS))
    return tuple((int.from_bytes(digest[:4]) | 1, int.from_bytes(digest[4:])) for digest in digests)
