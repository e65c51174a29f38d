"""Our YAML is read back as the same values by a YAML library that is not ours."""

from __future__ import annotations

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from runnerq.cli.yaml_text import yaml_of

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(VALUES)
def test_what_is_written_reads_back_the_same(value: object) -> None:
    document = json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")
    assert yaml.safe_load(yaml_of(document)) == value


@pytest.mark.parametrize(
    "text",
    [
        "yes",
        "null",
        "~",
        "1",
        "1.5",
        "",
        " x",
        "a: b",
        "#",
        "- x",
        "\x7f",
        "\x1b[31m",
        "'",
        "é",
        "\u2028",
    ],
)
def test_a_string_stays_a_string_as_key_and_as_value(text: str) -> None:
    document = json.dumps({text: [text]}).encode()
    assert yaml.safe_load(yaml_of(document)) == {text: [text]}


def test_digits_are_written_as_they_came() -> None:
    assert yaml_of(b'{"a": 1.50, "b": 123456789012345678901234567890}') == (
        "a: 1.50\nb: 123456789012345678901234567890\n"
    )


def test_control_characters_never_reach_the_terminal() -> None:
    assert "\x1b" not in yaml_of(json.dumps("\x1b[31mred\x9b").encode())
    assert "\x9b" not in yaml_of(json.dumps("\x9b").encode())
