"""Whatever a stranger wrote comes out as one short, visible line."""

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from alerts.escaping import plain, slack

hostile_text = st.text(st.characters(exclude_categories=[]), max_size=300)


@given(hostile_text, st.integers(2, 100))
def test_plain_text_is_one_line_within_its_limit(text, limit):
    cleaned = plain(text, limit)
    assert len(cleaned) <= limit
    assert len(cleaned.splitlines()) <= 1


@given(hostile_text)
def test_plain_text_has_no_character_that_acts(text):
    assert not {unicodedata.category(character) for character in plain(text)} & {"Cc", "Cf", "Cs"}


@given(hostile_text)
def test_plain_text_does_not_change_when_cleaned_again(text):
    assert plain(plain(text)) == plain(text)


@given(hostile_text)
def test_slack_text_can_begin_no_mention_and_no_link(text):
    assert not set(slack(text)) & {"<", ">"}
