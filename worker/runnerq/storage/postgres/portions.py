"""Splits what one statement cannot carry: too many rows, or too many bytes. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_T = TypeVar("_T")

MOST_BYTES = 32 * 1024 * 1024
"""Of values in one statement. A message may not exceed 1 GB, and the server holds several copies."""


def portions(
    items: Iterable[_T], size: Callable[[_T], int], *, most: int, most_bytes: int = MOST_BYTES
) -> Iterator[list[_T]]:
    """Consecutive lists of at most `most` items and `most_bytes`; an item larger than that is alone.

    >>> list(portions(["a", "bb", "cccc", "d"], len, most=3, most_bytes=3))
    [['a', 'bb'], ['cccc'], ['d']]
    """
    portion: list[_T] = []
    carried = 0
    for item in items:
        weight = size(item)
        if portion and (len(portion) == most or carried + weight > most_bytes):
            yield portion
            portion, carried = [], 0
        portion.append(item)
        carried += weight
    if portion:
        yield portion
