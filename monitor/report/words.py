"""Figures and states in words that people read at a glance; every renderer uses these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from pydantic import SecretStr

from monitor.models import Drift, Incident, Status, Verdict
from monitor.models.bands import advice_for, band_of
from monitor.models.passing import Direction, PassRule
from monitor.report.format import (
    duration,
    percent,
    plain_text,
    rate_with_interval,
    score,
    usd,
)
from monitor.report.model import Ledger
from monitor.settings import masked_url

#: A word and a shape, so that colour is never the only sign.
ICONS: Mapping[Status, str] = {
    Status.HEALTHY: "●",
    Status.WARNING: "▲",
    Status.CRITICAL: "■",
    Status.INSUFFICIENT_DATA: "○",
    Status.BLIND: "◌",
}
WORDS: Mapping[Status, str] = {
    Status.HEALTHY: "healthy",
    Status.WARNING: "warning",
    Status.CRITICAL: "CRITICAL",
    Status.INSUFFICIENT_DATA: "not enough data",
    Status.BLIND: "blind",
}
#: What a window without scores cannot have of its own.
_OF_SCORES = frozenset({Status.HEALTHY, Status.WARNING, Status.CRITICAL})
_MOST_NAMED = 4
#: Below so many samples in the reference its distances are mostly noise.
_FEW = 200
_SEVERAL = 2
#: How an incident ended that did not recover.
_CLOSED: Mapping[str, str] = {
    "superseded": "superseded",
    "no_longer_evaluated": "no longer evaluated",
    "expired_no_data": "no data any more",
}


def is_held(status: Status, n: int) -> bool:
    """Tell a status that is held from before, because nothing was scored since."""
    return n == 0 and status in _OF_SCORES


def status_word(status: Status, n: int | None = None) -> str:
    """Name a status; with the scores *n* that it would rest on, also whether it is held."""
    held = n is not None and is_held(status, n)
    return f"{WORDS[status]} (held)" if held else WORDS[status]


def verdict_rate(verdict: Verdict) -> str:
    """Write the pass rate with its interval: never a bare value."""
    return rate_with_interval(verdict.pass_rate, verdict.low, verdict.high)


def level_words(incident: Incident) -> str:
    """Say how bad an incident was at its worst, and how bad it is now; TEST where it was tried."""
    said = str(incident.peak_level)
    if incident.is_open and incident.level is not incident.peak_level:
        said += f", now {incident.level}"
    return f"TEST {said}" if incident.is_drill else said


def incident_sentence(incident: Incident, now: datetime) -> str:
    """Say whether an incident goes on, has recovered, or was closed without that."""
    lasted = duration(((incident.resolved_at or now) - incident.opened_at).total_seconds())
    if incident.is_open:
        return f"open for {lasted}"
    if incident.closed_as is not None:
        return f"closed after {lasted}: {_CLOSED.get(incident.closed_as, incident.closed_as)}"
    return f"resolved after {lasted}"


def reason_sentence(verdict: Verdict) -> str:
    """Say why a status is what it is, and what the plain rule says where it says another."""
    why = plain_text(verdict.reason)
    if verdict.point_status is verdict.status or verdict.status is Status.BLIND:
        return why
    return f"{why}; by the plain rule: {WORDS[verdict.point_status]}"


def score_sentence(verdict: Verdict) -> str:
    """
    Say what the average score means, which way it counts, and what usually helps.

    Empty where there is no score, or the version does not say what passes.
    """
    rule = PassRule.read(verdict.evaluator_version)
    if rule is None or verdict.average_score is None:
        return ""
    lower = rule.direction is Direction.LOWER
    band = band_of(verdict.average_score, rule.direction)
    line = (
        f"lower is better, passes at {rule.line:g} or below"
        if lower
        else (f"higher is better, passes at {rule.line:g} or above")
    )
    meaning = f"{band.quality}, {band.action.lower()}"
    said = f"average score {score(verdict.average_score)}, {meaning} ({line})"
    found = advice_for(verdict.metric, verdict.average_score, rule.direction)
    return f"{said}; often {found.cause}: {found.fix}" if found else said


def drift_sentence(drift: Drift) -> str:
    """
    Say how the window compares with the reference before it.

    Distances are left out where the reference is small: those of few samples are large
    by chance. A distance alone is no finding of drift, and the sentence says so.
    """
    before = f"{percent(drift.reference_pass_rate)} of {drift.reference_n:,}"
    said = f"reference before the window: {before}"
    if drift.reference_n < _FEW or drift.psi is None or drift.ks is None:
        return said
    distance = f"distance PSI {score(drift.psi)}, KS {score(drift.ks)}"
    return f"{said}; {distance} (by itself no finding of drift)"


def judge_sentence(verdict: Verdict) -> str:
    """Say what a cascade asked its judge, what it saved and what it cost; '' for any other."""
    if not verdict.n_judged:
        return ""
    agreed = percent(verdict.n_agreed / verdict.n_judged)
    return (
        f"the judge was asked about {verdict.n_judged:,} of {verdict.n:,} samples;"
        f" the local score agrees on {agreed}; this metric's share of the cost"
        f" {usd(verdict.cost_usd)}"
    )


def cost_sentence(verdicts: Sequence[Verdict]) -> str:
    """Sum what the metrics of an app cost within one window; '' where a judge was not paid."""
    total = sum(verdict.cost_usd for verdict in verdicts)
    if len(verdicts) < _SEVERAL or not total:
        return ""
    return f"all {len(verdicts)} metrics together: {usd(total)} (one call may answer several)"


def reasons(counts: Mapping[str, int]) -> str:
    """Write a count with its parts: '12 (no_context 10, no_claim 2)'; plain when there is none."""
    total = sum(counts.values())
    parts = ", ".join(f"{plain_text(reason, 60)} {n:,}" for reason, n in counts.items() if reason)
    return f"{total:,} ({parts})" if parts else f"{total:,}"


def unscored_sentence(
    failed: Mapping[str, int], skipped: Mapping[str, int], window_s: float
) -> str:
    """Say how many evaluations of a metric have no score, and why; '' when all have one."""
    parts = [
        f"{word} {reasons(counts)}"
        for word, counts in (("failed", failed), ("skipped", skipped))
        if counts
    ]
    return f"without a score in the last {duration(window_s)}: {', '.join(parts)}" if parts else ""


def recent_sentence(recent: Mapping[str, int], window_s: float) -> str:
    """Say how many interactions of each kind fell into the window of the report."""
    parts = ", ".join(f"{kind} {n:,}" for kind, n in recent.items())
    return f"in the last {duration(window_s)}: {parts}"


def ledger_sentence(ledger: Ledger) -> str:
    """Say where every interaction went, in two lines that add up from left to right."""
    dropped, failed, skipped = (
        reasons(counts) for counts in (ledger.dropped, ledger.failed, ledger.skipped)
    )
    # Rare, so that it is named only where there is some.
    expired = f" + expired {reasons(ledger.expired)}" if ledger.expired else ""
    return (
        f"seen {ledger.seen:,} = sampled {ledger.sampled:,} + not sampled {ledger.not_sampled:,}\n"
        f"sampled {ledger.sampled:,} = dropped {dropped} + queued {ledger.queued:,}"
        f" + scored {ledger.scored:,} + failed {failed} + skipped {skipped}{expired}"
    )


def setting_value(value: object) -> str:
    """Write the value of a setting without secrets; a dash when it is unset."""
    if value is None:
        return "–"
    if isinstance(value, SecretStr):
        return "********"
    if isinstance(value, tuple):
        return ",".join(str(item) for item in value)
    return plain_text(masked_url(str(value)), 500)


def headline(statuses: Mapping[str, Status]) -> str:
    """Say in one sentence how all apps are."""
    if not statuses:
        return "No app has sent anything yet."
    named = {
        status: sorted(app for app, s in statuses.items() if s is status)
        for status in (Status.CRITICAL, Status.WARNING, Status.BLIND, Status.INSUFFICIENT_DATA)
    }
    parts = [
        f"{_names(apps)} {'is' if len(apps) == 1 else 'are'} {_HEADLINE[status]}"
        for status, apps in named.items()
        if apps
    ]
    if not parts:
        return "All healthy." if len(statuses) > 1 else f"{next(iter(statuses))} is healthy."
    return "; ".join(parts) + "."


def _names(apps: Sequence[str]) -> str:
    """Name a few apps, and count the others: a sentence that nobody reads says nothing."""
    more = len(apps) - _MOST_NAMED
    if more <= 1:
        return ", ".join(apps)
    return f"{', '.join(apps[:_MOST_NAMED])} and {more} more apps"


_HEADLINE: Mapping[Status, str] = {
    Status.CRITICAL: "CRITICAL",
    Status.WARNING: "at warning",
    Status.BLIND: "not visible: the monitor is blind",
    Status.INSUFFICIENT_DATA: "without enough data",
}
