"""A report as one HTML file: whole, small, quiet, and harmless whatever it says."""

import re
from datetime import UTC, datetime, timedelta

import pytest

from monitor.models import Incident, Level, Status, Tally
from monitor.report.build import AppFacts, build_report
from monitor.report.model import Ledger, Worst
from monitor.testing.verdicts import make_verdict
from monitor.web.charts import Lines
from monitor.web.onefile import render_html

NOW = datetime(2026, 3, 1, 12, 0, 30, tzinfo=UTC)
LINES = Lines(warning=0.85, critical=0.7)
HOSTILE = "</style></script><script>alert(1)</script><img src=//x.example/y>"


def facts(app):
    now_s = int(NOW.timestamp()) // 60 * 60
    tally = Tally(n=20, sum_w=20, sum_w2=20, sum_wy=15, sum_w2y=15, sum_w2yy=15)
    incident = Incident(
        incident_id="i", app=app, metric="groundedness", segment="*", window_s=3600,
        level=Level.CRITICAL, peak_level=Level.CRITICAL, since=NOW - timedelta(hours=1),
        opened_at=NOW - timedelta(minutes=50), updated_at=NOW, sequence=1,
    )  # fmt: skip
    return AppFacts(
        app=app,
        verdicts=[make_verdict(Status.CRITICAL, NOW, app=app, reason=HOSTILE)],
        ledger=Ledger(seen=9, not_sampled=9),
        series={"groundedness": {now_s - 60 * i: tally for i in range(0, 120, 3)}},
        incidents=[incident],
        worst={
            "groundedness": [Worst(interaction_id="id", at=NOW, score=0.1, explanation=HOSTILE)]
        },
    )


@pytest.fixture(scope="module")
def page():
    apps = [facts(f"app-{i}") for i in range(60)] + [facts(HOSTILE)]
    report = build_report(apps, now=NOW, window_s=7200, status_window_s=3600, step_s=60)
    return render_html(report, LINES)


def test_key_facts_are_in_it(page):
    assert "app-0" in page
    assert "CRITICAL" in page
    assert "62.0 % (56.0–68.0)" in page
    assert page.count('class="course"') == 61


def test_many_apps_stay_below_half_a_megabyte_or_about_ten_kilobytes_each(page):
    assert len(page.encode()) < 61 * 12_000


def test_nothing_is_loaded_and_nothing_runs(page):
    assert not re.search(r"<script|<img|<link|\son\w+=|@import|url\(", page)
    assert "default-src 'none'" in page
    assert page.count("<style>") == page.count("</style>") == 1
