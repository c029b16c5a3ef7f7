"""Verdicts: blindness first, then the policy; since goes on while the status is the same."""

from datetime import UTC, datetime, timedelta

from monitor.models import Status, StreamKey, Tally
from monitor.rolling.policies import Thresholds
from monitor.rolling.verdicts import WindowData, judge_window

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


def test_since_goes_on_while_the_status_is_the_same():
    first = judge(tally(100, 90))
    later = judge(tally(120, 110), previous=first, now=NOW + timedelta(minutes=5))
    assert later.status_since == NOW
    assert later.since == later.evaluated_at - timedelta(hours=1)


def test_since_starts_again_when_the_status_changes():
    first = judge(tally(100, 90))
    later = judge(tally(120, 20), previous=first, now=NOW + timedelta(minutes=5))
    assert later.status_since == NOW + timedelta(minutes=5)


def test_failing_judge_is_blind_not_critical():
    verdict = judge(tally(3, 0, failed=20))
    assert verdict.status is Status.BLIND
    assert verdict.reason == "20 of 23 evaluations failed"


def test_few_failures_do_not_blind():
    assert judge(tally(100, 90, failed=20)).status is Status.HEALTHY


def test_trouble_of_the_monitor_wins_over_what_the_window_says():
    verdict = judge(tally(100, 95), trouble="7 samples wait")
    assert (verdict.status, verdict.reason) == (Status.BLIND, "7 samples wait")


def test_note_stands_beside_the_reason():
    data = WindowData(
        stream=STREAM, window_s=3600, current=tally(100, 95), reference=Tally(), note="capped"
    )
    verdict = judge_window(data, policy_name="point_min_n", thresholds=Thresholds(), now=NOW)
    assert verdict.reason.endswith("; capped")


def test_verdict_says_how_often_the_judge_was_asked():
    verdict = judge(tally(100, 95, judged=20, agreed=18))
    assert (verdict.n_judged, verdict.n_agreed) == (20, 18)


def test_the_seeds_rule_is_shown_beside():
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
