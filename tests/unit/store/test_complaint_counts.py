"""Complaints of users: which count as new, as old, and as risen."""

from datetime import UTC, datetime, timedelta

import pytest

from monitor.store.feedback import (
    ComplaintCounts,
    Feedback,
    complained_of,
    count_feedback,
    feedback_of,
    read_complaints,
    save_feedback,
)
from monitor.store.ledger import Entry, Kind, book, read_totals
from monitor.store.write import record
from monitor.testing import make_evaluation, make_interaction, make_sample
from workers.scoring_run import ScoringRules, result_of

NOW = datetime(2026, 1, 10, 12, 0, 30, tzinfo=UTC)
NOW_S = int(NOW.timestamp())
DAY_S = 86_400


def say(connection, key, trace_id, *, good=False, at=NOW, received=NOW, app="shop", comment=""):
    said = Feedback(
        feedback_id=key, app=app, trace_id=trace_id, good=good, comment=comment, given_at=at
    )
    return save_feedback(connection, [said], source="hook", now=received, bucket_s=60)


def put(connection, trace_id, app="shop"):
    sample = make_sample(make_interaction(app=app, trace_id=trace_id), sampled_at=NOW)
    result = result_of(
        sample, [make_evaluation()], ScoringRules(pass_score=0.7, bucket_s=60), now=NOW
    )
    record(connection, [result], now=NOW, bucket_s=60)
    return sample.sample_id


@pytest.mark.parametrize(
    ("counted", "has_risen"),
    [((80, 20, 980, 20), True), ((98, 2, 980, 20), False), ((98, 2, 600, 400), False),
     ((0, 0, 980, 20), False), ((0, 20, 0, 0), False), ((0, 1, 9, 0), False)],
)  # fmt: skip
def test_rise_of_complaints_is_tested_against_chance(counted, has_risen):
    names = ("good", "bad", "good_before", "bad_before")
    assert ComplaintCounts(**dict(zip(names, counted, strict=True))).has_risen is has_risen


def test_complaints_of_the_last_day_are_compared_with_the_week_before(connection):
    ago_s = {1: 0, 2: DAY_S, 10: DAY_S + 60, 20: 8 * DAY_S, 100: 8 * DAY_S + 60}
    for n, ago in ago_s.items():
        book(connection, [Entry("shop", NOW_S - ago, Kind.FEEDBACK_STORED, "hook_bad", n)])
    book(connection, [
        Entry("shop", NOW_S, Kind.FEEDBACK_STORED, "web_bad", 4),
        Entry("shop", NOW_S, Kind.FEEDBACK_STORED, "hook_good", 5),
        Entry("shop", NOW_S - 2 * DAY_S, Kind.FEEDBACK_STORED, "hook_good", 50),
        Entry("bot", NOW_S, Kind.FEEDBACK_STORED, "hook_bad", 1_000),
        Entry("shop", NOW_S, Kind.FAILED, "hook_bad", 1_000),
    ])  # fmt: skip
    found = read_complaints(connection, "shop", now=NOW)
    assert found == ComplaintCounts(good=5, bad=7, good_before=50, bad_before=30)


def test_feedback_is_stored_once_sanitised_and_not_in_the_future(connection):
    late = NOW + timedelta(days=1)
    assert say(connection, "a", "t", at=late, comment="not\0good") == 1
    assert say(connection, "a", "t", comment="another") == 0
    [kept] = feedback_of(connection, "shop", "t")
    assert (kept.comment, kept.given_at, kept.good) == ("not\ufffdgood", NOW, False)
    assert feedback_of(connection, "bot", "t") == feedback_of(connection, "shop", None) == []
    booked = read_totals(connection)["shop"]
    assert booked[Kind.FEEDBACK_STORED, "hook_bad"] == 1


def test_latest_feedback_of_each_answer_is_counted_and_joined(connection):
    put(connection, "t1")
    put(connection, "t3", app="bot")
    say(connection, "a", "t1", good=False, at=NOW - timedelta(hours=1))
    say(connection, "b", "t1", good=True)
    say(connection, "c", "t2", good=False)
    say(connection, "d", "t3", good=False)
    say(connection, "e", "t4", good=True, received=NOW - timedelta(hours=2))
    later = NOW + timedelta(minutes=1)
    say(connection, "f", "t1", at=later, received=later, app="bot")
    assert count_feedback(connection, "shop", since=NOW) == (1, 2, 1)
    assert count_feedback(connection, "shop", since=NOW - timedelta(hours=2)) == (2, 2, 1)


def test_complained_samples_are_listed_once_newest_complaint_first(connection):
    ids = {trace: put(connection, trace) for trace in ("t1", "t2", "t3")}
    put(connection, "t1", app="bot")
    for minute, (key, trace) in enumerate([("a", "t1"), ("b", "t2"), ("c", "t1"), ("d", "t2")]):
        say(connection, key, trace, received=NOW + timedelta(minutes=minute))
    say(connection, "e", "t2", received=NOW + timedelta(minutes=4))
    say(connection, "f", "t3", good=True, received=NOW + timedelta(minutes=9))
    for limit in (2, 9):  # of samples, however often each was complained of
        found = complained_of(connection, "shop", since=NOW, limit=limit)
        assert found == [ids["t2"], ids["t1"]]
    later = NOW + timedelta(minutes=3)
    assert complained_of(connection, "shop", since=later, limit=9) == [ids["t2"]]
    assert complained_of(connection, "shop", since=NOW, limit=1) == [ids["t2"]]
