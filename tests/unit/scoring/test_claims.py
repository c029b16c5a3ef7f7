"""Refusals and small talk are told from statements."""

import pytest

from monitor.scoring.claims import is_checkable, is_refusal


@pytest.mark.parametrize(
    "sentence",
    [
        "I'm sorry, I don't have information about that.",
        "The provided passages do not mention the price.",
        "There is no information about opening hours.",
        "I cannot answer this.",
        "The price is not mentioned in the given context.",
        "Unable to answer based on given passages.",
    ],
)
def test_refusal_is_recognised_when_sentence_declines(sentence):
    assert is_refusal(sentence)
    assert not is_checkable(sentence)


@pytest.mark.parametrize(
    "sentence",
    [
        "The passage does not mention the price, but the shop is open on Sundays.",
        "The museum does not sell tickets.",
        "Sorry is a song of 2015.",
    ],
)
def test_no_refusal_is_seen_when_sentence_states_something(sentence):
    assert not is_refusal(sentence)
    assert is_checkable(sentence)


@pytest.mark.parametrize(
    "sentence", ["Sure!", "Let me know if you need more.", "Is that so?", "Here it is:", "Yes."]
)
def test_nothing_is_checkable_when_sentence_is_small_talk(sentence):
    assert not is_checkable(sentence)
