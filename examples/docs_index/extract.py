"""Extract: the prose of one file, and the terms it leads with.

Reads one file and returns a value; a file that cannot be read as text is an answer (`BadFile`),
never an exception, so that one bad input cannot stop an index of thousands.
"""

from __future__ import annotations

import email
import io
import re
import stat
import tokenize
from html.parser import HTMLParser
from pathlib import Path

import msgspec

from docs_index.corpus import BadFile, Kind, Problem, SourceFile, kind_of
from docs_index.words import leading_terms, words_of

# Larger files are generated tables; one of them would hold a worker for seconds.
HUGE_BYTES = 1024 * 1024
_TITLE_LENGTH = 72


class Prose(msgspec.Struct, frozen=True):
    """The readable text of a file: its title (one line, maybe empty), text and size on disk."""

    kind: Kind
    title: str
    text: str
    size_bytes: int


class Extracted(msgspec.Struct, frozen=True):
    """The answer for one file: its leading terms, or what is wrong with it (then no terms)."""

    file: SourceFile
    terms: list[str] = []
    bad: BadFile | None = None


def extract(file: SourceFile) -> Extracted:
    """Read one file and name the terms it leads with."""
    prose = read_prose(file)
    if isinstance(prose, BadFile):
        return Extracted(file, bad=prose)
    return Extracted(file, terms=list(leading_terms(words_of(prose.text))))


def read_prose(file: SourceFile) -> Prose | BadFile:
    """The readable text of a file, or why it has none."""
    kind = kind_of(Path(file.path).name)
    if kind is None:
        return BadFile(file.name, Problem.MALFORMED, "not one of the kinds of file indexed here")
    content = _read(file)
    if isinstance(content, BadFile):
        return content
    try:
        source = _decode(content, kind)
    except (UnicodeError, SyntaxError, LookupError) as error:
        return BadFile(file.name, Problem.UNDECODABLE, _one_line(str(error)))
    try:
        title, text = _PROSE_OF[kind](source)
    except (AssertionError, ValueError) as error:
        # html.parser gives up on some declarations with a bare AssertionError.
        return BadFile(file.name, Problem.MALFORMED, _one_line(str(error)))
    text = _URL.sub(" ", text)
    if not words_of(text):
        return BadFile(file.name, Problem.EMPTY, f"no words in {len(content):,} bytes")
    return Prose(kind, _one_line(title or _first_line(text)), text, len(content))


def _read(file: SourceFile) -> bytes | BadFile:
    path = Path(file.path)
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            return BadFile(file.name, Problem.UNREADABLE, "not a regular file")
        if status.st_size > HUGE_BYTES:
            detail = f"{status.st_size:,} bytes, the limit is {HUGE_BYTES:,}"
            return BadFile(file.name, Problem.HUGE, detail)
        content = path.read_bytes()
    except OSError as error:
        return BadFile(file.name, Problem.UNREADABLE, error.strerror or type(error).__name__)
    if b"\0" in content:
        return BadFile(file.name, Problem.BINARY, f"NUL at byte {content.index(0):,}")
    return content


def _decode(content: bytes, kind: Kind) -> str:
    encoding = "utf-8-sig"
    if kind is Kind.PYTHON:  # a source file may declare its own
        encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
    text = content.decode(encoding)
    text.encode("utf-8")  # some declared encodings let half characters through
    return text.replace("\r\n", "\n").replace("\r", "\n")


_URL = re.compile(r"\b[a-z][a-z0-9+.-]{1,12}://\S+", re.IGNORECASE)

# Comments and triple-quoted strings are the prose of a source file. One scan that also steps over
# ordinary strings finds them in any version's syntax, broken files included, and some 20 times
# faster than a parser; that is what makes this activity a light one.
_PYTHON_PIECE = re.compile(
    r'''
      \#(?P<comment>[^\n]*)
    | """(?P<double>[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*)"""
    | \'\'\'(?P<single>[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*)\'\'\'
    | "(?:[^"\\\n]|\\.)*"
    | '(?:[^'\\\n]|\\.)*'
    ''',
    re.DOTALL | re.VERBOSE,
)
_NOT_A_REMARK = re.compile(r"!|.*?coding[:=]\s*[-\w.]+|\s*(?:type|noqa|pragma|pylint|pyright)\b:?")


