"""Statuses and figures in plain sentences; text, Markdown, pages and digests use the same ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from monitor.format import (
    count,
    duration,
    interval,
    listed,
    number,
    percent,
    plain_text,
    points_with_interval,
    rate_with_interval,
    score,
    usd,
    utc_time,
)
from monitor.models import Alert, Drift, Status, Verdict
from monitor.models.evaluation import (
    OWN_LEAST,
    OWN_MOST,
    Direction,
    Evaluation,
    PassRule,
    advice_for,
)
from monitor.models.insight import ComponentChange, DetectionProof, SampleRate
from monitor.models.status import FleetFall, certainty
from monitor.report.model import AppReport, Ledger, Report, error_rate
from monitor.stats.agreement import Confusion
from monitor.stats.intervals import wilson_interval

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
#: Statuses that are based on scores, and persist when scoring stops.
_OF_SCORES = frozenset({Status.HEALTHY, Status.WARNING, Status.CRITICAL})
#: Stands behind a rate whose level nobody verified.
NOT_VERIFIED = ", level not verified"
_MOST_NAMED = 3
#: Below so many samples in the reference, distances to it are mostly noise.
_LEAST_REFERENCE_N = 200
#: How an incident ended that did not recover.
CLOSED: Mapping[str, str] = {
    "superseded": "scorer or threshold changed (not a recovery)",
    "no_longer_evaluated": "no longer evaluated (not a recovery)",
    "expired_no_data": "no more data (not a recovery)",
}


def first_run_hint(app: str, ledger: Ledger, least_n: int) -> str:
    """Return how far an app is from its first score, and what to set; '' once it has one."""
    if ledger.scored or not ledger.seen:
        return ""
    said = (
        f"{plain_text(app, 60)}: {ledger.sampled:,} of {ledger.seen:,} interactions sampled;"
        f" a status needs {least_n} scores, and there is none yet."
    )
    # At the default rate that takes 600 requests: too many for a first try.
    hint = " To try it out, set GROUNDWATCH_SAMPLE_RATE=1 in the app."
    return said + hint * (ledger.sampled < ledger.seen)


def agreement_line(found: Confusion) -> str:
    """Return such as "45 of 50 agree (90.0 %, 78.6–95.7), kappa 0.71"."""
    if found.agreement is None:
        return "no majority yet"
    agreed, n = found.passed_good + found.failed_bad, found.n
    low, high = wilson_interval(agreed, n)
    share = f"{percent(found.agreement)}, {interval(low, high)}"
    return f"{number(agreed)} of {number(n)} agree ({share}), kappa {score(found.kappa)}"


def is_carried_over(status: Status, n: int) -> bool:
    """Return whether a status persists from before, with no scores in its window (*n* is 0)."""
    return n == 0 and status in _OF_SCORES


def status_word(status: Status, n: int | None = None) -> str:
    """Return the word of a status; given its *n* scores, also that there are no new ones."""
    carried = n is not None and is_carried_over(status, n)
    return f"{WORDS[status]} (no new scores)" if carried else WORDS[status]


def verdict_word(verdict: Verdict) -> str:
    """Return the word of a verdict's status; too little data is "collecting" or "undecided"."""
    if verdict.status is Status.INSUFFICIENT_DATA and verdict.phase is not None:
        return "collecting data" if verdict.phase == "collecting" else "undecided"
    return status_word(verdict.status, verdict.window_n)


def verdict_rate(verdict: Verdict, *, unverified: str = NOT_VERIFIED) -> str:
    """
    Return the pass rate of a verdict with the interval that decides: never a bare value.

    *unverified* marks a rate whose level nobody verified; "" where a sentence beside it says so.
    """
    said = rate_with_interval(verdict.pass_rate, verdict.low, verdict.high)
    if verdict.pass_rate is not None and verdict.low is None is verdict.high:
        said = f"{percent(verdict.pass_rate)}, may be chance"  # the policy looks at less
    return said if verdict.level_verified or verdict.pass_rate is None else f"{said}{unverified}"


