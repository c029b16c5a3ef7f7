"""Why a status is what it is: what the policy knows is said, what it does not is left out."""

from datetime import UTC, datetime, timedelta

from monitor.models import Status
from monitor.testing import make_verdict
from monitor.web import charts
from monitor.web.templating import why

AT = datetime(2026, 6, 1, 12, tzinfo=UTC)
LINES = charts.ChartThresholds(warning=0.85, critical=0.70)


def test_explanation_shows_evidence_bounds_onset_and_missing_samples():
    verdict = make_verdict(
        Status.WARNING, AT, evidence="probable", low=0.5, high=0.8, n=40,
        onset=AT - timedelta(hours=1), onset_earliest=AT - timedelta(hours=2),
        onset_latest=AT, more_n=1200,
    )  # fmt: skip
    said = dict(why(verdict, LINES))
    assert said["evidence of a drop"] == "probable"
    assert said["scores"] == "40 since 2026-06-01 12:00:00 UTC"
    assert said["most likely began"] == (
        "2026-06-01 11:00:00 UTC (2026-06-01 10:00:00 UTC to 2026-06-01 12:00:00 UTC)"
    )
    assert said["decided after"] == "about 1,200 more samples"


def test_policy_without_evidence_shows_no_evidence_rows():
    said = dict(why(make_verdict(Status.WARNING, AT), LINES))
    assert not {"evidence of a drop", "most likely began"} & said.keys()
