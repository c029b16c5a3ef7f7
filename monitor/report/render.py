"""Reports, digests and explanations as text: values filled into the templates beside this file."""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from textwrap import wrap
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from jinja2 import Environment, PackageLoader, StrictUndefined

from monitor import format as formats
from monitor.format import count, plain_text, public_functions, rate_with_interval
from monitor.models.insight import DriftFinding, InputDrift, Insight
from monitor.models.status import Status
from monitor.report import words
from monitor.report.digest import Digest, DigestSeries
from monitor.report.model import MetricReport, Report
from monitor.report.words import BLAMED, ICONS, NOT_VERIFIED, WORDS, headline, status_word

_NAME_CHARS = 60
_MOST_CHARS = 500
_DAY_S = 86_400
_MARKDOWN = str.maketrans({c: f"\\{c}" for c in "\\`*_{}[]<>#|~"})
_SURE, _VERY_SURE = 0.001, 1e-6
_MOST_FINDINGS = 5
_FEATURES: Mapping[str, str] = {
    "query_chars": "length of the questions",
    "output_chars": "length of the answers",
    "contexts": "number of contexts",
    "language": "language",
    "topic": "topic",
}


def render_markdown(report: Report) -> str:
    """Return a report as Markdown, for tickets and chat; strangers' text is escaped."""
    return _fill("report.md.j2", report=report)


def render_incident(**values: object) -> str:
    """Return an incident as Markdown, for a ticket; *values* are those of its page."""
    return _fill("incident.md.j2", **values)


def metric_sentences(item: MetricReport, report: Report) -> list[str]:
    """Return what belongs to the figures of a metric's windows, one sentence each."""
    verdict = item.verdict
    found = [
        words.unscored_sentence(item.failed, item.skipped, report.window_s),
        words.score_sentence(verdict),
        words.drift_sentence(verdict.drift) if verdict.drift is not None else "",
        words.judge_sentence(verdict),
        words.proof_sentence(item.proof, report.generated_at) if item.proof is not None else "",
        f"people: {words.agreement_line(item.labels)}" if item.labels is not None else "",
    ]
    return [said for said in found if said]


# What explains a status.


def insight_lines(insight: Insight, now: datetime) -> list[str]:
    """Return what explains a metric, a sentence a line; few or none while all is well."""
    # The newest of each kind, the whole app first.
    newest: dict[tuple[str, str], DriftFinding] = {
        (item.segment, item.test): item for item in insight.findings
    }
    ordered = sorted(newest.values(), key=lambda f: (f.segment != "*", f.segment, f.test))
    text = _fill("insight.txt.j2", i=insight, now=now, findings=ordered[:_MOST_FINDINGS])
    # Two tests may find the same.
    return list(dict.fromkeys(text.splitlines()))


def input_lines(inputs: Sequence[InputDrift]) -> list[str]:
    """Return how the inputs of an app moved, a line each; empty if they did not."""
    return [
        f"{_FEATURES.get(item.feature) or plain_text(item.feature, 40)}:"
        f" {plain_text(item.before, 80)} before, {plain_text(item.after, 80)} now"
        f" (n {item.n_after:,}, {significance(item.p_value)})"
        for item in inputs
        if item.moved
    ]


def significance(p_value: float | None) -> str:
    """Return in words how probable so much is by chance alone, in one test."""
    if p_value is None:
        return "no test"
    if p_value < _VERY_SURE:
        return "not by chance"
    if p_value < _SURE:
        return f"hardly by chance (p {p_value:.0e})"
    return f"p {p_value:.3f}"


# Digests.


class Section(NamedTuple):
    """A heading and its lines; each is one line without control characters."""

    title: str
    lines: Sequence[str]
    is_chart: bool = False  #: the lines are drawn with characters of equal width


def digest_title(digest: Digest) -> str:
    """Return which digest it is, such as "daily digest"."""
    cadence = digest.name.partition("-")[0]
    return f"{cadence} digest" if cadence in {"daily", "weekly"} else "digest"


def digest_span(digest: Digest) -> str:
    """Return the period of a digest, in its time zone."""
    start, end = _digest_time(digest.start, digest), _digest_time(digest.end, digest)
    return f"{start} to {end}, {plain_text(digest.zone, 40)}"


