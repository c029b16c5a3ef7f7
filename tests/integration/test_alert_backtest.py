"""What every policy would have sent on what the store keeps: minutes, or else hours."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from monitor.settings import Settings
from monitor.store.query import BUCKETS, active_streams
from monitor.store.rollup import roll_up
from monitor.store.write import record
from monitor.testing import make_evaluation, make_interaction, make_sample
from workers.backtest import POLICY_NAMES, of_store, read_history, rules_from
from workers.scoring_run import ScoringRules, result_of

BEGIN = datetime(2026, 3, 1, tzinfo=UTC)
RULES = rules_from(Settings())
HOURS = 12


@pytest.fixture
def kept(store):
    """Keep half a day: 12 samples every ten minutes, of which most fail from hour 6 to 9."""
    rules = ScoringRules(pass_score=0.7, bucket_s=60)
    for step in range(HOURS * 6):
        at = BEGIN + timedelta(minutes=10 * step)
        good = 2 if 36 <= step < 54 else 12
        results = [
            result_of(
                make_sample(make_interaction(timestamp=at), sampled_at=at),
                [make_evaluation(score=0.9 if i < good else 0.1)],
                rules,
                now=at,
            )
            for i in range(12)
        ]
        with store.write() as connection:
            record(connection, results, now=at, bucket_s=60)
    return store


def events(store, policy, until_h=HOURS):
    end = BEGIN + timedelta(hours=until_h)
    with store.read() as connection:
        (told,) = of_store(connection, replace(RULES, policy=policy), begin=BEGIN, end=end)
    return told.events


def test_every_policy_reports_the_fall_and_its_end(kept):
    for policy in POLICY_NAMES:
        found = events(kept, policy)
        kinds = [str(event) for _, event in found]
        assert kinds[0] == "fired", policy
        assert kinds.count("fired") == kinds.count("resolved") == 1, policy
        at_h = [(at - BEGIN).total_seconds() / 3600 for at, _ in found]
        assert 6 < at_h[0] < 7.5, policy
        assert 9 < at_h[-1] < 12, policy


def test_later_samples_do_not_change_earlier_alerts(kept):
    for policy in ("anytime", "wilson"):
        whole = events(kept, policy)
        part = events(kept, policy, until_h=8)
        limit = BEGIN + timedelta(hours=8)
        assert part == [(at, event) for at, event in whole if at <= limit], policy


def test_hourly_sums_give_the_same_events_at_most_an_hour_later(kept):
    before = events(kept, "anytime")
    late = BEGIN + timedelta(hours=HOURS + 1, seconds=BUCKETS.keep_s)
    roll_up(kept, now_s=late.timestamp(), settle_s=0)
    with kept.read() as connection:
        (stream,) = active_streams(connection, since_s=0)
        history = read_history(
            connection, stream.stream_id, from_s=int(BEGIN.timestamp()),
            to_s=int(BEGIN.timestamp()) + HOURS * 3600, bucket_s=60,
        )  # fmt: skip
    assert len(history.ends_s) == HOURS
    after = events(kept, "anytime")
    # What was a warning for minutes only is critical at the first look, an hour wide.
    for one, other in ((before[0], after[0]), (before[-1], after[-1])):
        assert one[1] == other[1]
        assert timedelta(minutes=-1) <= other[0] - one[0] <= timedelta(hours=1)