def level_sentence(verdict: Verdict) -> str:
    """Return by what the level of a verdict is known, or what would verify it; may be empty."""
    level = verdict.level
    if level is None:
        return ""
    if not level.verified:
        return f"level not verified: {plain_text(level.needs)}"
    if level.by == "judge":
        needs = f": {plain_text(level.needs)}" if level.needs else ""
        return f"level is the judge's, not verified by people{needs}"
    of = f" of release {plain_text(level.release)}" if level.release else ""
    own = rate_with_interval(level.pass_rate, level.low, level.high)
    return f"level verified by {level.n_labels:,} labels{of}; {own} pass by the evaluator itself"


def window_rate(verdict: Verdict) -> str:
    """Return the pass rate of the window, the second figure, with its 90 % interval."""
    return rate_with_interval(verdict.window_pass_rate, verdict.window_low, verdict.window_high)


#: How the reason of a verdict begins that is blind because its evaluation is old.
NOT_EVALUATED = "not evaluated for"


def report_headline(report: Report) -> str:
    """
    Return one sentence on the status of all apps of a report.

    Where no status is up to date it says so instead, and what to look at.
    """
    verdicts = [item.verdict for app in report.apps for item in app.metrics]
    if not verdicts or not all(item.reason.startswith(NOT_EVALUATED) for item in verdicts):
        return headline({plain_text(app.app, 60): app.status for app in report.apps})
    age_s = (report.generated_at - max(item.evaluated_at for item in verdicts)).total_seconds()
    return f"No status is up to date: {NOT_EVALUATED} {duration(age_s)}; run groundwatch doctor."


def headline(statuses: Mapping[str, Status]) -> str:
    """Return one sentence on the status of all apps, naming at most three, the worst first."""
    if not statuses:
        return "No app has sent anything yet."
    by_status = {s: sorted(app for app, found in statuses.items() if found is s) for s in Status}
    bad = [f"{app} ({WORDS[s]})" for s in (Status.CRITICAL, Status.WARNING) for app in by_status[s]]
    need = f"{count(len(bad), 'app')} {'needs' if len(bad) == 1 else 'need'} attention: "
    parts, left = [], _MOST_NAMED
    for said, found in (
        (need, bad),
        ("monitoring is blind for ", by_status[Status.BLIND]),
        ("not enough data yet for ", by_status[Status.INSUFFICIENT_DATA]),
    ):
        if found:
            parts.append(f"{said}{listed(found, left) if left else count(len(found), 'app')}")
            left = max(0, left - len(found))
    if parts:
        said = "; ".join(parts)
        return f"{said[0].upper()}{said[1:]}."
    if len(statuses) > 1:
        return f"All {len(statuses)} apps are healthy."
    return f"{next(iter(statuses))} is healthy."


def fleet_sentence(fall: FleetFall, now: datetime) -> str:
    """Return which apps fell together, how far, since when, and what is known of the cause."""
    some = fall.n_apps - len(fall.fell)
    others = f"; too few samples to tell for {count(some, 'more app')}" if some > 0 else ""
    named = listed([plain_text(app, 60) for app in fall.fell])
    rate = rate_with_interval(fall.pass_rate, fall.low, fall.high)
    return (
        f"{count(len(fall.fell), 'app')} fell together ({named}): {plain_text(fall.metric, 60)}"
        f" {rate}, n {fall.n:,}, since {utc_time(fall.since, now)}{others}."
        f" {fall.cause[0].upper()}{fall.cause[1:]}."
    )


def level_words(incident: Alert) -> str:
    """Return the worst level of an incident and its present one; "TEST" before that of a drill."""
    said = str(incident.peak_level)
    if incident.is_open and incident.level is not incident.peak_level:
        said += f", now {incident.level}"
    return f"TEST {said}" if incident.is_drill else said


def incident_sentence(incident: Alert, now: datetime) -> str:
    """Return how long an incident has been open, or how it ended."""
    lasted = duration((incident.resolved_at or now) - incident.opened_at)
    if incident.is_open:
        return f"open for {lasted}"
    if incident.closed_as is not None:
        return f"closed after {lasted}: {CLOSED.get(incident.closed_as, incident.closed_as)}"
    return f"resolved after {lasted}"


def reason_sentence(verdict: Verdict, *, with_level: bool = True) -> str:
    """
    Return why a status is what it is, and what a simple threshold check says if it differs.

    *with_level* also says by what the level of the rate is known.
    """
    why = plain_text(verdict.reason)
    if with_level and (level := level_sentence(verdict)):
        why = f"{why}; {level}"
    if verdict.point_status is verdict.status or verdict.status is Status.BLIND:
        return why
    return f"{why}; simple threshold check: {WORDS[verdict.point_status]}"


