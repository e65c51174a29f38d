"""How a text is cut into words, sentences and syllables, and which words lead it."""

from __future__ import annotations

import pytest

from docs_index.words import (
    STOP_WORDS,
    leading_terms,
    sentences_in,
    syllables_in,
    words_of,
)


def test_words_are_lower_case_letters_with_inner_apostrophes():
    assert words_of("Don't PANIC: snake_case, x86 'quoted' Straße") == [
        "don't",
        "panic",
        "snake",
        "case",
        "x",
        "quoted",
        "straße",
    ]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One. Two! Three?", 3),
        ("Version 3.11 is one sentence", 1),
        ("A heading\n\nand a paragraph.", 2),
        ("What?! Really...", 2),
        ("", 1),
        ("... . !", 1),
    ],
)
def test_sentences_end_with_a_mark_or_a_blank_line(text: str, sentences: int):
    assert sentences_in(text) == sentences


@pytest.mark.parametrize(
    ("word", "syllables"),
    [
        ("cat", 1),
        ("table", 2),
        ("queue", 1),
        ("syllable", 3),
        ("tree", 1),
        ("made", 1),
        ("the", 1),
        ("brr", 1),
        ("readability", 5),
    ],
)
def test_syllables_are_groups_of_vowels_without_a_silent_e(word: str, syllables: int):
    assert syllables_in([word]) == syllables
    assert syllables_in([word, word]) == 2 * syllables


def test_leading_terms_are_by_frequency_then_by_name():
    assert list(leading_terms(["beta", "alpha", "gamma", "beta"]).items()) == [
        ("beta", 2),
        ("alpha", 1),
        ("gamma", 1),
    ]


def test_leading_terms_carry_meaning_and_are_no_data():
    assert leading_terms(["with", "the", "abc", "q" * 25, "which"]) == {}
    assert all(word == word.lower() for word in STOP_WORDS)


def test_leading_terms_are_at_most_as_many_as_asked_for():
    assert list(leading_terms(["delta", "gamma", "beta", "alpha"], limit=2)) == ["alpha", "beta"]
