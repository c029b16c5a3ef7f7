"""Histograms of what was asked: by the bucket at first, by the hour later, gone at last."""

import pytest
from sqlalchemy import func, insert, select

from monitor.store.rollup import compact_inputs, read_inputs
from monitor.store.tables import input_bins

HOUR, DAY = 3600, 86_400
NOW = 500 * HOUR


@pytest.fixture
def asked(store):
    """Each minute of a day one question of 3 kinds, by two apps."""
    rows = [
        {"app": app, "start_s": NOW - DAY + 60 * minute, "feature": "topic", "bin": k, "count": 1}
        for app in ("shop", "bot")
        for minute, k in enumerate([0, 1, 2] * (DAY // 180))
    ]
    with store.write() as connection:
        connection.execute(insert(input_bins), rows)
    return store


def rows_of(store, app):
    with store.read() as connection:
        query = select(input_bins.c.start_s, func.count()).where(input_bins.c.app == app)
        return dict(map(tuple, connection.execute(query.group_by(input_bins.c.start_s))))


def sums_of(store, app, **span):
    with store.read() as connection:
        return read_inputs(connection, app, **{"from_s": 0} | span)


def test_old_hours_are_one_row_a_kind_and_their_sums_stay(asked):
    before = sums_of(asked, "shop")
    compact_inputs(asked, ["shop"], now_s=NOW)
    rows = rows_of(asked, "shop")
    old = {start_s: n for start_s, n in rows.items() if start_s < NOW - 3 * HOUR}
    assert old == dict.fromkeys(range(NOW - DAY, NOW - 3 * HOUR, HOUR), 3)
    assert len(rows) - len(old) == 3 * 60
    assert sums_of(asked, "shop") == before
    assert len(rows_of(asked, "bot")) == DAY // 60


def test_compacting_again_changes_nothing(asked):
    compact_inputs(asked, ["shop"], now_s=NOW)
    found = rows_of(asked, "shop"), sums_of(asked, "shop")
    compact_inputs(asked, ["shop"], now_s=NOW)
    assert (rows_of(asked, "shop"), sums_of(asked, "shop")) == found


def test_input_range_is_read_half_open(asked):
    found = sums_of(asked, "shop", from_s=NOW - HOUR, to_s=NOW - HOUR + 180)
    assert found == {"topic": {0: 1, 1: 1, 2: 1}}


def test_inputs_older_than_thirty_five_days_are_deleted(asked):
    compact_inputs(asked, ["shop"], now_s=NOW + 35 * DAY - 2 * HOUR)
    assert sorted(rows_of(asked, "shop")) == [NOW - 2 * HOUR, NOW - HOUR]
    assert len(rows_of(asked, "bot")) == DAY // 60
