"""Charts of the report as inline SVG: bars, a histogram and a cloud of words.

Pure string building. Colours come from the page's classes, so that light and dark follow the reader;
every chart carries its figures as text too.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

# The room given to a letter, in units of its size, as in a common bold font. The reader's font may
# differ, so each word also says how long it shall be.
_LETTER = 0.66
_ODD_LETTERS = dict.fromkeys("fijlrt'", 0.42) | dict.fromkeys("mw", 1.0)


def bars(rows: Sequence[tuple[str, int]], *, title: str) -> str:
    """Horizontal bars, one per (label, value), in the order given."""
    width, label, step = 560, 170, 24
    longest = max((value for _, value in rows), default=1) or 1
    room = width - label - 84
    parts: list[str] = []
    for index, (name, value) in enumerate(rows):
        y = index * step
        length = max(2, round(room * value / longest))
        parts.append(
            f'<text class="label" x="{label - 10}" y="{y + 16}" text-anchor="end">'
            f"{escape(_shortened(name))}</text>"
            f'<rect class="bar" x="{label}" y="{y + 4}" width="{length}" height="16" rx="3"/>'
            f'<text class="value" x="{label + length + 8}" y="{y + 16}">{value:,}</text>'
        )
    return _svg(width, max(1, len(rows)) * step, title, parts)


def histogram(counts: Sequence[int], labels: Sequence[str], *, title: str) -> str:
    """Upright bars over a common base line, the count above and the label below each."""
    width, height, base = 560, 240, 200
    tallest = max(counts, default=1) or 1
    step = width / max(1, len(counts))
    parts = [f'<line class="axis" x1="0" x2="{width}" y1="{base}" y2="{base}"/>']
    for index, (count, label) in enumerate(zip(counts, labels, strict=True)):
        tall = round((base - 26) * count / tallest)
        left, middle = round(index * step + 4), round((index + 0.5) * step)
        parts.append(
            f'<rect class="bar" x="{left}" y="{base - tall}" width="{round(step - 8)}" '
            f'height="{tall}" rx="3"/>'
            f'<text class="value" x="{middle}" y="{base - tall - 7}" text-anchor="middle">'
            f"{count:,}</text>"
            f'<text class="label" x="{middle}" y="{base + 20}" text-anchor="middle">'
            f"{escape(label)}</text>"
        )
    return _svg(width, height, title, parts)


def cloud(rows: Sequence[tuple[str, int]], *, title: str) -> str:
    """Words in lines, in the order given, sized by their value."""
    width, line_height, gap = 1120, 46, 20
    largest = max((value for _, value in rows), default=1) or 1
    lines: list[list[tuple[str, int, int, float]]] = [[]]
    used = 0.0
    for name, value in rows:
        size = round(15 + 21 * value / largest)
        length = size * sum(_ODD_LETTERS.get(letter, _LETTER) for letter in name)
        if lines[-1] and used + gap + length > width:
            lines.append([])
            used = 0.0
        lines[-1].append((name, value, size, length))
        used += length + gap
    parts: list[str] = []
    for index, line in enumerate(lines):
        x = (width - sum(length + gap for *_, length in line) + gap) / 2
        y = index * line_height + 34
        for name, value, size, length in line:
            weight = 1 + 4 * (size - 15) // 22
            parts.append(
                f'<text class="word w{weight}" x="{round(x)}" y="{y}" font-size="{size}" '
                f'textLength="{round(length)}" lengthAdjust="spacingAndGlyphs">'
                f"{escape(name)}<title>{value:,} packages</title></text>"
            )
            x += length + gap
    return _svg(width, len(lines) * line_height, title, parts)


def _svg(width: int, height: int, title: str, parts: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(title)}">'
        f"{''.join(parts)}</svg>"
    )


def _shortened(name: str) -> str:
    return name if len(name) <= 22 else name[:21] + "…"
