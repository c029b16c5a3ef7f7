"""Hours and days: exact whatever comes when, cheap to read, let go in time."""

import random
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import func, select

from monitor.models import Tally
from monitor.store.query import (
    BUCKETS,
    DAYS,
    HOURS,
    RollupMark,
    active_streams,
    pieces,
    read_marks,
    series,
    window_tallies,
)
from monitor.store.rollup import roll_up
from monitor.store.tables import bucket_bins, buckets, day_buckets, hour_bins, hour_buckets
from monitor.store.write import record
from monitor.testing import make_evaluation, make_interaction, make_sample
from workers.scoring_run import ScoringRules, result_of

START = datetime(2026, 1, 1, tzinfo=UTC)
START_S = int(START.timestamp())
RULES = ScoringRules(pass_score=0.7, bucket_s=60)
HOUR, DAY = 3600, 86_400


def write(store, *items):
    """Write one evaluation for each (seconds since START, score)."""
    results = []
    for at_s, score in items:
        at = START + timedelta(seconds=at_s)
        sample = make_sample(make_interaction(), sampled_at=at)
        results.append(result_of(sample, [make_evaluation(score=score)], RULES, now=at))
    with store.write() as connection:
        record(connection, results, now=START, bucket_s=60)


def roll(store, now_s):
    return roll_up(store, now_s=START_S + now_s, settle_s=600)


def window(store, from_s=0, to_s=None):
    with store.read() as connection:
        found = window_tallies(
            connection, from_s=START_S + from_s, to_s=None if to_s is None else START_S + to_s
        )
    return next(iter(found.values()), Tally())


def count(store, table):
    with store.read() as connection:
        return connection.execute(select(func.count()).select_from(table)).scalar_one()


def test_closed_hour_is_summed_with_its_histogram(store):
    write(store, (60, 0.9), (120, 0.2), (HOUR + 5, 0.5))
    assert roll(store, HOUR + 700) == 1
    assert (count(store, hour_buckets), count(store, hour_bins)) == (1, 2)


def test_open_or_unsettled_hour_is_not_summed(store):
    write(store, (60, 0.9))
    assert roll(store, HOUR + 599) == 0


def test_second_rollup_changes_nothing(store):
    write(store, (60, 0.9), (HOUR, 0.1))
    roll(store, 3 * HOUR)
    before = window(store)
    assert roll(store, 3 * HOUR) == 0
    assert window(store) == before
    assert before.n == 2


def test_late_event_is_counted_once_at_every_level(store):
    write(store, (60, 0.9), (DAY + HOUR, 0.9))
    roll(store, 2 * DAY + HOUR)
    write(store, (30, 0.2), (DAY + HOUR + 1, 0.2))
    roll(store, 2 * DAY + HOUR)
    whole = window(store, 0, 2 * DAY)
    assert (whole.n, whole.passed, whole.histogram) == (4, 2, {90: 2, 20: 2})


def test_window_sums_equal_their_events_in_any_order(store):
    rng = random.Random(3)
    events = [(rng.randrange(0, 3 * DAY), rng.choice([0.1, 0.5, 0.9])) for _ in range(300)]
    for first in range(0, 300, 60):
        write(store, *events[first : first + 60])
        roll(store, rng.randrange(DAY, 3 * DAY))
    for _ in range(12):
        from_s, to_s = (rng.randrange(0, 3 * DAY // 60) * 60 for _ in range(2))
        inside = [score for at_s, score in events if from_s <= at_s < to_s]
        # A beginning older than the buckets are kept is moved to its hour.
        kept_s = read_kept(store)
        if from_s < kept_s:
            from_s = from_s // HOUR * HOUR
            inside = [score for at_s, score in events if from_s <= at_s < to_s]
        found = window(store, from_s, to_s)
        assert (found.n, found.histogram.total()) == (len(inside), len(inside))
        assert found.sum_x == pytest.approx(sum(inside))


def read_kept(store):
    with store.read() as connection:
        return max(0, read_marks(connection)["bucket"].kept_from_s - START_S)


def test_deleting_buckets_keeps_the_sums(store):
    write(store, *((60 * minute, 0.9) for minute in range(120)))
    write(store, (4 * DAY, 0.5))
    roll(store, 4 * DAY + HOUR + 700)
    assert (count(store, buckets), count(store, bucket_bins)) == (1, 1)
    assert window(store, 0, 2 * HOUR).n == 120
    assert window(store).n == 121


def test_hours_are_deleted_once_days_include_them(store):
    write(store, (60, 0.9), (40 * DAY, 0.5))
    roll(store, 40 * DAY + 2 * HOUR)
    assert (count(store, hour_buckets), count(store, day_buckets)) == (1, 1)
    assert window(store, 0, DAY).n == 1


def test_chart_uses_hours_when_buckets_are_deleted(store):
    write(store, (60, 0.9), (HOUR, 0.9), (4 * DAY, 0.5))
    roll(store, 4 * DAY + 2 * HOUR)
    with store.read() as connection:
        (stream,) = active_streams(connection, since_s=0)
        found = series(connection, [stream.stream_id], from_s=START_S, step_s=HOUR)
    steps = found[stream.stream_id]
    assert {start_s - START_S: tally.n for start_s, tally in steps.items()} == {
        0: 1,
        HOUR: 1,
        4 * DAY: 1,
    }


def test_long_window_is_cut_into_days_hours_and_buckets():
    marks = {
        "bucket": RollupMark(0, 5 * DAY),
        "hour": RollupMark(7 * DAY + 3 * HOUR, 0),
        "day": RollupMark(7 * DAY, 0),
    }
    assert pieces(DAY + 90, None, marks) == [
        (DAYS, DAY, 7 * DAY),
        (HOURS, 7 * DAY, 7 * DAY + 3 * HOUR),
        (BUCKETS, 7 * DAY + 3 * HOUR, None),
    ]


def test_empty_window_splits_into_no_pieces():
    marks = {"bucket": RollupMark(), "hour": RollupMark(), "day": RollupMark()}
    assert pieces(100, 100, marks) == []
