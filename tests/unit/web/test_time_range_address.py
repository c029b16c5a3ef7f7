"""A time range survives its way through an address, whatever the address holds."""

from datetime import UTC, datetime
from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.web.time_range import SPANS, Kept, TimeRange, read_time_range

NOW = datetime(2026, 5, 4, 12, 0, 30, tzinfo=UTC)
NOW_S = int(NOW.timestamp())
HOUR, DAY = 3600, 86_400


def read(**query):
    names = {name.rstrip("_"): text for name, text in query.items()}
    return read_time_range(names, now=NOW, usual_s=DAY, bucket_s=60)


@given(
    st.integers(NOW_S - 300 * DAY, NOW_S - 600),
    st.integers(600, 90 * DAY),
)
def test_address_encodes_the_whole_view(from_s, length_s):
    stretch = TimeRange(from_s=from_s, to_s=min(NOW_S, from_s + length_s), is_fixed=True)
    again = read_time_range(dict(parse_qsl(stretch.query)), now=NOW, usual_s=DAY, bucket_s=60)
    assert again == stretch


@given(st.dictionaries(st.sampled_from(["from", "to", "span"]), st.text(max_size=30)))
def test_any_query_gives_a_time_range_that_ends_by_now(query):
    found = read_time_range(query, now=NOW, usual_s=DAY, bucket_s=60)
    assert found.from_s < found.to_s <= NOW_S


@given(st.datetimes(), st.datetimes())
def test_any_two_times_give_a_range_of_at_least_eight_buckets(first, last):
    found = read(from_=first.isoformat(), to=last.isoformat())
    assert found.from_s + 8 * 60 <= found.to_s <= NOW_S


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (
            {"from_": "2026-05-04T08:30", "to": "2026-05-04T08:10"},
            "expected an end after its start",
        ),
        (
            {"from_": "2026-05-04T08:30", "to": "2026-05-04T08:30"},
            "expected an end after its start",
        ),
        ({"from_": "2026-05-05T08:30"}, "expected an end after its start"),
        ({"from_": "8:30"}, "Invalid time '8:30': expected 2026-11-21 22:00"),
        ({"from_": "2026-05-04T08:30", "to": "soon"}, "Invalid time 'soon'"),
        ({"from_": "2026-05-04T08:10", "to": "2026-05-04T08:30"}, ""),
        ({"from_": "2026-05-04T08:10", "to": "2026-05-04T08:11"}, ""),
        ({"from_": "2026-05-04T08:10", "to": ""}, ""),
        ({"span": "1h"}, ""),
        ({}, ""),
    ],
)
def test_range_that_cannot_be_shown_says_why(query, said):
    wrong = read(**query).wrong
    assert said in wrong
    assert bool(said) == bool(wrong)


@pytest.mark.parametrize("span", SPANS)
def test_span_ends_now(span):
    found = read(span=span)
    assert (found.to_s, found.length_s, found.query) == (NOW_S, SPANS[span], f"span={span}")


def test_times_without_a_zone_are_utc():
    naive, aware = (
        read(from_=f"2026-05-03T10:00{zone}", to="2026-05-03T12:00Z") for zone in ("", "+00:00")
    )
    assert naive == aware
    assert naive.begins == "2026-05-03 10:00"


def test_range_beyond_now_is_moved_back_at_full_length():
    later = TimeRange.last(6 * HOUR, NOW).moved(0.5)
    found = read_time_range(dict(parse_qsl(later.query)), now=NOW, usual_s=DAY, bucket_s=60)
    assert (found.to_s, found.length_s) == (NOW_S, 6 * HOUR)


def test_zooming_keeps_the_middle():
    stretch = TimeRange(from_s=NOW_S - 8 * HOUR, to_s=NOW_S - 4 * HOUR, is_fixed=True)
    assert stretch.zoomed(0.5).zoomed(2) == stretch


@pytest.mark.parametrize(
    ("length_s", "step_s"),
    [(HOUR, 60), (6 * HOUR, 180), (DAY, 900), (7 * DAY, 2 * HOUR), (30 * DAY, 8 * HOUR)],
)
def test_about_a_hundred_steps_in_whole_buckets_or_hours(length_s, step_s):
    assert TimeRange.last(length_s, NOW).step_s(60) == step_s


def test_chart_step_is_never_narrower_than_the_stored_level():
    day = TimeRange.last(DAY, NOW)
    assert day.step_s(60, Kept(buckets_from_s=NOW_S)) == HOUR
    assert day.step_s(60, Kept(buckets_from_s=NOW_S, hours_from_s=NOW_S)) == DAY
