"""Reports out of values, without a store."""

from __future__ import annotations

from datetime import UTC, datetime

from monitor.report.build import app_report, worst_first
from monitor.report.model import Ledger, RatePoint, Report
from monitor.stats.intervals import wilson_interval

STATUS_WINDOW_S = 3600


def app_of(name, now, verdicts=(), *, ledger=None, **fields):
    """Make the report of an app whose statuses are of an hour."""
    return app_report(
        name, verdicts, now=now, status_window_s=STATUS_WINDOW_S, ledger=ledger or Ledger(),
        **fields,
    )  # fmt: skip


def point_of(at_s, passed, n):
    """Make the point of a step that begins at *at_s*, in epoch seconds."""
    low, high = wilson_interval(passed, n, alpha=0.1)
    start = datetime.fromtimestamp(at_s, UTC)
    return RatePoint(start=start, n=n, pass_rate=passed / n, low=low, high=high)


def report_of(apps, now, window_s=3600, **fields):
    """Make a report of apps."""
    return Report(generated_at=now, window_s=window_s, apps=worst_first(apps), **fields)
