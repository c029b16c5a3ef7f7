"""Unknown is not green: what nobody has looked at for long is blind."""

from datetime import UTC, datetime, timedelta

from monitor.models import Status
from monitor.report.build import blind_when_stale, newest_only
from monitor.report.words import report_headline
from monitor.testing import make_verdict
from support.reports import app_of, report_of

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def aged(seconds):
    verdict = make_verdict(Status.HEALTHY, NOW - timedelta(seconds=seconds))
    return blind_when_stale(verdict, now=NOW, stale_after_s=60)


def test_fresh_verdict_is_unchanged():
    assert aged(60).status is Status.HEALTHY


def test_stale_verdict_becomes_blind_and_names_its_last_status():
    stale = aged(3 * 86_400)
    assert stale.status is Status.BLIND
    assert "not evaluated for 3 d (it was healthy)" in stale.reason
    assert stale.status_since == NOW - timedelta(days=3)


def test_removed_window_is_left_out():
    old = make_verdict(Status.HEALTHY, NOW - timedelta(hours=1), window_s=300)
    new = make_verdict(Status.HEALTHY, NOW, window_s=600)
    assert newest_only([old, new]) == [new]


def test_no_verdicts_stay_no_verdicts():
    assert newest_only([]) == []


def _said(*verdicts):
    apps = [app_of(f"bot-{i}", NOW, [verdict]) for i, verdict in enumerate(verdicts)]
    return report_headline(report_of(apps, NOW))


def test_headline_names_the_problem_when_no_status_is_current():
    said = "No status is up to date: not evaluated for 4 min; run groundwatch doctor."
    assert _said(aged(240), aged(300)) == said
    assert _said(aged(240), aged(0)) == "Monitoring is blind for bot-0."
