"""The fingerprint of an interaction: small numbers, no text."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.models import Interaction
from monitor.rolling.tallies import (
    LANGUAGES,
    _kept_group,
    fingerprint,
    guess_language,
    length_bin,
    length_of_bin,
    topic_groups,
)


@pytest.mark.parametrize("position", range(40))
def test_bin_begins_at_the_length_it_names(position):
    assert length_bin(length_of_bin(position)) >= position
    assert length_bin(max(0, length_of_bin(position) - 2)) <= position


def test_length_bins_increase_with_length():
    bins = [length_bin(chars) for chars in range(3000)]
    assert bins == sorted(bins)
    assert length_bin(10**30) == 60


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("How do I reset the password for my account?", "en"),
        ("Wie kann ich mein Passwort nicht mehr vergessen?", "de"),
        ("Comment est-ce que je peux changer mon adresse?", "fr"),
        ("¿Cómo puedo cambiar mi dirección?", "es"),
        ("Где мой заказ?", "cyrillic"),
        ("我的订单在哪里", "han"),
        ("注文はどこですか", "kana"),
        ("내 주문은 어디에 있나요", "hangul"),
        ("12345 ???", "unknown"),
        ("xkcd qwzrt", "latin"),
    ],
)
def test_language_is_guessed(text, language):
    assert guess_language(text) == language


def test_topic_groups_ignore_case_and_repetition():
    assert topic_groups("Refund refund REFUND") == topic_groups("refund")


def test_topic_group_of_a_long_word_is_not_cached():
    before = _kept_group.cache_info().currsize
    assert topic_groups("q" * 4000 + " " + "z" * 41)
    assert _kept_group.cache_info().currsize == before


def test_interaction_counts_once_in_each_feature():
    found = fingerprint(Interaction(id="1", query="Where is my parcel?", output="There."))
    assert {name: sum(bins.values()) for name, bins in found.items() if name != "topic"} == {
        "contexts": 1,
        "output_chars": 1,
        "query_chars": 1,
        "language": 1,
        "queries": 1,
    }
    assert found["language"] == {LANGUAGES.index("en"): 1}


def test_text_that_was_not_captured_has_no_length():
    assert set(fingerprint(Interaction(id="1", query=None, output=""))) == {"contexts"}


@given(st.integers(1, 10**7))
def test_lengths_have_two_bins_per_doubling(chars):
    """The second half begins at the square root of two."""
    position = length_bin(chars)
    assert position == 1 + int(2 * math.log2(chars) + 1e-12)
    assert length_bin(2 * chars) == min(60, position + 2)
    assert length_of_bin(position) <= chars + 1


def test_empty_text_has_bin_zero():
    assert [length_bin(0), length_bin(-3), length_of_bin(0), length_of_bin(-1)] == [0, 0, 0, 0]
    assert [length_of_bin(position) for position in range(1, 9)] == [1, 2, 2, 3, 4, 6, 8, 12]


def test_many_passages_are_counted_as_twenty():
    contexts = [{"id": str(k), "text": "x"} for k in range(23)]
    found = fingerprint(Interaction(id="1", query="Hi", output="x", contexts=contexts[:20]))
    more = fingerprint(Interaction(id="1", query="Hi", output="x", contexts=contexts))
    assert found["contexts"] == more["contexts"] == {20: 1}
    assert fingerprint(Interaction(id="1", query="Hi", output="x"))["contexts"] == {0: 1}


def test_words_of_three_letters_and_more_make_a_topic():
    assert topic_groups("to be 12 a1 _x") == set()
    assert len(topic_groups("the cat")) == 2
    assert all(0 <= group < 128 for group in topic_groups("all sorts of words make groups"))


def test_topic_is_that_of_the_first_four_thousand_characters_and_length_is_whole():
    query = "word " * 800 + "another " * 200
    found = fingerprint(Interaction(id="1", query=query, output="x"))
    assert set(found["topic"]) == topic_groups("word")
    assert found["query_chars"] == {length_bin(len(query)): 1}


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("de la", "latin"),  # French and Spanish and Dutch alike
        ("the my and mein und das ist", "de"),
        ("Ж the and is", "en"),
        ("ЖЖЖЖЖЖЖЖЖЖ the", "cyrillic"),
        ("漢字漢字漢字漢字の", "kana"),
        ("", "unknown"),
    ],
)
def test_language_is_that_of_most_letters_and_most_common_words(text, language):
    assert guess_language(text) == language
