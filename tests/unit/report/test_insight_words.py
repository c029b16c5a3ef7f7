"""What explains a status, in sentences; silence while all is well."""

from datetime import UTC, datetime, timedelta

import pytest

from monitor.models.insight import (
    Attribution,
    Deploy,
    DriftFinding,
    Insight,
    SegmentEffect,
    Trend,
)
from monitor.report.render import insight_lines

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
CALM = Insight(
    app="bot",
    metric="groundedness",
    made_at=NOW,
    trend=Trend(
        direction="stable",
        change_per_day=0.0,
        low=-0.01,
        high=0.01,
        stability=1.0,
        points=24,
        n=900,
    ),
)
EFFECT = SegmentEffect(
    segment="model=b", n_before=900, n_after=90, share_before=0.5, share_after=0.5,
    rate_before=0.93, rate_after=0.41, rate_effect=-0.26, mix_effect=0.0, low=-0.31, high=-0.21,
    explains=1.0, p_value=1e-12, named=True,
)  # fmt: skip


def attribution(**changes):
    fields = {
        "since": NOW - timedelta(minutes=30), "reference": "the 7 d before", "rate_before": 0.93,
        "rate_after": 0.67, "n_before": 1800, "n_after": 180, "change": -0.26, "low": -0.33,
        "high": -0.19, "mix": {}, "named": [EFFECT], "considered": 12,
    }  # fmt: skip
    return CALM.model_copy(update={"attribution": Attribution(**(fields | changes))})


def test_deploy_without_later_data_says_so():
    deploy = Deploy(
        release="v12", at=NOW, source="mark", rate_before=0.9, n_before=90, verdict="no data"
    )
    (line,) = insight_lines(CALM.model_copy(update={"deploys": [deploy]}), NOW)
    assert line == "deploy v12 at 12:00:00 UTC: no data yet since then"


def test_first_release_is_not_reported():
    deploy = Deploy(release="v1", at=NOW, source="tag", rate_after=0.9, verdict="no data")
    assert insight_lines(CALM.model_copy(update={"deploys": [deploy]}), NOW) == []


def test_healthy_report_has_no_insight_lines():
    assert insight_lines(CALM, NOW) == []


def test_guilty_segment_comes_with_its_figures():
    (line,) = insight_lines(attribution(), NOW)
    assert "93.0 % to 67.0 %" in line
    assert "−26.0 pts (−33.0 to −19.0)" in line
    assert "model=b: 93.0 % to 41.0 % (n 90, 50 % of the traffic), not by chance" in line


def test_missing_guilty_segment_is_stated():
    (line,) = insight_lines(attribution(named=[]), NOW)
    assert line.endswith("no segment explains it (12 considered)")


def test_deploy_line_shows_rates_before_and_after_and_the_verdict():
    deploy = Deploy(
        release="v12", at=NOW, source="mark", rate_before=0.92, rate_after=0.70, n_before=500,
        n_after=200, difference=-0.22, low=-0.29, high=-0.15, verdict="worse",
    )  # fmt: skip
    (line,) = insight_lines(CALM.model_copy(update={"deploys": [deploy]}), NOW)
    assert line.startswith(
        "deploy v12 at 12:00:00 UTC: 92.0 % (n 500) to 70.0 % (n 200), −22.0 pts"
    )
    assert line.endswith("worse")


def test_time_range_with_equal_bounds_is_shown_once():
    since = {"since": NOW, "since_low": NOW, "since_high": NOW + timedelta(milliseconds=10)}
    (line,) = insight_lines(attribution(named=[], **since), NOW)
    assert "since 12:00:00 UTC, change" in line
    (line,) = insight_lines(attribution(named=[], **since | {"since_low": NOW - HOUR}), NOW)
    assert "since 12:00:00 UTC (11:00:00 UTC to 12:00:00 UTC), change" in line


def test_drift_found_by_two_tests_is_reported_once():
    finding = DriftFinding(
        app="bot", metric="groundedness", segment="*", test="ks", from_s=0, found_at=NOW,
        mean_before=0.9, mean_after=0.8, n=90, p_value=1e-9,
    )  # fmt: skip
    findings = [finding, finding.model_copy(update={"test": "mann_whitney"})]
    assert len(insight_lines(CALM.model_copy(update={"findings": findings}), NOW)) == 1


def test_finding_without_an_onset_states_no_later_mean():
    finding = DriftFinding(
        app="bot", metric="relevance", segment="*", test="score_down", from_s=0, found_at=NOW,
        mean_before=0.99, mean_after=0.99, n=0, level=9.0,
    )  # fmt: skip
    (line,) = insight_lines(CALM.model_copy(update={"findings": [finding]}), NOW)
    assert line.startswith("drift: mean score 0.99 before, by how much it moved is not known;")
    assert "n 0" not in line


def test_release_rollout_is_not_reported_as_a_traffic_shift():
    shifted = attribution(mix_shift=["release=v1", "language=fr"])
    said = [line for line in insight_lines(shifted, NOW) if "traffic-mix" in line]
    assert said == ["much of the change comes from a traffic-mix shift (language=fr)"]


def test_new_judge_is_mentioned_for_a_day():
    young = CALM.model_copy(update={"version_since": NOW, "evaluator_version": "judge-2"})
    assert "a new series" in insight_lines(young, NOW)[0]
    assert insight_lines(young, NOW + timedelta(days=2)) == []


@pytest.mark.parametrize(
    ("version", "after", "proposed"),
    [("local-3-aa pass own", 0.4, True), ("local-3-aa pass own", 0.9, False), ("j-1", 0.4, False)],
)
def test_fall_of_the_local_score_suggests_a_human_check(version, after, proposed):
    finding = DriftFinding(
        app="shop", metric="groundedness", segment="*", test="mean", from_s=0, found_at=NOW,
        mean_before=0.7, mean_after=after, n=300, level=9.0,
    )  # fmt: skip
    lines = insight_lines(
        CALM.model_copy(
            update={
                "app": "shop",
                "metric": "groundedness",
                "evaluator_version": version,
                "findings": [finding],
            }
        ),
        NOW,
    )
    said = [
        line for line in lines if "check 10 before and 10 after (groundwatch check shop" in line
    ]
    assert bool(said) is proposed
