"""Words: how a text is cut into them, and which of them say what it is about.

Pure and free of any dictionary file: the same text gives the same words on every machine.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")
_SENTENCE_END = re.compile(r"[.!?]+(?=\s|$)|\n\s*\n")
_VOWELS = re.compile(r"[aeiouy]+")

# Words that carry grammar, and those that any source comment or licence is full of.
STOP_WORDS = frozenset(
    """
    able about above after again against also although always among and another any are aren't
    around because been before being below between both but call called calling calls came can
    can't cannot could couldn't did didn't does doesn't doing don't done down during each either
    else even ever every few first follow following follows for from further gets give given
    gives had has hasn't have haven't having hence her here hers him his how however include
    included includes including into isn't it's its itself just keep kept last let's like made
    make makes many may maybe mean means might more most much must need needed needs neither
    next nor not nothing now off often once one only onto other others otherwise our out over
    own per put rather same see seen shall she should shouldn't since some still such take than
    that that's the their them then there therefore these they thing things this those though
    through thus too toward under unless until upon use used uses using very via was wasn't way
    ways well were what when where whether which while who whose why will with within without
    won't work working works would you your yours
    """.split()  # noqa: SIM905 - a paragraph of words is easier to read and to extend than a list
)


def words_of(text: str) -> list[str]:
    """The words of a text in order, in lower case; digits and underscores separate words."""
    return _WORD.findall(text.lower())


def sentences_in(text: str) -> int:
    """How many sentences a text has; a blank line ends one too, as it does after a heading."""
    pieces = _SENTENCE_END.split(text)
    return max(1, sum(1 for piece in pieces if _WORD.search(piece)))


def syllables_in(words: Iterable[str]) -> int:
    """Syllables by the usual rule of thumb: groups of vowels, without a silent final e."""
    return sum(count * _syllables(word) for word, count in Counter(words).items())


def _syllables(word: str) -> int:
    groups = len(_VOWELS.findall(word))
    if word.endswith("e") and not word.endswith(("le", "ee")) and groups > 1:
        groups -= 1
    return max(1, groups)


def leading_terms(words: Iterable[str], *, limit: int = 24) -> dict[str, int]:
    """The words a text repeats most, with their counts: most frequent first, then by name.

    Only words of 4 to 24 letters that carry meaning count; longer ones are encoded data.
    """
    counts = Counter(word for word in words if 4 <= len(word) <= 24 and word not in STOP_WORDS)
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return dict(ranked[:limit])