def _python(source: str) -> tuple[str, str]:
    title = ""
    pieces: list[str] = []
    end, after_remark = 0, False
    for match in _PYTHON_PIECE.finditer(source):
        between, end = source[end : match.start()], match.end()
        remark, quoted = match["comment"], match["double"] or match["single"]
        if remark is not None:
            if _NOT_A_REMARK.match(remark):
                continue
            # Comment lines that follow each other are one paragraph.
            follows = after_remark and not between.strip() and between.count("\n") <= 1
            pieces.append(("\n" if follows else "\n\n") + remark.lstrip("#: ").rstrip("# "))
        elif quoted:
            title = title or _first_line(quoted)
            pieces.append("\n\n" + quoted)
        after_remark = remark is not None
    return title, "".join(pieces)


def _plain(source: str) -> tuple[str, str]:
    return "", source


_FENCE = re.compile(r"^(```|~~~).*?^\1[^\n]*$", re.DOTALL | re.MULTILINE)


def _markdown(source: str) -> tuple[str, str]:
    return "", _FENCE.sub("\n", source)


def _metadata(source: str) -> tuple[str, str]:
    message = email.message_from_string(source)
    summary = str(message.get("Summary", ""))
    body = message.get_payload()
    if not isinstance(body, str) or not body.strip():
        body = str(message.get("Description", ""))
    name = f"{message.get('Name', '')} {message.get('Version', '')}".strip()
    return f"{name}: {summary}" if summary else name, f"{summary}\n\n{body}"


def _record(source: str) -> tuple[str, str]:
    """A RECORD is a table of path, hash and size; only the paths are language."""
    paths = [line.rsplit(",", 2)[0] for line in source.splitlines() if line]
    return f"{len(paths):,} installed files", "\n".join(paths)


class _Page(HTMLParser):
    """Collects the visible text of a page and its title."""

    _HIDDEN = frozenset({"script", "style", "template"})
    _INLINE = frozenset({"a", "abbr", "b", "code", "em", "i", "small", "span", "strong", "sub"})

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.title = ""
        self.pieces: list[str] = []
        self._hidden = 0
        self._in_title = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._hidden += tag in self._HIDDEN
        self._in_title = tag == "title"
        if tag not in self._INLINE:
            self.pieces.append("\n\n")

    def handle_endtag(self, tag: str) -> None:
        self._hidden = max(0, self._hidden - (tag in self._HIDDEN))
        self._in_title = False

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title += data
        if not self._hidden:
            self.pieces.append(data)


def _html(source: str) -> tuple[str, str]:
    page = _Page()
    page.feed(source)
    page.close()
    return page.title, "".join(page.pieces)


_PROSE_OF = {
    Kind.PYTHON: _python,
    Kind.TEXT: _plain,
    Kind.RESTRUCTURED: _plain,
    Kind.MARKDOWN: _markdown,
    Kind.HTML: _html,
    Kind.METADATA: _metadata,
    Kind.RECORD: _record,
}


def _first_line(text: str) -> str:
    """The first line that reads like one (else the first word), without the marks of a heading."""
    lines = [line.strip(" \t\\#=*-~_!") for line in text.splitlines()[:200] if words_of(line)]
    return next((line for line in lines if len(words_of(line)) > 1), lines[0] if lines else "")


def _one_line(text: str) -> str:
    """A title fit for a table: one line, printable, cut at a word where it is long."""
    line = "".join(each if each.isprintable() else " " for each in " ".join(text.split()))
    if len(line) <= _TITLE_LENGTH:
        return line
    return line[:_TITLE_LENGTH].rsplit(" ", 1)[0].rstrip(".,;: ") + "…"
