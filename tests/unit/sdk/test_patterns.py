"""Type names and the patterns that select them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.sdk.odd import odd

from runnerq.errors import ConfigurationError
from runnerq.patterns import check_pattern, check_type_name, matches, resolve

names = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,30}", fullmatch=True)
HANDLED = ("report.daily", "report.weekly", "send_mail", "send_sms")


@pytest.mark.parametrize("name", ["a", "_x", "0", "a.b", "a:b/c-d", "A" * 200])
def test_a_type_name_may_stand_unquoted_in_a_url(name: str) -> None:
    check_type_name(name, field="type")


@pytest.mark.parametrize(
    "name",
    ["", " ", "a b", "-a", ".a", "a*", "a\n", "a\x00", "ä", "A" * 201, "a?b", None, 5, b"a"],
)
def test_what_is_no_type_name_is_refused_by_the_name_of_its_field(name: object) -> None:
    with pytest.raises(ConfigurationError, match=r"^type: ") as caught:
        check_type_name(odd(name), field="type")
    assert caught.value.field == "type"


@pytest.mark.parametrize("pattern", ["*", "send_*", "report.*", "send_mail"])
def test_a_pattern_is_a_name_a_prefix_or_a_star(pattern: str) -> None:
    check_pattern(pattern)


@pytest.mark.parametrize("pattern", ["", "**", "*a", "a*b", "a**", "a b*", "*.", None, 5])
def test_other_patterns_are_refused(pattern: object) -> None:
    with pytest.raises(ConfigurationError) as caught:
        check_pattern(odd(pattern))
    assert caught.value.field == "activity_types"


def test_no_patterns_select_every_handled_type() -> None:
    assert resolve(None, HANDLED) == HANDLED
    assert resolve(["*"], HANDLED) == HANDLED


def test_patterns_select_what_they_match_once_and_in_order() -> None:
    assert resolve(["send_*", "report.daily", "send_mail"], HANDLED) == (
        "report.daily",
        "send_mail",
        "send_sms",
    )


@pytest.mark.parametrize(
    ("patterns", "field"),
    [
        (["send_mail", "send_fax"], "activity_types[1]"),
        (["fax_*"], "activity_types[0]"),
        (["report.*", "a*b"], "activity_types[1]"),
        ([], "activity_types"),
        ("send_*", "activity_types"),
        ([None], "activity_types[0]"),
    ],
)
def test_a_pattern_that_selects_nothing_is_an_error_that_says_which(
    patterns: object, field: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        resolve(odd(patterns), HANDLED)
    assert caught.value.field == field


def test_an_error_lists_what_is_registered() -> None:
    with pytest.raises(ConfigurationError, match=r"registered are: report\.daily, report\.weekly"):
        resolve(["fax"], HANDLED)


@given(name=names)
def test_a_name_matches_itself_the_star_and_each_of_its_prefixes(name: str) -> None:
    assert matches(name, name)
    assert matches("*", name)
    assert all(matches(f"{name[:length]}*", name) for length in range(len(name) + 1))


@given(name=names, other=names)
def test_an_exact_pattern_matches_nothing_else(name: str, other: str) -> None:
    assert matches(name, other) is (name == other)