def digest_subject(digest: Digest) -> str:
    """Return how many apps need attention, for a subject: "3 critical, 2 warning (of 7 apps)"."""
    found = Counter(digest.statuses.values())
    bad = {s: found[s] for s in (Status.CRITICAL, Status.WARNING, Status.BLIND) if found[s]}
    said = ", ".join(f"{n} {status.value}" for status, n in bad.items())
    apps = count(len(digest.statuses), "app")
    cadence = digest_title(digest).removesuffix(" digest")
    healthy = len(digest.statuses) - found[Status.INSUFFICIENT_DATA]
    return f"groundwatch {cadence}: " + (
        f"{said} (of {apps})" if bad else f"{healthy} of {apps} healthy, none needs attention"
    )


def digest_verdict(digest: Digest) -> str:
    """Return one sentence on all apps, and whether anybody has to do anything."""
    said = headline({plain_text(app, _NAME_CHARS): s for app, s in digest.statuses.items()})
    return f"{said} Nothing to do." if digest.nothing_to_do else said


def digest_sections(digest: Digest) -> list[Section]:
    """Return the sections of a digest, the most urgent first, without empty ones."""
    text = _fill("digest.txt.j2", d=digest, at=lambda at: _digest_time(at, digest))
    found: dict[str, list[str]] = {}
    title = ""
    for line in text.splitlines():
        if line.startswith("- "):
            found[title].append(line.removeprefix("- "))
        else:
            title = line
            found[title] = []
    return [
        Section(title, lines, is_chart=title == "Pass rates")
        for title, lines in found.items()
        if lines
    ]


def chart_label(series: DigestSeries) -> str:
    """
    Return the name of a time series with its status and figures, for or instead of a chart.

    The figures are of the whole period, so that they need not agree with the present status.
    """
    app, metric = (plain_text(name, _NAME_CHARS) for name in (series.app, series.metric))
    figures = "no scores"
    if series.rate is not None:
        rate = rate_with_interval(series.rate, series.low, series.high)
        figures = f"{rate}{'' if series.level_verified else NOT_VERIFIED}, n {series.n:,}"
    now = status_word(series.status, series.n)
    return f"{app} {metric}: {figures}; now {ICONS[series.status]} {now}"


def render_digest(digest: Digest, width: int = 78) -> str:
    """Return a digest as plain text in lines of at most *width* characters, where words allow."""
    lines = [*_folded(digest_verdict(digest), width)]
    lines += _folded(f"{digest_title(digest)}, {digest_span(digest)}", width)
    for section in digest_sections(digest):
        lines += ["", section.title]
        lines += [part for line in section.lines for part in _folded(line, width, indent="  ")]
    return "\n".join(lines) + "\n"


def _folded(line: str, width: int, indent: str = "") -> list[str]:
    more = f"{indent}  "
    return wrap(
        line, max(20, width), initial_indent=indent, subsequent_indent=more, break_on_hyphens=False
    )


def _digest_time(at: datetime, digest: Digest) -> str:
    """Return a time in the digest's zone; that of a week has its weekday."""
    form = "%a %d %b %H:%M" if digest.window_s > _DAY_S * 1.5 else "%d %b %H:%M"
    return f"{at.astimezone(ZoneInfo(digest.zone)):{form}}"


# The engine.


def markdown_text(text: str) -> str:
    """Return a stranger's text on one line, so that Markdown shows it as it is."""
    return plain_text(text, _MOST_CHARS).translate(_MARKDOWN)


def _fill(template: str, **values: object) -> str:
    return _engine(markdown=template.endswith(".md.j2")).get_template(template).render(values)


@cache
def _engine(*, markdown: bool) -> Environment:
    """Return the template engine; every text that a template writes is made plain first."""

    def finalize(value: object) -> object:
        if not isinstance(value, str) or value == "\n":
            return value
        return markdown_text(value) if markdown else plain_text(value, _MOST_CHARS)

    engine = template_engine("monitor.report", html=False, finalize=finalize)
    engine.globals.update(
        public_functions(formats, words, sys.modules[__name__]),
        ICONS=ICONS, WORDS=WORDS, BLAMED=BLAMED,
    )  # fmt: skip
    engine.filters.update(name=lambda text: plain_text(text, _NAME_CHARS), shell=shlex.quote)
    return engine


def template_engine(package: str, *, html: bool, **options: Any) -> Environment:
    """Return an engine for the templates of *package*; a missing name is an error."""
    return Environment(
        loader=PackageLoader(package), autoescape=html,  # noqa: S701  # text escapes in its own way
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, **options,
    )  # fmt: skip
