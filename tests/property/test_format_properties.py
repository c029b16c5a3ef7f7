"""Whatever a stranger wrote comes out as one short, visible line; figures keep their order."""

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from alerts.channels.slack import escape
from monitor.format import duration, percent, plain_text, sparkline

hostile_text = st.text(st.characters(exclude_categories=[]), max_size=300)


@given(hostile_text, st.integers(1, 250))
def test_plain_text_is_one_line_within_its_limit(text, limit):
    shown = plain_text(text, limit)
    assert len(shown) <= limit
    assert len(shown.splitlines()) <= 1
    shown.encode()


@given(hostile_text)
def test_plain_text_has_no_control_or_format_character(text):
    acting = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
    assert not {unicodedata.category(character) for character in plain_text(text)} & acting


@given(hostile_text, st.integers(1, 250))
def test_plain_text_is_idempotent(text, limit):
    assert plain_text(plain_text(text, limit), limit) == plain_text(text, limit)


@given(hostile_text)
def test_slack_text_cannot_start_a_mention_or_a_link(text):
    assert not set(escape(text)) & {"<", ">"}


@given(st.lists(st.none() | st.floats(0, 1)), st.booleans())
def test_sparkline_has_one_character_a_rate(rates, fit):
    line = sparkline(rates, fit=fit)
    assert [character == "·" for character in line] == [rate is None for rate in rates]


@given(st.lists(st.floats(0, 1), min_size=1), st.booleans())
def test_sparkline_rises_with_its_rates(rates, fit):
    line = sparkline(sorted(rates), fit=fit)
    assert list(line) == sorted(line)


_SECONDS = {"d": 86_400, "h": 3_600, "min": 60, "s": 1}


@given(st.floats(0, 1e8))
def test_formatted_duration_is_accurate_to_its_smaller_unit(seconds):
    words = duration(seconds).split()
    said = sum(int(n) * _SECONDS[unit] for n, unit in zip(words[::2], words[1::2], strict=True))
    smallest = {"d": "h", "h": "min", "min": "s", "s": "s"}[words[1]]
    assert 0 <= round(seconds) - said < _SECONDS[smallest]


@given(st.floats(0, 1))
def test_formatted_percentage_can_be_parsed_back(rate):
    assert abs(float(percent(rate).removesuffix(" %")) / 100 - rate) <= 0.0005 + 1e-9
