"""A report with everything in it, some of it hostile."""

from datetime import UTC, datetime, timedelta

import pytest

from monitor.models import Drift, Incident, Level, Status, Tally
from monitor.report.build import AppFacts, build_report
from monitor.report.model import Change, Ledger, Worst
from monitor.testing.verdicts import make_verdict

NOW = datetime(2026, 3, 1, 12, 0, 30, tzinfo=UTC)
HOSTILE = "[/red]\x1b[31m<!channel>|\n# `x` [bold]\u202e*y* <b>&amp; " + "w" * 30


def facts(app, status):
    now = int(NOW.timestamp()) // 60 * 60
    incident = Incident(
        incident_id="i1", app=app, metric="groundedness", segment="*", window_s=3600,
        level=Level.CRITICAL, peak_level=Level.CRITICAL, since=NOW - timedelta(hours=3),
        opened_at=NOW - timedelta(hours=2), updated_at=NOW, sequence=1,
    )  # fmt: skip
    resolved = incident.model_copy(update={"resolved_at": NOW - timedelta(minutes=30)})
    return AppFacts(
        app=app,
        verdicts=[
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
        series={"groundedness": {now - 60 * i: Tally(n=2, sum_w=2, sum_wy=1) for i in (0, 3)}},
        changes=[
            Change(
                at=NOW, metric=HOSTILE, before=None, after=status, pass_rate=None, n=3, reason=""
            )
        ],
        incidents=[incident, resolved],
        worst={
            "groundedness": [
                Worst(interaction_id=HOSTILE, at=NOW, score=0.1, explanation=HOSTILE * 3)
            ]
        },
    )  # fmt: skip


@pytest.fixture(params=list(Status), ids=str)
def full_report(request):
    """Two apps, one with a hostile name, in each status."""
    items = [facts("support-bot", request.param), facts(HOSTILE, Status.WARNING)]
    return build_report(items, now=NOW, window_s=7200, status_window_s=3600, step_s=60)


@pytest.fixture
def empty_report():
    return build_report([], now=NOW, window_s=7200, status_window_s=3600)
