"""What may have caused a fall, in the order in which people ask: release, segment, part, judge."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from monitor.models import Status, Verdict
from monitor.models.insight import ComponentChange, Deploy, InputDrift, Insight
from monitor.models.status import odds_of
from monitor.report.format import percent, plain_text, points_with_interval, utc_time

#: A release or another evaluator this long before a fall may have caused it.
BEFORE = timedelta(hours=1)
_MOST_SEGMENTS = 3
_BAD = (Status.CRITICAL, Status.WARNING)


#: What a fall of the pass rate may be due to, by the words of its samples.
BLAMED: Mapping[str, str] = {
    "traffic": "other questions are asked",
    "retrieval": "contexts do not hold what is asked",
    "generation": "answers fail although contexts hold what is asked",
    "no fall": "it may be chance",
}


def change_sentence(changed: ComponentChange) -> str:
    """Return what of the app changed, and how sure it is that the fall came with it."""
    said = (
        f"{changed.component} {plain_text(changed.value, 60)}, from {percent(changed.before)} to"
        f" {percent(changed.after)} of the samples; pass rate with it"
        f" {points_with_interval(changed.change, changed.low, changed.high)}"
    )
    if changed.is_named:
        return f"{said}: the fall came with it ({odds_of(changed.confidence)} sure)"
    return f"{said}: not shown to have brought the fall"


class LikelyCause(NamedTuple):
    """What is known of one kind of cause; `release` or `segment` names the one it is about."""

    kind: str
    said: str
    is_likely: bool = False
    release: str = ""
    segment: str = ""


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
    Return what is known of each kind of cause of a fall; "nothing" is worth a line as well.

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
    near = [deploy for deploy in known.values() if began - BEFORE <= deploy.at <= ended]
    found = [*_releases(near, ended), *_segments(insight)]
    found.append(_part(retrieval, inputs))
    changed = insight.version_since if insight is not None else None
    if insight is not None and changed is not None and began - BEFORE <= changed <= ended:
        version = plain_text(insight.evaluator_version, 80)
        found.append(
            LikelyCause("judge", f"evaluator {version} since {utc_time(changed, ended)}", True)
        )
    else:
        found.append(LikelyCause("judge", "the evaluator did not change"))
    return found


def _releases(near: Sequence[Deploy], ended: datetime) -> Iterator[LikelyCause]:
    for deploy in near:
        said = f"{plain_text(deploy.release, 60)} went live at {utc_time(deploy.at, ended)}"
        if deploy.note:
            said += f" ({plain_text(deploy.note, 60)})"
        if deploy.difference is not None and deploy.low is not None and deploy.high is not None:
            change = points_with_interval(deploy.difference, deploy.low, deploy.high)
            rates = f"{percent(deploy.rate_before)} before, {percent(deploy.rate_after)} since"
            said += f": {rates}, {change}, {deploy.verdict}"
        yield LikelyCause("release", said, deploy.verdict != "better", release=deploy.release)
    if not near:
        yield LikelyCause("release", "none from an hour before it began")


def _segments(insight: Insight | None) -> Iterator[LikelyCause]:
    attribution = insight.attribution if insight is not None else None
    named = list(attribution.named if attribution is not None else ())[:_MOST_SEGMENTS]
    for item in named:
        before = "new" if item.rate_before is None else f"{percent(item.rate_before)} before"
        share = percent(item.share_after, 0)
        said = f"{plain_text(item.segment, 60)}: {before}, {percent(item.rate_after)} since"
        yield LikelyCause(
            "segment", f"{said} (n {item.n_after:,.0f}, {share} of the traffic)", True,
            segment=item.segment,
        )  # fmt: skip
    if not named:
        considered = attribution.considered if attribution is not None else 0
        yield LikelyCause(
            "segment", f"none stands out of {considered}" if considered else "none known"
        )


def _part(retrieval: Sequence[Verdict], inputs: Sequence[InputDrift]) -> LikelyCause:
    """Return whether retrieval or generation broke, as far as scores of the contexts tell."""
    kind = "retrieval or generation"
    names = ", ".join(plain_text(verdict.metric, 40) for verdict in retrieval)
    bad = [plain_text(verdict.metric, 40) for verdict in retrieval if verdict.status in _BAD]
    moved = next((item for item in inputs if item.moved and item.feature == "contexts"), None)
    if bad:
        return LikelyCause(kind, f"retrieval: {', '.join(bad)} fell as well", True)
    if moved is not None:
        counts = f"{plain_text(moved.before, 40)} before, {plain_text(moved.after, 40)} now"
        return LikelyCause(kind, f"retrieval: contexts a question, {counts}", True)
    if retrieval and all(verdict.status is Status.HEALTHY for verdict in retrieval):
        return LikelyCause(kind, f"generation: {names} healthy, so the contexts are good", True)
    why = f"{names} undecided" if retrieval else "no metric of the contexts alone is scored"
    return LikelyCause(kind, f"not known: {why}")
