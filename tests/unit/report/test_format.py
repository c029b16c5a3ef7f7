"""The one way to write figures, times and strangers' text."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from monitor.format import (
    count,
    duration,
    file_size,
    interval,
    listed,
    number,
    part_of,
    percent,
    plain_text,
    points,
    points_with_interval,
    rate_with_interval,
    score,
    short_id,
    sparkline,
    usd,
    utc_second,
    utc_time,
)

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-5, "0 s"),
        (0, "0 s"),
        (0.9, "1 s"),
        (59.6, "1 min"),
        (90, "1 min 30 s"),
        (119, "1 min 59 s"),
        (120, "2 min"),
        (300, "5 min"),
        (3600, "1 h"),
        (3601, "1 h"),
        (3700, "1 h 1 min"),
        (5400, "1 h 30 min"),
        (7199, "1 h 59 min"),
        (3 * 3600 + 600, "3 h 10 min"),
        (86_400, "24 h"),
        (172_799, "47 h 59 min"),
        (172_800, "2 d"),
        (2 * 86_400 + 60, "2 d"),
        (30 * 86_400, "30 d"),
        (timedelta(days=2, hours=3, minutes=4), "2 d 3 h"),
    ],
)
def test_duration_has_its_two_largest_units(seconds, words):
    assert duration(seconds) == words


@pytest.mark.parametrize(
    ("rate", "words"), [(None, "–"), (0.0, "0.0 %"), (0.7, "70.0 %"), (1.0, "100.0 %")]
)
def test_rate_has_one_decimal(rate, words):
    assert percent(rate) == words


def test_rate_is_rounded_to_whole_percent_on_request():
    assert percent(0.8849, 0) == "88 %"


def test_rate_comes_with_its_interval():
    assert rate_with_interval(0.62, 0.55, 0.69) == "62.0 % (55.0–69.0)"
    assert interval(0.55, 0.69) == "55.0–69.0"
    assert interval(None, 0.69) == "–"


@pytest.mark.parametrize("rates", [(None, 0, 1), (0, None, 1), (0, 1, None)])
def test_rate_without_its_interval_is_a_dash(rates):
    assert rate_with_interval(*rates) == "–"


@pytest.mark.parametrize(
    ("change", "words"), [(None, "–"), (-0.181, "−18.1 pts"), (0.05, "+5.0 pts"), (0.0, "+0.0 pts")]
)
def test_change_is_signed(change, words):
    assert points(change) == words


def test_change_comes_with_its_bounds():
    assert points_with_interval(-0.13, -0.17, 0.02) == "−13.0 pts (−17.0 to +2.0)"


@pytest.mark.parametrize(("value", "words"), [(None, "–"), (0.5, "0.50"), (0.996, "1.00")])
def test_score_has_two_decimals(value, words):
    assert score(value) == words


def test_counts_have_thousands_separated():
    assert (number(None), number(1234.4)) == ("–", "1,234")
    assert (count(1, "app"), count(0, "app"), count(1200, "app")) == (
        "1 app",
        "0 apps",
        "1,200 apps",
    )


@pytest.mark.parametrize(
    ("part", "whole", "words"),
    [
        (1, 3, "1 of 3 apps is"),
        (2, 3, "2 of 3 apps are"),
        (0, 1, "0 of 1 app is"),
        (0, 2, "0 of 2 apps are"),
    ],
)
def test_verb_of_a_part_agrees_with_its_count(part, whole, words):
    assert part_of(part, whole, "app") == words


@pytest.mark.parametrize(
    ("names", "words"), [("", ""), ("abc", "a, b, c"), ("abcde", "a, b, c and 2 more")]
)
def test_long_list_of_names_ends_in_the_number_of_the_others(names, words):
    assert listed(names) == words


@pytest.mark.parametrize(
    ("amount", "words"),
    [(0, "$0.00"), (0.0452, "$0.0452"), (0.24, "$0.24"), (1, "$1.00"), (1234.567, "$1,234.57")],
)
def test_money_has_more_digits_below_ten_cents(amount, words):
    assert usd(amount) == words


@pytest.mark.parametrize(
    ("n_bytes", "words"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1_000, "1.0 kB"),
        (9_960, "10 kB"),
        (12_345_678, "12 MB"),
        (999_600, "1.0 MB"),
        (5e15, "5000 TB"),
    ],
)
def test_size_has_two_digits_and_a_unit(n_bytes, words):
    assert file_size(n_bytes) == words


def test_time_has_a_date_unless_it_is_of_the_same_day():
    assert utc_time(NOW.replace(hour=1), NOW) == "01:00:00 UTC"
    assert utc_time(NOW.replace(year=2025), NOW) == "2025-03-01 12:00 UTC"
    assert utc_time(NOW) == "2026-03-01 12:00 UTC"
    assert utc_second(NOW) == "2026-03-01 12:00:00 UTC"


def test_time_of_another_zone_is_written_in_utc():
    at = datetime(2026, 3, 1, 1, 30, tzinfo=timezone(timedelta(hours=2)))
    assert utc_time(at, NOW) == utc_time(at) == "2026-02-28 23:30 UTC"


def test_sparkline_keeps_gaps():
    assert sparkline([0.0, None, 0.5, 0.99, 1.0, None]) == "▁·▅██·"
    assert sparkline([]) == ""


def test_sparkline_scales_to_the_rates_on_request():
    assert sparkline([0.5, None, 1.0, 0.75], fit=True) == "▁·█▅"
    assert sparkline([0.9, 0.9], fit=True) == "██"
    assert sparkline([None], fit=True) == "·"


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("two\r\nlines\ttab\x0b", "two lines tab"),
        ("\x1b[31mred\x1b[0m", "[31mred[0m"),
        ("\x9b31mred", "31mred"),
        ("\u202eright to left\u2066", "right to left"),
        ("zero\u200bwidth\ufeff", "zerowidth"),
        ("nul\x00 del\x7f", "nul del"),
        ("para\u2029graph", "para graph"),
        ("tag\U000e0041", "tag"),
        ("half\ud800", "half"),
        ("Zürich 東京 🙂", "Zürich 東京 🙂"),
        ("[/red] <!channel> a|b", "[/red] <!channel> a|b"),
        ("", ""),
    ],
)
def test_hostile_text_becomes_one_printable_line(hostile, shown):
    assert plain_text(hostile) == shown


def test_cut_text_is_marked():
    assert plain_text("x" * 11, 10) == "x" * 9 + "…"
    assert plain_text("x" * 10, 10) == "x" * 10


def test_huge_text_is_cut_before_it_is_read():
    assert plain_text("ab" * 10_000_000, 4) == "aba…"


def test_id_is_shortened_to_eight_characters():
    assert short_id("0123456789abcdef") == "01234567"
    assert short_id("\x1b[2J0123456789") == "[2J01234"
