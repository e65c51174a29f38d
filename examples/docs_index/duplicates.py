"""Near-duplicates: groups of documents whose signatures agree.

Pure. Bands of the signature propose candidates, so that no pair of strangers is ever compared; the
estimated similarity of the whole signature decides.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import msgspec

from docs_index.analyse import PERMUTATIONS, Analysis

# Bands of 8 of the 64 digits: a pair 90% alike shares one with probability 0.99, 80% alike 0.80,
# 50% alike 0.05 (an agreeing digit is (1 + 15 J) / 16).
_BAND = 8
THRESHOLD = 0.8


class Group(msgspec.Struct, frozen=True):
    """Documents that say nearly the same, by name; `similarity` is the least to the first, 0..1."""

    names: tuple[str, ...]
    similarity: float


def similarity(one: str, other: str) -> float:
    """The estimated Jaccard index of two documents, from their signatures; standard error 0.04."""
    agreeing = sum(1 for a, b in zip(one, other, strict=True) if a == b) / PERMUTATIONS
    return max(0.0, (agreeing - 1 / 16) / (1 - 1 / 16))


def near_duplicates(documents: Iterable[Analysis]) -> list[Group]:
    """Groups of two and more, largest first, then by their first name."""
    signed = {each.name: each.signature for each in documents if each.signature is not None}
    buckets: defaultdict[tuple[int, str], list[str]] = defaultdict(list)
    for name in sorted(signed):
        for start in range(0, PERMUTATIONS, _BAND):
            buckets[start, signed[name][start : start + _BAND]].append(name)
    links: dict[str, str] = {}
    for names in buckets.values():
        _link_alike(names, signed, links)
    members: defaultdict[str, list[str]] = defaultdict(list)
    for name in sorted(links):
        members[_root(links, name)].append(name)
    groups = [_group(names, signed) for names in members.values() if len(names) > 1]
    return sorted(groups, key=lambda group: (-len(group.names), group.names[0]))


def _link_alike(names: Sequence[str], signed: dict[str, str], links: dict[str, str]) -> None:
    """Join each name to the first one before it that is like it.

    Comparing with one leader per group keeps a bucket of n copies linear; all pairs of the
    hundreds of generated modules that some packages ship would take seconds.
    """
    leaders: list[str] = []
    for name in names:
        for leader in leaders:
            if similarity(signed[leader], signed[name]) >= THRESHOLD:
                first, second = sorted((_root(links, leader), _root(links, name)))
                links[second] = links.setdefault(first, first)
                break
        else:
            leaders.append(name)


def _root(links: dict[str, str], name: str) -> str:
    while (parent := links.get(name, name)) != name:
        name = parent
    return name


def _group(names: list[str], signed: dict[str, str]) -> Group:
    least = min(similarity(signed[names[0]], signed[name]) for name in names[1:])
    return Group(tuple(names), round(least, 2))