def score_sentence(verdict: Verdict) -> str:
    """
    Return the average score, which direction is better, and what usually helps if it is bad.

    Empty if there is no score, or the evaluator's version does not say what passes.
    """
    rule = PassRule.read(verdict.evaluator_version)
    if rule is None or verdict.average_score is None:
        return ""
    lower = rule.direction is Direction.LOWER
    better, side = ("lower", "below") if lower else ("higher", "above")
    line = f"{rule.line:g} or {side}"
    if rule.own:
        line = f"the app's own pass score, between {OWN_LEAST:g} and {OWN_MOST:g}"
    said = f"average score {score(verdict.average_score)} ({better} is better, passes at {line})"
    # Advice beside a healthy status would contradict it.
    if verdict.status not in {Status.WARNING, Status.CRITICAL}:
        return said
    found = advice_for(verdict.metric, verdict.average_score, rule.direction)
    return f"{said}; often {found.cause}: {found.fix}" if found else said


def drift_sentence(drift: Drift) -> str:
    """
    Return the pass rate of the reference and, if that is large enough, the distances to it.

    A distance alone is not a finding of drift, and the sentence says so.
    """
    said = f"reference: {percent(drift.reference_pass_rate)} (n {drift.reference_n:,})"
    if drift.reference_n < _LEAST_REFERENCE_N or drift.psi is None or drift.ks is None:
        return said
    distances = f"PSI {score(drift.psi)}, KS {score(drift.ks)}"
    return f"{said}; distance of the scores from it: {distances}, not evidence of drift"


def judge_sentence(verdict: Verdict) -> str:
    """Return how many samples a cascade sent to its LLM judge and the cost; '' for any other."""
    if not verdict.n_judged:
        return ""
    agreed = percent(verdict.n_agreed / verdict.n_judged)
    return (
        f"LLM judge: {verdict.n_judged:,} of {verdict.window_n:,} samples; the local scorer agrees"
        f" on {agreed} of them; cost for this metric {usd(verdict.cost_usd)}"
    )


def cost_sentence(verdicts: Sequence[Verdict]) -> str:
    """Return what the metrics of an app cost together in one window; '' if nothing, or only one."""
    total = sum(verdict.cost_usd for verdict in verdicts)
    if len(verdicts) <= 1 or not total:
        return ""
    return f"{len(verdicts)} metrics together: {usd(total)} (they may share a judge call)"


def reasons(counts: Mapping[str, int]) -> str:
    """Return a count with its parts, "12 (no_context 10, no_claim 2)", or the bare count."""
    total = sum(counts.values())
    parts = ", ".join(f"{plain_text(reason, 60)} {n:,}" for reason, n in counts.items() if reason)
    return f"{total:,} ({parts})" if parts else f"{total:,}"


def unscored_sentence(
    failed: Mapping[str, int], skipped: Mapping[str, int], window_s: float
) -> str:
    """Return how many evaluations of a metric have no score, and why; '' if all have one."""
    both = (("failed", failed), ("skipped", skipped))
    parts = [f"{word} {reasons(counts)}" for word, counts in both if counts]
    said = f"not scored in the last {duration(window_s)}: {', '.join(parts)}" if parts else ""
    often = sorted(skipped, key=lambda reason: -skipped[reason])[:_MOST_NAMED]
    named = [(plain_text(reason, 60), skip_sentence(reason)) for reason in often]
    return "; ".join([said, *(f"{code}: {means.rstrip('.')}" for code, means in named if means)])


def not_scored_sentence(app: AppReport, window_s: float) -> str:
    """Return how much of an app has no score in a window, and why; '' where nothing is missing."""
    parts = [f"samples {kind} {reasons(counts)}" for kind, counts in app.lost.items()]
    alike: dict[str, list[str]] = {}  # metrics by what is missing
    for item in app.metrics:
        scored, failed = item.verdict.window_n, sum(item.failed.values())
        # What failed is a share of what was tried, what was skipped of all.
        everything = scored + failed + sum(item.skipped.values())
        said = ", ".join(
            f"{how} {sum(counts.values()):,} of {total:,} ({_codes(counts)})"
            for how, counts, total in (
                ("failed", item.failed, scored + failed),
                ("skipped", unexpected(item.skipped), everything),
            )
            if counts
        )
        if said:
            alike.setdefault(said, []).append(plain_text(item.metric, 40))
    parts += [f"{', '.join(metrics)} {said}" for said, metrics in alike.items()]
    found = f"{plain_text(app.app, 40)}, not scored in the last {duration(window_s)}: "
    return found + "; ".join(parts) if parts else ""


