"""Values from the store to a report, and to the likely causes of a fall."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from monitor.format import (
    duration,
    percent,
    plain_text,
    points_with_interval,
    utc_time,
)
from monitor.models import ROOT, Status, Verdict
from monitor.models.insight import ComponentChange, Deploy, InputDrift, Insight
from monitor.report.model import SEVERITY, AppReport, Ledger, MetricReport, RatePoint
from monitor.report.words import NOT_EVALUATED, WORDS, change_sentence, is_carried_over

#: A release or another evaluator this long before a fall may have caused it.
BEFORE = timedelta(hours=1)
RETRIEVAL_OR_GENERATION = "retrieval or generation"
_MOST_SEGMENTS = 3
_BAD = (Status.CRITICAL, Status.WARNING)


def app_report(
    app: str,
    verdicts: Sequence[Verdict],
    *,
    now: datetime,
    status_window_s: int,
    by_metric: Mapping[str, Mapping[str, Any]] | None = None,
    **fields: Any,
) -> AppReport:
    """
    Return what is known of an app, the worst of its metrics first.

    The verdicts of *status_window_s* lead. *by_metric* has more fields of each `MetricReport`,
    *fields* are those of the `AppReport`.
    """
    metrics = [
        MetricReport(
            metric=verdict.metric,
            verdict=verdict,
            windows=sorted(
                (
                    # The leading evaluator keeps its status: alerts follow it, carried over or not.
                    v if v is verdict else without_carried_status(v, now)
                    for v in verdicts
                    if v.metric == verdict.metric
                ),
                key=lambda v: v.window_s,
            ),
            **(by_metric or {}).get(verdict.metric, {}),
        )
        for verdict in verdicts
        if verdict.window_s == status_window_s and verdict.segment == ROOT
    ]
    metrics.sort(key=lambda item: (SEVERITY.index(item.verdict.status), item.metric))
    return AppReport(app=app, metrics=metrics, **fields)


def worst_first(apps: Iterable[AppReport]) -> list[AppReport]:
    """Return the apps in the order of a report."""
    return sorted(apps, key=lambda app: (SEVERITY.index(app.status), app.app))


def rate_points(
    scored: Mapping[int, RatePoint], *, now: datetime, window_s: int, step_s: int
) -> list[RatePoint]:
    """
    Return one point a step of the last *window_s* seconds; empty where none is *scored*.

    *scored* are points by their start in epoch seconds. A step without scores is a gap, not a zero.
    """
    if not scored:
        return []
    last = int(now.timestamp()) // step_s * step_s
    first = (int(now.timestamp()) - window_s) // step_s * step_s + step_s
    return [
        scored.get(at_s) or RatePoint(start=datetime.fromtimestamp(at_s, UTC), n=0, pass_rate=None)
        for at_s in range(first, last + 1, step_s)
    ]


def newest_only(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """
    Keep the verdicts of the newest evaluation, which judges every key at once.

    What it left out, a window or metric that is no longer configured, is history.
    """
    newest = max((verdict.evaluated_at for verdict in verdicts), default=None)
    return [verdict for verdict in verdicts if verdict.evaluated_at == newest]


def blind_when_stale(verdict: Verdict, *, now: datetime, stale_after_s: float) -> Verdict:
    """Return *verdict* as blind if its evaluation is older than *stale_after_s* seconds."""
    age_s = (now - verdict.evaluated_at).total_seconds()
    if age_s <= stale_after_s:
        return verdict
    was = f"{NOT_EVALUATED} {duration(age_s)} (it was {WORDS[verdict.status]})"
    return verdict.model_copy(
        update={
            "status": Status.BLIND, "status_since": verdict.evaluated_at,
            "reason": f"{was}; run groundwatch doctor",
        }
    )  # fmt: skip


def without_carried_status(verdict: Verdict, now: datetime) -> Verdict:
    """
    Return *verdict* with insufficient data if its window has no scores.

    The status of an evidence policy is that of the stream and persists without new
    scores; beside an empty window it would read as if it were about that window.
    """
    if not is_carried_over(verdict.status, verdict.window_n):
        return verdict
    since = utc_time(verdict.status_since, now)
    before = f"{WORDS[verdict.status]} since {since}, by the scores before it"
    reason = f"no scores in this window; {before}"
    return verdict.model_copy(update={"status": Status.INSUFFICIENT_DATA, "reason": reason})


def make_ledger(counts: Mapping[Any, int]) -> Ledger:
    """
    Return counts by (kind, reason) summed to a ledger that adds up.

    What was scored was sampled, and what was sampled was seen, even while the
    counters of the hook are a second behind those of the workers.
    """
    dropped, failed, skipped, expired = (
        _by_reason(counts, kind) for kind in ("dropped", "failed", "skipped", "expired")
    )
    scored, sampled, seen = (
        sum(_by_reason(counts, kind).values()) for kind in ("scored", "sampled", "seen")
    )
    ended = scored + sum(sum(part.values()) for part in (dropped, failed, skipped, expired))
    sampled = max(sampled, ended)
    seen = max(seen, sampled)
    return Ledger(
        seen=seen, errored=_by_reason(counts, "errored"), sampled=sampled,
        not_sampled=seen - sampled, dropped=dropped, queued=sampled - ended, scored=scored,
        failed=failed, skipped=skipped, expired=expired,
    )  # fmt: skip


def recent_counts(counts: Mapping[str, int]) -> dict[str, int]:
    """
    Return the counts of a window by kind, so that scored <= sampled <= seen.

    A sample of the window before may be scored in this one, and the counters of the hook are a
    second behind those of the workers; both would read as more scored than sampled.
    """
    ended = sum(counts.get(kind, 0) for kind in ("dropped", "failed", "skipped", "scored"))
    sampled = max(counts.get("sampled", 0), ended)
    at_least = {"seen": max(counts.get("seen", 0), sampled), "sampled": sampled}
    return {**counts, **{kind: n for kind, n in at_least.items() if n}}


def _by_reason(counts: Mapping[Any, int], kind: str) -> dict[str, int]:
    return {reason: n for (name, reason), n in sorted(counts.items()) if name == kind and n}


def exit_code(statuses: Sequence[Status]) -> int:
    """
    Return the exit code of the worst status, as monitoring plug-ins do.

    0 healthy, 1 warning, 2 critical, 3 unknown: too little data, blind, or nothing at all.
    """
    if Status.CRITICAL in statuses:
        return 2
    if Status.WARNING in statuses:
        return 1
    return 0 if statuses and set(statuses) == {Status.HEALTHY} else 3


# --- what may have caused a fall, in the order in which people ask ---


class LikelyCause(NamedTuple):
    """
    What is known of one kind of cause; `release` or `segment` names the one it is about.

    `is_compared`: the scores before and after a release show that it is better or worse.
    """

    kind: str
    said: str
    is_likely: bool = False
    release: str = ""
    segment: str = ""
    is_compared: bool = False


def likely_causes(
    insight: Insight | None,
    *,
    began: datetime,
    ended: datetime,
    deploys: Sequence[Deploy] = (),
    retrieval: Sequence[Verdict] = (),
    inputs: Sequence[InputDrift] = (),
) -> list[LikelyCause]:
    """
    Return what is known of each kind of cause of a fall; a kind that was compared and found
    unchanged has a line as well.

    Parameters
    ----------
    insight
        What explains the metric that fell, if anything was compared lately.
    began, ended
        Of the fall: what came later did not cause it, nor what came more than an hour before.
    deploys
        Releases that were recorded; those that the insight compares need not be among them.
    retrieval
        Verdicts of metrics that look at question and contexts and not at the answer.
    inputs
        How the app's questions, answers and contexts moved.
    """
    known = {deploy.release: deploy for deploy in (*deploys, *(insight.deploys if insight else ()))}
    found = []
    for deploy in known.values():
        if not began - BEFORE <= deploy.at <= ended:
            continue
        said = f"{plain_text(deploy.release, 60)} went live at {utc_time(deploy.at, ended)}"
        if deploy.note:
            said += f" ({plain_text(deploy.note, 60)})"
        if deploy.difference is not None and deploy.low is not None and deploy.high is not None:
            change = points_with_interval(deploy.difference, deploy.low, deploy.high)
            rates = f"{percent(deploy.rate_before)} before, {percent(deploy.rate_after)} since"
            said += f": {rates}, {change}, {deploy.verdict}"
        found.append(LikelyCause(
            "release", said, deploy.verdict != "better", release=deploy.release,
            is_compared=deploy.verdict in {"better", "worse"},
        ))  # fmt: skip
    if not found:
        found.append(LikelyCause("release", "none in the hour before"))
    attribution = insight.attribution if insight is not None else None
    named = attribution.named[:_MOST_SEGMENTS] if attribution is not None else ()
    for item in named:
        before = "new" if item.rate_before is None else f"{percent(item.rate_before)} before"
        share = percent(item.share_after, 0)
        said = f"{plain_text(item.segment, 60)}: {before}, {percent(item.rate_after)} since"
        said += f" (n {item.n_after:,.0f}, {share} of the traffic)"
        found.append(LikelyCause("segment", said, True, segment=item.segment))
    if attribution is not None and not named:
        considered = attribution.considered
        said = f"none stands out of {considered}" if considered else "none known"
        found.append(LikelyCause("segment", said))
    found.append(_broken_part(retrieval, inputs))
    if insight is None:
        return found
    changed = insight.version_since
    if changed is not None and began - BEFORE <= changed <= ended:
        version = plain_text(insight.evaluator_version, 80)
        found.append(LikelyCause("evaluator", f"{version} since {utc_time(changed, ended)}", True))
    else:
        found.append(LikelyCause("evaluator", "unchanged"))
    return found


def with_named_release(
    causes: Sequence[LikelyCause], changes: Sequence[ComponentChange]
) -> list[LikelyCause]:
    """
    Return the causes with the release that the fall came with by the samples' own word.

    A deploy that was recorded and compared says more, and stays; of one that is not decided, only
    the time is added.
    """
    named = {
        change.value: change_sentence(change)
        for change in changes
        if change.is_named and change.component == "release"
    }
    releases = [cause for cause in causes if cause.kind == "release"]
    if not named or any(cause.is_likely and cause.is_compared for cause in releases):
        return [*causes]
    live = {cause.release: cause.said.partition(": ")[0] for cause in releases if cause.release}
    found = [
        LikelyCause("release", "; ".join(filter(None, (live.get(name), said))), True, release=name)
        for name, said in named.items()
    ]
    found += [cause for cause in releases if cause.release and cause.release not in named]
    return [*found, *(cause for cause in causes if cause.kind != "release")]


def _broken_part(retrieval: Sequence[Verdict], inputs: Sequence[InputDrift]) -> LikelyCause:
    """Return whether retrieval or generation broke, as far as scores of the contexts tell."""
    kind = RETRIEVAL_OR_GENERATION
    names = ", ".join(plain_text(verdict.metric, 40) for verdict in retrieval)
    bad = [plain_text(verdict.metric, 40) for verdict in retrieval if verdict.status in _BAD]
    moved = next((item for item in inputs if item.moved and item.feature == "contexts"), None)
    if bad:
        return LikelyCause(kind, f"retrieval: {', '.join(bad)} fell as well", True)
    if moved is not None:
        counts = f"{plain_text(moved.before, 40)} before, {plain_text(moved.after, 40)} now"
        return LikelyCause(kind, f"retrieval: contexts per question, {counts}", True)
    if retrieval and all(verdict.status is Status.HEALTHY for verdict in retrieval):
        return LikelyCause(kind, f"generation: {names} healthy, so the contexts are good", True)
    why = f"{names} undecided" if retrieval else "no metric scores the contexts alone"
    return LikelyCause(kind, f"unknown: {why}")
