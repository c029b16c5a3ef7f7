"""A report as one HTML file: whole, small, quiet, and harmless whatever it says."""

import re
from datetime import UTC, datetime, timedelta

import pytest

from monitor.models import Incident, Severity, Status
from monitor.report.build import rate_points
from monitor.report.model import Ledger, ReportedChange, Worst
from monitor.testing import make_verdict
from monitor.web.charts import ChartThresholds
from monitor.web.templating import render_html
from support.reports import app_of, point_of, report_of

NOW = datetime(2026, 3, 1, 12, 0, 30, tzinfo=UTC)
LINES = ChartThresholds(warning=0.85, critical=0.7)
HOSTILE = "</style></script><script>alert(1)</script><img src=//x.example/y>"


def facts(app):
    now_s = int(NOW.timestamp()) // 60 * 60
    incident = Incident(
        incident_id="i", app=app, metric="groundedness", segment="*", window_s=3600,
        level=Severity.CRITICAL, peak_level=Severity.CRITICAL, since=NOW - timedelta(hours=1),
        opened_at=NOW - timedelta(minutes=50), updated_at=NOW, sequence=1,
    )  # fmt: skip
    points = {at_s: point_of(at_s, 15, 20) for at_s in range(now_s - 60 * 117, now_s + 1, 180)}
    return app_of(
        app,
        NOW,
        [make_verdict(Status.CRITICAL, NOW, app=app, reason=HOSTILE)],
        ledger=Ledger(seen=9, not_sampled=9),
        incidents=[incident],
        by_metric={
            "groundedness": {
                "series": rate_points(points, now=NOW, window_s=7200, step_s=60),
                "worst": [
                    Worst(
                        sample_id="s", interaction_id="id", at=NOW, score=0.1, explanation=HOSTILE
                    )
                ],
            }
        },
    )


@pytest.fixture(scope="module")
def page():
    apps = [facts(f"app-{i}") for i in range(20)] + [facts(HOSTILE)]
    report = report_of(apps, NOW, window_s=7200)
    return render_html(report, LINES)


def test_one_file_report_holds_the_key_facts(page):
    assert "app-0" in page
    assert "CRITICAL" in page
    assert "62.0 % (56.0–68.0)" in page
    assert page.count('class="series"') == 21


@pytest.mark.parametrize("n_apps", [21, 300, 700])
def test_one_file_report_stays_below_half_a_megabyte(n_apps):
    apps = [facts(f"app-{i:04}") for i in range(n_apps)]
    report = report_of(apps, NOW, window_s=7200)
    page = render_html(report, LINES)
    assert len(page.encode()) < 500_000
    told, lines = page.count("<section"), page.count("<td>app-")
    more = int((re.findall(r"(\d+) more, none of them worse", page) or [0])[0])
    assert told + lines + more == n_apps
    assert told >= min(n_apps, 15)


def test_report_of_an_app_with_thousands_of_changes_stays_small():
    changes = [
        ReportedChange(
            at=NOW, metric="m" * 5_000, before=None, after=Status.CRITICAL, pass_rate=0.1, n=9,
               reason="r" * 5_000)
    ] * 20_000  # fmt: skip
    incidents = [*facts("a").incidents] * 9_000
    one = facts("\U0001f987" * 5_000).model_copy(
        update={"changes": changes, "incidents": incidents}
    )
    report = report_of([one], NOW, window_s=7200)
    page = render_html(report, LINES)
    assert len(page.encode()) < 60_000
    assert "19960 earlier" in page


def test_one_file_report_loads_nothing_and_runs_no_script(page):
    assert not re.search(r"<script|<img|<link|\son\w+=|@import|url\(", page)
    assert "default-src 'none'" in page
    assert page.count("<style>") == page.count("</style>") == 1
