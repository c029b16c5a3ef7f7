"""Verdicts: blindness first, then the policy; since goes on while the status is the same."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from monitor.models import Status, StreamKey, Tally
from monitor.rolling.baseline import Baseline
from monitor.rolling.evidence_state import Certainty, Count, EvidenceState
from monitor.rolling.policies import Rules, Thresholds
from monitor.rolling.tallies import window_stats
from monitor.rolling.verdicts import WindowData, evidence_finding, headline, judge_window
from monitor.stats.evidence import BELOW, CELLS, rate_grid
from monitor.stats.intervals import wilson_interval

NOW = datetime(2026, 1, 1, tzinfo=UTC)
STREAM = StreamKey("bot", "groundedness", "*", "local-1")


def tally(n, passed, **counts):
    weights = {"sum_w": float(n), "sum_w2": float(n)}
    weights |= dict.fromkeys(("sum_wy", "sum_w2y", "sum_w2yy"), float(passed))
    return Tally(n=n, passed=passed, sum_x=float(passed), sum_wx=float(passed), **weights, **counts)


def judge(current, reference=None, trouble=None, previous=None, now=NOW):
    data = WindowData(
        stream=STREAM,
        window_s=3600,
        current=current,
        reference=reference or Tally(),
        trouble=trouble,
    )
    return judge_window(
        data, policy_name="point_min_n", thresholds=Thresholds(), now=now, previous=previous
    )


def test_verdict_carries_value_interval_and_n():
    verdict = judge(tally(100, 90))
    assert (verdict.status, verdict.n, verdict.pass_rate) == (Status.HEALTHY, 100, 0.9)
    assert verdict.low < 0.9 < verdict.high


def test_status_since_is_kept_while_the_status_is_unchanged():
    first = judge(tally(100, 90))
    later = judge(tally(120, 110), previous=first, now=NOW + timedelta(minutes=5))
    assert later.status_since == NOW
    assert later.since == later.evaluated_at - timedelta(hours=1)


def test_status_since_restarts_when_the_status_changes():
    first = judge(tally(100, 90))
    later = judge(tally(120, 20), previous=first, now=NOW + timedelta(minutes=5))
    assert later.status_since == NOW + timedelta(minutes=5)


def test_failing_judge_is_blind_not_critical():
    verdict = judge(tally(3, 0, failed=20))
    assert verdict.status is Status.BLIND
    assert verdict.reason == "20 of 23 evaluations failed"


def test_few_judge_failures_do_not_make_the_monitor_blind():
    assert judge(tally(100, 90, failed=20)).status is Status.HEALTHY


def test_monitor_problem_wins_over_the_window_status():
    verdict = judge(tally(100, 95), trouble="7 samples wait")
    assert (verdict.status, verdict.reason) == (Status.BLIND, "7 samples wait")


def test_note_is_appended_to_the_reason():
    data = WindowData(
        stream=STREAM, window_s=3600, current=tally(100, 95), reference=Tally(), note="capped"
    )
    verdict = judge_window(data, policy_name="point_min_n", thresholds=Thresholds(), now=NOW)
    assert verdict.reason.endswith("; capped")


def test_verdict_counts_the_judge_calls():
    verdict = judge(tally(100, 95, judged=20, agreed=18))
    assert (verdict.n_judged, verdict.n_agreed) == (20, 18)


def test_point_status_is_reported_beside_the_status():
    verdict = judge(tally(10, 1))
    assert verdict.status is Status.INSUFFICIENT_DATA
    assert verdict.point_status is Status.CRITICAL


def test_drift_is_absent_without_a_reference():
    assert judge(tally(100, 90)).drift is None


def test_drift_names_the_reference():
    before = tally(200, 190)
    before.histogram.update({90: 190, 10: 10})
    current = tally(100, 50)
    current.histogram.update({90: 50, 10: 50})
    drift = judge(current, reference=before).drift
    assert drift.reference_n == 200
    assert drift.ks == 0.45


@pytest.mark.parametrize(("passed", "end"), [(0, "low"), (100, "high")])
def test_rate_at_the_edge_of_its_interval_is_shown_with_it(passed, end):
    found = judge(tally(100, passed))
    assert getattr(found, end) == found.pass_rate == passed / 100
    assert found.low < found.high


@pytest.mark.parametrize("policy", ["point", "point_min_n"])
def test_status_that_may_be_chance_has_no_interval_and_says_why(policy):
    """33 of 40 are below the threshold, and their interval is not."""
    data = WindowData(stream=STREAM, window_s=60, current=tally(40, 33), reference=Tally())
    found = judge_window(data, policy_name=policy, thresholds=Thresholds(), now=NOW)
    assert (found.status, found.low, found.high) == (Status.WARNING, None, None)
    assert found.reason.endswith("threshold, which may be chance")
    assert (found.window_low, found.window_high) == wilson_interval(33, 40, alpha=0.1)
    assert found.pass_rate == 33 / 40


def test_blind_monitor_shows_its_last_interval():
    found = judge(tally(100, 50), trouble="7 samples wait")
    assert (found.low, found.high) == wilson_interval(50, 100, alpha=0.1)


@pytest.mark.parametrize(
    ("failed", "scored", "status"),
    [(4, 0, "insufficient_data"), (5, 0, "blind"), (40, 40, "healthy"), (41, 40, "blind")],
)
def test_monitor_is_blind_from_five_failures_and_more_than_scores(failed, scored, status):
    assert judge(tally(scored, scored, failed=failed)).status == status


def test_point_shows_the_plain_rate_and_no_contradicting_interval():
    sums = {"sum_w": 90.0, "sum_w2": 190.0, "sum_wy": 85.0, "sum_w2y": 185.0, "sum_w2yy": 185.0}
    data = WindowData(
        stream=STREAM, window_s=60, current=Tally(n=60, passed=39, **sums), reference=Tally()
    )
    found = judge_window(data, policy_name="point", thresholds=Thresholds(), now=NOW)
    assert (found.pass_rate, found.low, found.status) == (0.65, None, Status.CRITICAL)
    assert found.window_pass_rate == pytest.approx(85 / 90)


def test_evidence_policy_without_evidence_is_an_error():
    data = WindowData(stream=STREAM, window_s=60, current=tally(9, 9), reference=Tally())
    with pytest.raises(TypeError, match="'anytime' judges by its evidence"):
        judge_window(data, policy_name="anytime", thresholds=Thresholds(), now=NOW)


def test_drift_needs_enough_scores_on_both_sides():
    def with_scores(n):
        found = tally(n, n)
        found.histogram.update({90: n})
        return found

    for before, after, known in ((30, 30, True), (29, 30, False), (30, 29, False)):
        assert (judge(with_scores(after), reference=with_scores(before)).drift is not None) is known


def incident(log_p, status, **changes):
    """Return a stream in an incident, with the posterior of its present rate."""
    grid = rate_grid(0.85, 0.70)
    high = float(grid.upper(log_p, np.asarray(0.92)))
    return EvidenceState.fresh(0.0).but(
        status=status, log_p=log_p, high=high, count=Count(60.0, 40, 40, 24), at_s=9e3,
        baseline=Baseline((0.92,), 0.94, 900.0, 1.0, 1.0, True), certainty=Certainty.PROBABLE,
        **changes,
    )  # fmt: skip


def test_headline_of_an_incident_is_the_posteriors_and_the_rate_since_the_change():
    grid, cells = rate_grid(0.85, 0.70), np.arange(CELLS)
    for quasi in (None, -0.2 * (cells - 4.0) ** 2):
        state = incident(-0.2 * (cells - 7.0) ** 2, Status.CRITICAL, quasi=quasi)
        found = headline(state, Rules())
        views = [view for view in (state.log_p, quasi) if view is not None]
        low = min(float(grid.quantile(view, np.asarray(0.92), 0.05)) for view in views)
        assert found.pass_rate == 0.6
        assert found.interval == pytest.approx((min(low, 0.6), state.high))
        assert (found.n, found.since_s) == (40, 60.0)


def test_rate_that_lags_behind_is_shown_as_the_middle_of_the_posterior():
    state = incident(-0.5 * (np.arange(CELLS) - 4.0) ** 2, Status.CRITICAL)
    assert state.high < 0.6
    found = headline(state, Rules())
    middle = float(rate_grid(0.85, 0.70).quantile(state.log_p, np.asarray(0.92), 0.5))
    assert found.pass_rate == pytest.approx(middle)
    assert found.interval.low < middle < found.interval.high == state.high


@pytest.mark.parametrize(
    ("share", "said"),
    [(0.97, "critical threshold (95 % certain)"), (0.92, "critical threshold (90 % certain)"),
     (0.5, "critical threshold, and no sign of recovery since the alarm")],
)  # fmt: skip
def test_alarm_reason_names_its_certainty_and_the_previous_rate(share, said):
    below = rate_grid(0.85, 0.70).below < 0.70
    log_p = np.full(CELLS, -600.0)
    log_p[:BELOW] = np.log(np.where(below, share / below.sum(), (1 - share) / (~below).sum()))
    state = incident(log_p, Status.CRITICAL)
    found = evidence_finding(state, window_stats(tally(40, 24)), Rules())
    assert found.reason == f"pass rate is below the 70 % {said}; it fell from about 94 %"
    sure = evidence_finding(
        state.but(certainty=Certainty.CONFIRMED), window_stats(tally(9, 1)), Rules()
    )
    assert sure.reason == f"pass rate is below the 70 % {said}"


@pytest.mark.parametrize(("effect", "size"), [(1.0, 200.0), (4.0, 50.0)])
def test_calm_headline_is_wilsons_interval_at_the_effective_size(effect, size):
    count = Count(60.0, 200, 200, 190)
    calm = EvidenceState.fresh(0.0).but(
        status=Status.HEALTHY, recent=(Count(0.0), count), baseline=Baseline(effect=effect)
    )
    found = headline(calm, Rules())
    expected = wilson_interval(0.95 * size, size, alpha=0.1)
    assert (found.pass_rate, found.n, found.since_s) == (0.95, 200, 60.0)
    assert found.interval == pytest.approx((expected.low, expected.high))
    few = headline(calm.but(recent=(Count(0.0), Count(60.0, 2, 2, 0))), Rules())
    assert (few.pass_rate, few.interval.low, few.interval.high) == (0.0, 0.0, 0.85)
