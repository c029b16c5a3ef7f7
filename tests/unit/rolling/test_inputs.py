"""The fingerprint of an interaction: small numbers, no text."""

import pytest

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


def test_bins_of_lengths_grow():
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


def test_topic_has_each_group_once_whatever_the_case():
    assert topic_groups("Refund refund REFUND") == topic_groups("refund")


def test_group_of_a_long_word_is_not_kept():
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