def _codes(counts: Mapping[str, int]) -> str:
    """Return reasons with their counts; a single one needs none."""
    named = {
        plain_text(code, 60): f" {n:,}" if len(counts) > 1 else "" for code, n in counts.items()
    }
    return ", ".join(f"{code}{n}" for code, n in named.items())


def unexpected(skipped: Mapping[str, int]) -> dict[str, int]:
    """Return the reasons for which evaluations were skipped without those that are by design."""
    return {reason: n for reason, n in skipped.items() if reason != "not_asked"}


def proof_sentence(proof: DetectionProof, now: datetime) -> str:
    """Return what became of the falls that were planted to test a detection objective."""
    word = {True: "met", False: "not met", None: "not tested"}[proof.met]
    if not proof.planted:
        return f"objective {proof.objective} {word}: {proof.reason}"
    typical = "more than half were missed"
    if proof.median_s is not None:
        typical = f"median {duration(proof.median_s)}"
    found = f"{proof.found} of {proof.planted} planted falls found in time, {typical}"
    why = f"; {proof.reason}" if proof.reason else ""
    return f"objective {proof.objective} {word}: {found} ({utc_time(proof.made_at, now)}){why}"


#: Kinds that are named only where there were some.
_SELDOM = frozenset({"errored", "unseen", "feedback", "feedback_stored"})


def recent_sentence(recent: Mapping[str, int], window_s: float) -> str:
    """Return how many interactions of each kind fell into the window of the report."""
    shown = {kind: n for kind, n in recent.items() if n or kind not in _SELDOM}
    parts = ", ".join(f"{kind.replace('_', ' ')} {n:,}" for kind, n in shown.items())
    return f"in the last {duration(window_s)}: {parts}"


def error_sentence(counts: Mapping[str, int], window_s: float) -> str:
    """Return which share of an app's requests failed in a window; empty where none did."""
    if not counts.get("errored"):
        return ""
    requests = counts.get("seen", 0) + counts.get("unseen", 0)
    failed = f"{counts['errored']:,} of {requests:,} requests failed"
    return f"error rate {percent(error_rate(counts))} in the last {duration(window_s)}: {failed}"


def sample_rate_sentence(asked: SampleRate | None, now: datetime) -> str:
    """Return how an app is sampled, why, since when and who wanted it."""
    if asked is None:
        return "sample rate: the app's own"
    by, own = plain_text(asked.set_by, 60), percent(asked.own)
    if not asked.is_in_force(now):
        why = f"reset by {by}" if asked.reason == "reset" else "nothing asks for another"
        since = utc_time(min(asked.until, now), now)
        return f"sample rate {own} (the app's own) since {since}: {why}"
    said = f"sample rate {percent(asked.rate)} since {utc_time(asked.since, now)}"
    how = f"follows the evidence, switched on by {by}" if asked.follows_evidence else f"by {by}"
    until = "" if asked.follows_evidence else f" until {utc_time(asked.until, now)}"
    return f"{said}{until}: {plain_text(asked.reason, 100)} ({how}; the app's own is {own})"


def ledger_sentence(ledger: Ledger) -> str:
    """Return where every interaction went, in two lines that add up from left to right."""
    # Samples rarely expire: named only where some did.
    expired = f" + expired {reasons(ledger.expired)}" if ledger.expired else ""
    errors = f"; failed requests {reasons(ledger.errored)}" if ledger.errored else ""
    return (
        f"seen {ledger.seen:,} = sampled {ledger.sampled:,} + not sampled {ledger.not_sampled:,}"
        f"{errors}\n"
        f"sampled {ledger.sampled:,} = dropped {reasons(ledger.dropped)}"
        f" + queued {ledger.queued:,} + scored {ledger.scored:,}"
        f" + failed {reasons(ledger.failed)} + skipped {reasons(ledger.skipped)}{expired}"
    )


