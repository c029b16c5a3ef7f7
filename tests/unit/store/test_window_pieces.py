"""A window is cut so that nothing is read twice, nothing is left out, and little is read."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from monitor.store.query import BUCKETS, DAY_S, DAYS, HOUR_S, HOURS, RollupMark, pieces

MINUTE_S = 60
#: What any cut costs at most: of each narrower level a part before and a part behind.
MOST_PIECES = 5


def times(width_s, most):
    return st.integers(0, most).map(lambda n: n * width_s)


marks = st.builds(
    lambda hours_s, days_s, buckets_s, kept_s: {
        "bucket": RollupMark(0, min(buckets_s, hours_s)),
        "hour": RollupMark(hours_s, min(kept_s, hours_s, days_s)),
        "day": RollupMark(min(days_s, hours_s // DAY_S * DAY_S), 0),
    },
    times(HOUR_S, 100),
    times(DAY_S, 4),
    times(HOUR_S, 100),
    times(DAY_S, 4),
)


@given(times(MINUTE_S, 7_000), times(MINUTE_S, 7_000), marks)
def test_window_pieces_are_contiguous_and_complete_at_their_level(from_s, to_s, known):
    cut = pieces(from_s, to_s, known)
    if to_s <= from_s - from_s % DAY_S:
        assert cut == []
    for piece, after in pairwise(cut):
        assert piece.to_s == after.from_s
    for piece in cut:
        assert piece.from_s < piece.to_s
        if piece.level is not BUCKETS:
            assert piece.from_s % piece.level.width_s == piece.to_s % piece.level.width_s == 0
            assert piece.to_s <= known[piece.level.name].complete_to_s
    if cut:
        # A beginning of which the narrow rows are gone is that of its hour or day.
        assert from_s - DAY_S < cut[0].from_s <= from_s
        assert cut[-1].to_s == to_s
        assert len(cut) <= MOST_PIECES


@given(times(MINUTE_S, 7_000), marks)
def test_open_window_ends_with_open_buckets(from_s, known):
    *closed, last = pieces(from_s, None, known)
    assert (last.level, last.to_s) == (BUCKETS, None)
    assert all(piece.to_s is not None for piece in closed)


FULL = {"bucket": RollupMark(), "hour": RollupMark(4 * DAY_S), "day": RollupMark(4 * DAY_S)}


def test_widest_complete_level_is_read_for_each_part():
    assert pieces(DAY_S - HOUR_S - 60, 3 * DAY_S + HOUR_S + 60, FULL) == [
        (BUCKETS, DAY_S - HOUR_S - 60, DAY_S - HOUR_S),
        (HOURS, DAY_S - HOUR_S, DAY_S),
        (DAYS, DAY_S, 3 * DAY_S),
        (HOURS, 3 * DAY_S, 3 * DAY_S + HOUR_S),
        (BUCKETS, 3 * DAY_S + HOUR_S, 3 * DAY_S + HOUR_S + 60),
    ]


def test_no_level_wider_than_requested_is_read():
    assert pieces(0, 2 * DAY_S, FULL, widest_s=HOUR_S) == [(HOURS, 0, 2 * DAY_S)]
    assert pieces(0, 2 * DAY_S, FULL, widest_s=HOUR_S - 1) == [(BUCKETS, 0, 2 * DAY_S)]


def test_range_without_narrow_rows_starts_at_the_containing_row():
    gone = FULL | {"bucket": RollupMark(0, DAY_S + HOUR_S)}
    assert pieces(DAY_S + 60, DAY_S + 2 * HOUR_S, gone, widest_s=MINUTE_S) == [
        (HOURS, DAY_S, DAY_S + 2 * HOUR_S)
    ]
    assert pieces(DAY_S + HOUR_S, DAY_S + HOUR_S + 60, gone) == [
        (BUCKETS, DAY_S + HOUR_S, DAY_S + HOUR_S + 60)
    ]
    gone |= {"hour": RollupMark(4 * DAY_S, 2 * DAY_S)}
    assert pieces(DAY_S + 60, 2 * DAY_S, gone, widest_s=MINUTE_S) == [(DAYS, DAY_S, 2 * DAY_S)]
