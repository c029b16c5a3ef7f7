"""What is read from the buckets: streams, series, costs, pass lines; and how hours are made."""

from collections import Counter

import pytest
from sqlalchemy import select

from monitor.models import StreamKey
from monitor.models.status import TALLY_SUMS
from monitor.store.engine import insert
from monitor.store.query import (
    BUCKETS,
    DAY_S,
    DAYS,
    HOUR_S,
    HOURS,
    active_streams,
    bucket_sums,
    cost_usd_since,
    ensure_marks,
    passes_from_bins,
    read_first_scores,
    read_marks,
    read_pass_lines,
    series,
    shared_values,
    window_tallies,
)
from monitor.store.rollup import roll_up
from monitor.store.tables import levels, pass_lines, streams
from monitor.store.write import add_late

SUMS = ("n_total", "sum_w", "sum_w2", "sum_wy", "past_n", "past_w", "past_w2", "past_wy")


def add_stream(connection, stream_id, *, app="shop", metric="m", segment="*", version="v", **given):
    row = dict.fromkeys(SUMS, 0) | {"stream_id": stream_id, "app": app, "metric": metric}
    row |= {"segment": segment, "evaluator_version": version, "last_bucket_s": 10**9}
    insert(connection, streams, [row | given])


def add_sums(connection, level, stream_id, start_s, n=1, **given):
    row = dict.fromkeys(TALLY_SUMS, 0) | {"stream_id": stream_id, "start_s": start_s, "n": n}
    insert(connection, level.sums, [row | given])


def add_bins(connection, level, stream_id, start_s, **counts):
    rows = [
        {"stream_id": stream_id, "start_s": start_s, "bin": int(name[1:]), "count": n}
        for name, n in counts.items()
    ]
    insert(connection, level.bins, rows)


def set_mark(connection, level, complete_to_s=0, kept_from_s=0):
    ensure_marks(connection)
    values = {"complete_to_s": complete_to_s, "kept_from_s": kept_from_s}
    connection.execute(levels.update().where(levels.c.level == level.name).values(values))


def test_unset_rollup_marks_mean_nothing_summed_and_nothing_deleted(connection):
    ensure_marks(connection)
    assert set(read_marks(connection).values()) == {(0, 0)}
    assert read_marks(connection, names=("texts",)) == {"texts": (0, 0)}


def test_streams_are_those_that_counted_since_a_time(connection):
    for number, last_s in ((1, 59), (2, 60), (3, 61)):
        add_stream(connection, number, metric=f"m{number}", last_bucket_s=last_s)
    found = active_streams(connection, since_s=59.5)
    assert [stream.stream_id for stream in found] == [2, 3]
    assert found[0].key == StreamKey("shop", "m2", "*", "v")


def test_scores_late_on_arrival_are_excluded_from_stream_sums(connection):
    sums = {"sum_w": 8, "sum_w2": 16, "sum_wy": 4, "past_w": 1, "past_w2": 2, "past_wy": 3}
    add_stream(connection, 1, n_total=9, past_n=4, **sums)
    [stream] = active_streams(connection, since_s=0)
    assert (stream.n_total, stream.sum_w, stream.sum_w2, stream.sum_wy) == (5, 7, 14, 1)


@pytest.mark.parametrize(
    ("lasts", "current_since_s", "speaks"),
    [
        ((100, 90), None, 2),
        ((100, 90), 95, 1),
        ((80, 90), 95, 2),
        ((90, 80), 95, 1),
        ((95, 95), 95, 2),
    ],
)
def test_newest_current_version_is_reported_or_else_the_last_used(
    connection, lasts, current_since_s, speaks
):
    for number, last_s in enumerate(lasts, 1):
        add_stream(connection, number, version=f"v{number}", last_bucket_s=last_s)
    found = active_streams(connection, since_s=0, current_since_s=current_since_s)
    assert [stream.stream_id for stream in found] == [speaks]


def test_newest_model_and_release_of_each_app_are_shared(connection):
    given = [
        ("shop", "release=a", 50, 9), ("shop", "release=b", 60, 1), ("shop", "release=c", 60, 2),
        ("shop", "model=x", 60, 1), ("bot", "release=b", 59, 1), ("shop", "user=y", 60, 1),
    ]  # fmt: skip
    for number, (app, segment, last_s, n) in enumerate(given, 1):
        add_stream(connection, number, app=app, segment=segment, last_bucket_s=last_s, n_total=n)
    found = shared_values(connection, since_s=59.5)
    assert {app: set(values) for app, values in found.items()} == {"shop": {"release=c", "model=x"}}


