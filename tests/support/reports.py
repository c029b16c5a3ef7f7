"""Reports out of values, without a store."""

from __future__ import annotations

from monitor.report.build import app_report, worst_first
from monitor.report.model import Ledger, Report

STATUS_WINDOW_S = 3600


def app_of(name, now, verdicts=(), *, ledger=None, **fields):
    """Make the report of an app whose statuses are of an hour."""
    return app_report(
        name, verdicts, now=now, status_window_s=STATUS_WINDOW_S, ledger=ledger or Ledger(),
        **fields,
    )  # fmt: skip


def report_of(apps, now, window_s=3600, **fields):
    """Make a report of apps."""
    return Report(generated_at=now, window_s=window_s, apps=worst_first(apps), **fields)
