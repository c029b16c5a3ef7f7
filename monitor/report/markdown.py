"""A report as Markdown, for tickets and chat."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from monitor.models import Verdict
from monitor.models.insight import Insight
from monitor.report.format import (
    duration,
    percent,
    plain_text,
    score,
    sparkline,
    utc_second,
    utc_time,
)
from monitor.report.insight_words import drift_rows, input_lines, insight_lines
from monitor.report.model import AppReport, MetricReport, Report
from monitor.report.words import (
    ICONS,
    WORDS,
    cost_sentence,
    drift_sentence,
    headline,
    incident_sentence,
    judge_sentence,
    ledger_sentence,
    level_words,
    reason_sentence,
    recent_sentence,
    score_sentence,
    status_word,
    unscored_sentence,
    verdict_rate,
)

_SPECIAL = str.maketrans({c: f"\\{c}" for c in "\\`*_{}[]<>#|~"})


def render_markdown(report: Report) -> str:
    """Write the report as Markdown."""
    return "\n".join(_lines(report)) + "\n"


def _lines(report: Report) -> Iterator[str]:
    now = report.generated_at
    yield f"# {headline({_safe(app.app): app.status for app in report.apps})}"
    yield ""
    yield f"{utc_second(now)}, the last {duration(report.window_s)}"
    for app in report.apps:
        yield from _app(app, report)


def _app(app: AppReport, report: Report) -> Iterator[str]:
    yield from ("", f"## {_safe(app.app)}", "")
    yield "| metric | status | window | pass rate (95 %) | n | failed | skipped | score |"
    yield "|---|---|--:|--:|--:|--:|--:|--:|"
    for item in app.metrics:
        yield from (_row(verdict) for verdict in item.windows)
    for item in app.metrics:
        yield from _details(item, report)
    if said := cost_sentence([item.verdict for item in app.metrics]):
        yield from ("", said)
    moved = input_lines(app.inputs)
    if moved:
        yield from ("", "**The questions changed**", "")
        yield from (f"- {_safe(line)}" for line in moved)
    if app.changes:
        yield from ("", "**Status changes**", "")
        yield from (
            f"- {utc_time(c.at, report.generated_at)} {_safe(c.metric)}:"
            f" {ICONS[c.after]} {WORDS[c.after]}, {percent(c.pass_rate)}, n {c.n:,}"
            for c in app.changes
        )
    if app.incidents:
        yield from ("", "**Alerts**", "")
        yield from _incidents(app, report.generated_at)
    yield from ("", "**Where every interaction went, since the beginning**", "")
    yield from (f"- {line}" for line in ledger_sentence(app.ledger).splitlines())
    if app.recent:
        yield f"- {recent_sentence(app.recent, report.window_s)}"


def _row(verdict: Verdict) -> str:
    cells = (
        _safe(verdict.metric),
        f"{ICONS[verdict.status]} {status_word(verdict.status, verdict.n)}",
        duration(verdict.window_s),
        verdict_rate(verdict),
        f"{verdict.n:,}",
        f"{verdict.n_failed:,}",
        f"{verdict.n_skipped:,}",
        score(verdict.average_score),
    )
    return f"| {' | '.join(cells)} |"


def _details(item: MetricReport, report: Report) -> Iterator[str]:
    verdict = item.verdict
    yield from ("", f"**{_safe(item.metric)}**: {_safe(reason_sentence(verdict))}")
    if item.series:
        line = sparkline([point.pass_rate for point in item.series])
        yield from ("", f"`{line}` pass rate, last {duration(report.window_s)}")
    if said := unscored_sentence(item.failed, item.skipped, report.window_s):
        yield from ("", _safe(said))
    if sentence := score_sentence(verdict):
        yield from ("", sentence)
    if verdict.drift is not None:
        yield from ("", drift_sentence(verdict.drift))
    if said := judge_sentence(verdict):
        yield from ("", said)
    if item.insight is not None:
        lines = insight_lines(item.insight, report.generated_at)
        yield from ["", *(f"- {_safe(line)}" for line in lines)] if lines else []
        yield from _distances(item.insight)
    if item.worst:
        yield ""
        yield from (
            f"- {w.score:.2f} {_safe(w.interaction_id)}: {_safe(w.explanation)}" for w in item.worst
        )


def _distances(insight: Insight) -> Iterator[str]:
    """Write the distances, when one of them is beyond chance."""
    for name, value, effect, significance in drift_rows(insight):
        yield f"- {_safe(name)} {value}, effect {effect}, {significance}"


def _incidents(app: AppReport, now: datetime) -> Iterator[str]:
    for incident in app.incidents:
        opened, state = utc_time(incident.opened_at, now), incident_sentence(incident, now)
        yield f"- {opened} {_safe(incident.metric)} {level_words(incident)}, {state}"


def _safe(text: str) -> str:
    return plain_text(text).translate(_SPECIAL)