def test_window_is_the_sum_of_its_pieces_with_their_histograms(connection):
    for number, app in ((1, "shop"), (2, "bot")):
        add_stream(connection, number, app=app)
        for level, start_s in (
            (DAYS, 0),
            (HOURS, DAY_S),
            (BUCKETS, DAY_S + HOUR_S),
            (BUCKETS, 2 * DAY_S),
        ):
            add_sums(connection, level, number, start_s, n=2, sum_x=0.5)
            add_bins(connection, level, number, start_s, b3=1, b4=1)
    set_mark(connection, HOURS, DAY_S + HOUR_S)
    set_mark(connection, DAYS, DAY_S)
    found = window_tallies(connection, from_s=0, to_s=2 * DAY_S)
    assert found.keys() == {1, 2}
    assert (found[1].n, found[1].sum_x, found[1].histogram) == (6, 1.5, {3: 3, 4: 3})
    assert window_tallies(connection, from_s=0, app="bot", histograms=False)[2].histogram == {}
    assert window_tallies(connection, from_s=0)[1].n == 8


def test_baseline_uses_hours_when_buckets_are_deleted(connection):
    add_stream(connection, 1)
    for start_s in (0, HOUR_S):
        add_sums(connection, HOURS, 1, start_s, n=60)
    for start_s in (HOUR_S - 60, HOUR_S, HOUR_S + 60, HOUR_S + 120):
        add_sums(
            connection, BUCKETS, 1, start_s, sum_w=2, sum_w2=4, sum_wy=1, sum_w2y=3, sum_w2yy=5
        )
    set_mark(connection, BUCKETS, kept_from_s=HOUR_S)
    found = bucket_sums(connection, 1, from_s=0, to_s=HOUR_S + 120)
    of_bucket = (1, 2, 4, 1, 3, 5)
    assert [row[:2] for row in found] == [(0, 60), (HOUR_S, 1), (HOUR_S + 60, 1)]
    assert found[1] == (HOUR_S, *of_bucket)
    assert [row[0] for row in bucket_sums(connection, 1, from_s=HOUR_S + 60, to_s=DAY_S)] == [
        HOUR_S + 60, HOUR_S + 120,
    ]  # fmt: skip
    assert bucket_sums(connection, 2, from_s=0, to_s=DAY_S) == []


def test_chart_has_a_tally_for_each_step_that_counted_something(connection):
    add_stream(connection, 1)
    add_stream(connection, 2, metric="other")
    for start_s in (0, 60, 240, 300, 900):
        add_sums(connection, BUCKETS, 1, start_s)
    steps = series(connection, [1], from_s=60, to_s=900, step_s=300)
    assert {at: tally.n for at, tally in steps[1].items()} == {0: 2, 300: 1}
    assert steps.keys() == {1}


def test_cost_is_that_of_whole_apps_since_a_time(connection):
    add_stream(connection, 1)
    add_stream(connection, 2, segment="release=a")
    for start_s, cost in ((0, 1_000_000), (60, 2_500_000), (120, 4_000_000)):
        for number in (1, 2):
            add_sums(connection, BUCKETS, number, start_s, cost_microusd=cost)
    assert cost_usd_since(connection, 60.5) == pytest.approx(6.5)
    assert cost_usd_since(connection, 10**6) == 0


def test_scores_from_a_bin_upward_are_counted_per_minute(connection):
    for start_s, bins in ((0, {"b9": 1}), (60, {"b49": 1, "b50": 2, "b90": 4}), (120, {"b90": 1})):
        add_bins(connection, BUCKETS, 1, start_s, **bins)
    add_bins(connection, BUCKETS, 2, 60, b90=7)
    assert passes_from_bins(connection, 1, [50, 90], from_s=60) == [
        (60, 7, [6, 4]),
        (120, 1, [1, 1]),
    ]


def test_apps_pass_score_is_read_with_its_learning_scores(connection):
    row = {"app": "shop", "metric": "m", "evaluator_version": "v", "n": 3, "line": 0.4}
    insert(connection, pass_lines, [row | {"bins": {"40": 2, "9": 1}}])
    assert read_pass_lines(connection) == {("shop", "m", "v"): (0.4, 3)}
    assert read_first_scores(connection, ("shop", "m", "v")) == {40: 2, 9: 1}
    assert read_first_scores(connection, ("shop", "m", "w")) == {}


def late(start_s, n=1):
    return dict.fromkeys(TALLY_SUMS, 0) | {"stream_id": 1, "start_s": start_s, "n": n}