#: What a fall of the pass rate may be due to, by the words of its samples.
BLAMED: Mapping[str, str] = {
    "traffic": "other questions are asked",
    "retrieval": "contexts do not hold what is asked",
    "generation": "answers fail although contexts hold what is asked",
    "no fall": "it may be chance",
}


#: Why a metric has no score, by the reason that is stored.
SKIPPED: Mapping[str, str] = {
    "no_query": "The sample has no question.",
    "no_context": "The sample has no contexts.",
    "empty_output": "The sample has no answer.",
    "no_tool_calls": "The sample has no tool calls.",
    "no_step_count": "The sample says nothing of the steps that were taken.",
    "no_latency_ms": "The sample has no metadata.latency_ms that is a number.",
    "no_claim": "The answer states nothing that passages could support.",
    "undecided": "The local scorer is not sure whether the passages support any of the claims.",
    "unsupported_text": (
        "The local scorer cannot judge this kind of text by its words: a translation, a"
        " calculation, a label, small talk."
    ),
    "right_refusal": "It declines to answer, and the passages hold no answer.",
    "nothing_asked": "There is no question, or it names nothing that could be compared.",
    "small_talk": "It is small talk.",
    "instruction": "It asks for a text that shared words cannot judge.",
    "calculated": "It calculates a figure, which shared words cannot check.",
    "unclear_reference": "Shared words cannot tell whether the answer is what was asked.",
    "no_citation": "The answer cites nothing.",
    "no_claim_needs_several": "No claim of the answer needs several sources.",
    "nothing_supports": "No passage supports the answer.",
    "nothing_relevant": "The sample's expected.relevant names no passage.",
    "no_noise": "All passages are relevant, so that none is noise.",
    "answerable": "The sample's expected.unanswerable is false: there is an answer.",
    "no_structured_answer": "The answer has no fields to check.",
    "one_passage": "The sample has a single passage.",
    "no_weights": "No passage has a weight above 0.",
    "fewer_than_two_runs": "The sample has fewer than two answers or runs to compare.",
    "runs_lack_fields": "The runs lack the field that is compared.",
    "screen_found_nothing": "The screen by words found nothing, which proves nothing.",
    "part_missing": "Too many of the metrics that it is made of have no score.",
    "needs_judge": "Only an LLM judge can score it: set GROUNDWATCH_SCORER to judge or cascade.",
    "needs_embedding_model": "It needs an embedding model: set GROUNDWATCH_EMBEDDING_MODEL.",
    "not_asked": "The judge was not asked: it sees a share of the samples.",
    "budget_reached": "The judge's budget was spent.",
    "incomplete": "The answer is incomplete: its stream was abandoned.",
    "not_captured": "The texts stayed in the app.",
    "nothing_to_score": "The metric's own function found nothing to score.",
}


def skip_sentence(reason: str, explanation: str | None = None) -> str:
    """Return why a metric has no score, with what it says itself; '' if *reason* says it all."""
    said = SKIPPED.get(reason, "")
    for root in ("expected", "metadata"):
        path = reason.removeprefix(f"no_{root}_")
        if not said and path != reason:
            said = f"The sample has no {root}.{plain_text(path, 60)}."
    return " ".join(part for part in (said, explanation) if part)


def empty_answer(no_texts: str) -> str:
    """Return what stands for an answer of no characters; *no_texts* is why there are no texts."""
    if no_texts == "not_captured":
        return "(text not captured)"
    return "(text removed)" if no_texts else "(empty answer)"


def why_unscored(found: Evaluation) -> str:
    """Return why an evaluation has no score: the error's message, or the reason and its meaning."""
    if found.error is not None and found.error.message:
        return found.error.message
    said = skip_sentence(found.reason, found.explanation)
    return ": ".join(part for part in (found.reason, said) if part)


def change_sentence(changed: ComponentChange) -> str:
    """Return what of the app changed, and how sure it is that the fall came with it."""
    said = (
        f"{changed.component} {plain_text(changed.value, 60)}, from {percent(changed.before)} to"
        f" {percent(changed.after)} of the samples; pass rate with it"
        f" {points_with_interval(changed.change, changed.low, changed.high)}"
    )
    if changed.is_named:
        return f"{said}: the fall came with it ({certainty(changed.confidence)})"
    return f"{said}: not shown to have brought the fall"
