"""A report with everything in it, some of it hostile."""

from datetime import UTC, datetime, timedelta

import pytest

from monitor.models import Drift, Incident, Severity, Status
from monitor.models.insight import (
    Attribution,
    Deploy,
    DriftFinding,
    InputDrift,
    Insight,
    SegmentEffect,
    Trend,
)
from monitor.report.build import rate_points
from monitor.report.model import Ledger, ReportedChange, Worst
from monitor.testing import make_verdict
from support.reports import app_of, point_of, report_of

NOW = datetime(2026, 3, 1, 12, 0, 30, tzinfo=UTC)
HOSTILE = "[/red]\x1b[31m<!channel>|\n# `x` [bold]\u202e*y* <b>&amp; " + "w" * 30


def make_insight(app):
    effect = SegmentEffect(
        segment=f"model={HOSTILE}", n_before=900, n_after=90, share_before=0.1, share_after=0.1,
        rate_before=0.9, rate_after=0.4, rate_effect=-0.05, mix_effect=0.0, low=-0.06, high=-0.04,
        explains=1.0, p_value=1e-9, named=True,
    )  # fmt: skip
    attribution = Attribution(
        since=NOW, since_low=NOW, since_high=NOW, reference="the 7 d before", rate_before=0.9,
        rate_after=0.85, n_before=9000, n_after=900, change=-0.05, low=-0.06, high=-0.04,
        mix={"model": 0.0}, named=[effect], considered=9, mix_shift=[HOSTILE], simpson=[HOSTILE],
    )  # fmt: skip
    finding = DriftFinding(
        app=app, metric="groundedness", segment=HOSTILE, test="ks", from_s=0, found_at=NOW,
        mean_before=0.9, mean_after=0.8, n=90, p_value=1e-9, onset=NOW, onset_low=NOW,
        onset_high=NOW,
    )  # fmt: skip
    return Insight(
        app=app, metric="groundedness", made_at=NOW, evaluator_version=HOSTILE, version_since=NOW,
        findings=[finding], attribution=attribution,
        trend=Trend(
            direction="declining", change_per_day=-0.1, low=-0.2, high=-0.05, stability=0.9,
            points=24, n=900,
        ),
        deploys=[
            Deploy(
                release=HOSTILE, at=NOW, source="mark", note=HOSTILE, rate_before=0.9,
                rate_after=0.8, n_before=9, n_after=9, difference=-0.1, low=-0.2, high=0.0,
                verdict="worse", change_at=NOW, change_low=NOW, change_high=NOW,
            )
        ],
    )  # fmt: skip


def facts(app, status):
    now = int(NOW.timestamp()) // 60 * 60
    incident = Incident(
        incident_id="i1", app=app, metric="groundedness", segment="*", window_s=3600,
        level=Severity.CRITICAL, peak_level=Severity.CRITICAL, since=NOW - timedelta(hours=3),
        opened_at=NOW - timedelta(hours=2), updated_at=NOW, sequence=1,
    )  # fmt: skip
    resolved = incident.model_copy(update={"resolved_at": NOW - timedelta(minutes=30)})
    points = {at_s: point_of(at_s, 1, 2) for at_s in (now, now - 180)}
    worst = Worst(
        sample_id=HOSTILE, interaction_id=HOSTILE, at=NOW, score=0.1, explanation=HOSTILE * 3
    )
    return app_of(
        app,
        NOW,
        [
            make_verdict(
                status, NOW, app=app, metric=metric, window_s=window_s, n=1_234_567, cost_usd=3.25,
                n_judged=1_000, n_agreed=900,
                reason=HOSTILE,
                drift=Drift(reference_pass_rate=0.9, reference_n=9, psi=0.3, ks=0.1),
            )
            for metric in ("groundedness", HOSTILE)
            for window_s in (300, 3600, 86_400)
        ],
        ledger=Ledger(seen=9, sampled=3, not_sampled=6, scored=2, skipped={"no_context": 1}),
        by_metric={
            "groundedness": {
                "series": rate_points(points, now=NOW, window_s=7200, step_s=60),
                "insight": make_insight(app), "failed": {"judge_unavailable": 7},
                "skipped": {HOSTILE: 5, "no_query": 2}, "worst": [worst],
            }
        },
        changes=[
            ReportedChange(
                at=NOW, metric=HOSTILE, before=None, after=status, pass_rate=None, n=3, reason=""
            )
        ],
        incidents=[incident, resolved],
        inputs=[
            InputDrift(
                feature=HOSTILE, before=HOSTILE, after=HOSTILE, n_before=90, n_after=90,
                distance=0.5, p_value=1e-9, moved=True,
            )
        ],
    )  # fmt: skip


@pytest.fixture(params=list(Status), ids=str)
def full_report(request):
    """Two apps, one with a hostile name, in each status."""
    items = [facts("support-bot", request.param), facts(HOSTILE, Status.WARNING)]
    return report_of(items, NOW, window_s=7200)


@pytest.fixture
def empty_report():
    return report_of([], NOW, window_s=7200)