def rows_of(connection, table):
    return dict(map(tuple, connection.execute(select(table.c.start_s, table.c.n))))


def test_late_rows_are_added_to_each_level_that_was_summed_without_them(connection):
    set_mark(connection, HOURS, 2 * DAY_S + HOUR_S)
    set_mark(connection, DAYS, 2 * DAY_S)
    times = (DAY_S, DAY_S + 60, DAY_S + HOUR_S, 2 * DAY_S, 2 * DAY_S + HOUR_S)
    bins = [{"stream_id": 1, "start_s": at, "bin": b, "count": 1} for at in times for b in (3, 4)]
    add_late(connection, [late(at) for at in times], bins)
    assert rows_of(connection, HOURS.sums) == {DAY_S: 2, DAY_S + HOUR_S: 1, 2 * DAY_S: 1}
    assert rows_of(connection, DAYS.sums) == {DAY_S: 3}
    counted = Counter()
    for start_s, b, n in connection.execute(
        select(DAYS.bins.c.start_s, DAYS.bins.c.bin, DAYS.bins.c.count)
    ):
        counted[start_s, b] += n
    assert counted == {(DAY_S, 3): 3, (DAY_S, 4): 3}


def test_late_rows_of_open_hours_are_left_to_the_rollup(connection):
    add_late(connection, [late(60)], [])
    assert rows_of(connection, HOURS.sums) == {}
    assert len(connection.execute(select(levels)).all()) == 3


@pytest.fixture
def hours(store):
    """A row each half an hour for three days, of two streams."""
    with store.write() as connection:
        for number, app in ((1, "shop"), (2, "bot")):
            add_stream(connection, number, app=app, last_bucket_s=3 * DAY_S)
            for half in range(2 * 24 * 3):
                add_sums(connection, BUCKETS, number, half * HOUR_S // 2, n=number)
                add_bins(connection, BUCKETS, number, half * HOUR_S // 2, b5=number)
    return store


def test_each_closed_hour_and_day_is_one_step(hours):
    calls = []
    assert roll_up(hours, now_s=DAY_S + 2 * HOUR_S + 59, settle_s=60, guard=calls.append) == 25 + 1
    assert len(calls) == 26
    with hours.read() as connection:
        assert read_marks(connection)["hour"].complete_to_s == DAY_S + HOUR_S
        assert read_marks(connection)["day"].complete_to_s == DAY_S
        sums = {i: t.n for i, t in window_tallies(connection, from_s=0, to_s=DAY_S).items()}
    assert sums == {1: 48, 2: 96}


def test_old_rows_are_deleted_once_the_wider_level_has_them(hours):
    now_s = 3 * DAY_S
    steps = roll_up(
        hours, now_s=now_s, settle_s=0, keep_s={"bucket": 0, "hour": DAY_S, "day": DAY_S}
    )
    assert steps == 72 + 3
    with hours.read() as connection:
        marks = read_marks(connection)
        left = {
            level.name: sorted(rows_of(connection, level.sums)) for level in (BUCKETS, HOURS, DAYS)
        }
        assert [marks[level].kept_from_s for level in ("bucket", "hour", "day")] == [
            3 * DAY_S, 2 * DAY_S, 2 * DAY_S,
        ]  # fmt: skip
        bins = connection.execute(select(BUCKETS.bins)).all()
    assert (left["bucket"], bins) == ([], [])
    assert left["hour"] == [2 * DAY_S + k * HOUR_S for k in range(24)]
    assert left["day"] == [2 * DAY_S]


def test_buckets_are_kept_until_their_hour_is_summed(hours):
    roll_up(hours, now_s=2 * HOUR_S + 59, settle_s=60, keep_s={"bucket": 0})
    with hours.read() as connection:
        assert min(rows_of(connection, BUCKETS.sums)) == HOUR_S


def test_long_quiet_time_is_skipped_in_one_step(store):
    with store.write() as connection:
        add_stream(connection, 1, last_bucket_s=90 * DAY_S)
        for start_s in (60, 90 * DAY_S):
            add_sums(connection, BUCKETS, 1, start_s)
    keep = dict.fromkeys(("bucket", "hour", "day"), 10**9)
    assert roll_up(store, now_s=91 * DAY_S, settle_s=0, keep_s=keep) == 2 + 1
    with store.read() as connection:
        assert read_marks(connection)["hour"].complete_to_s == 90 * DAY_S + HOUR_S
        assert rows_of(connection, HOURS.sums) == {0: 1, 90 * DAY_S: 1}
        assert rows_of(connection, DAYS.sums) == {0: 1}
