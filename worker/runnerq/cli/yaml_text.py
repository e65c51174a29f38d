"""Writes JSON values as YAML, without needing a YAML library. Pure.

Strings are always quoted as JSON does, numbers keep the digits they were written with; what comes out
is read back as the same values by any YAML 1.1 or 1.2 reader.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_WORDS = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})
_UNPRINTABLE = re.compile("[\x7f-\x9f\ud800-\udfff\ufeff\u2028\u2029\ufffe\uffff]")


class _Digits(float):
    """A number that keeps its text: 1.50 and 1e400 are not what a float makes of them."""

    text: str


def yaml_of(document: bytes) -> str:
    """YAML of a JSON document.

    >>> print(yaml_of(b'{"id": "a", "sizes": [64, 1.50], "none": {}}'), end="")
    id: "a"
    sizes:
    - 64
    - 1.50
    none: {}
    """
    value: object = json.loads(document, parse_float=_digits)
    lines = [_scalar(value)] if _is_scalar(value) else list(_lines(value, ""))
    return "\n".join(lines) + "\n"


def _digits(text: str) -> _Digits:
    number = _Digits(text)
    # YAML 1.1 takes 1e5 for a string; with a point and a sign every reader sees a number.
    mantissa, exponent, power = text.lower().partition("e")
    if exponent:
        mantissa = mantissa if "." in mantissa else f"{mantissa}.0"
        power = power if power[0] in "+-" else f"+{power}"
    number.text = f"{mantissa}{exponent}{power}"
    return number


def _is_scalar(value: object) -> bool:
    return not (isinstance(value, dict | list) and value)


def _lines(value: object, indent: str) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in cast("Mapping[str, object]", value).items():
            yield from _entry(f"{indent}{_key(key)}:", item, indent)
    else:
        for item in cast("Sequence[object]", value):
            if _is_scalar(item):
                yield f"{indent}- {_scalar(item)}"
                continue
            inner = iter(_lines(item, indent + "  "))
            yield f"{indent}- {next(inner).removeprefix(indent + '  ')}"
            yield from inner


def _entry(head: str, item: object, indent: str) -> Iterator[str]:
    if _is_scalar(item):
        yield f"{head} {_scalar(item)}"
        return
    yield head
    yield from _lines(item, indent if isinstance(item, list) else indent + "  ")


def _key(key: str) -> str:
    plain = _PLAIN_KEY.fullmatch(key) and key.lower() not in _WORDS
    return key if plain else _quoted(key)


def _scalar(value: object) -> str:
    match value:
        case _Digits():
            return value.text
        case str():
            return _quoted(value)
        case _:
            return json.dumps(value)


def _quoted(text: str) -> str:
    quoted = json.dumps(text, ensure_ascii=False)
    return _UNPRINTABLE.sub(lambda match: _escape(ord(match[0])), quoted)


def _escape(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
