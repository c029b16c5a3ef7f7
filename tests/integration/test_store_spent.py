"""What the judge cost: each evaluation once, at whatever level its sums are kept."""

from datetime import UTC, datetime, timedelta

import pytest

from monitor.store.query import cost_usd_since
from monitor.store.rollup import roll_up
from monitor.store.write import record
from monitor.testing import make_evaluation, make_interaction, make_sample
from workers.scoring_run import ScoringRules, result_of

END = datetime(2026, 3, 31, 12, tzinfo=UTC)
RULES = ScoringRules(pass_score=0.7, bucket_s=60, dimensions=("language", "release"))


def spend(store, *days_ago):
    """Spend a dollar at each time, on a sample that has two segments."""
    results = []
    for days in days_ago:
        at = END - timedelta(days=days)
        interaction = make_interaction(tags={"language": "en"}, release="1", timestamp=at)
        evaluation = make_evaluation(cost_usd=1.0)
        results.append(result_of(make_sample(interaction), [evaluation], RULES, now=END))
    with store.write() as connection:
        record(connection, results, now=END, bucket_s=60)


def spent(store, days):
    with store.read() as connection:
        return cost_usd_since(connection, (END - timedelta(days=days)).timestamp())


def test_segments_add_nothing_to_the_cost(store):
    spend(store, 0.1, 0.2)
    assert spent(store, 1) == pytest.approx(2)


def test_rolled_up_and_deleted_cost_still_counts(store):
    spend(store, 0.1, 5, 20, 20.5, 29)
    before = spent(store, 10), spent(store, 30)
    roll_up(store, now_s=END.timestamp(), settle_s=600)
    assert (spent(store, 10), spent(store, 30)) == before == (pytest.approx(2), pytest.approx(5))
