"""Cursors of lists: the id of the last item shown, as an opaque word. Pure."""

from __future__ import annotations

from uuid import UUID

_PREFIX = "id-"


def cursor_after(activity_id: UUID) -> str:
    return _PREFIX + activity_id.hex


def position_of(cursor: str) -> UUID:
    """The id a cursor stands for. Raises ValueError for a word that no list gave out."""
    word = cursor.removeprefix(_PREFIX)
    if not cursor.startswith(_PREFIX) or len(word) != 32 or not word.isalnum():
        raise ValueError(f"{cursor!r} was not given out by a list; start without one")
    try:
        return UUID(hex=word)
    except ValueError as error:
        raise ValueError(f"{cursor!r} was not given out by a list; start without one") from error
