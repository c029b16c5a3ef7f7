"""Runs and gates for people and build servers: Markdown, HTML and JUnit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree as ET

from jinja2 import Environment

from monitor.errors import SettingsError
from monitor.format import count, duration, number, percent, plain_text, score, usd, utc_time
from monitor.report.render import markdown_text, template_engine
from monitor.testsets.cases import write_whole
from monitor.testsets.gate import GateOutcome, GateReport
from monitor.testsets.runs import CaseResult, EvaluationRun

ENDINGS = (".md", ".html", ".xml")
_CELL_CHARS = 300
_ICONS: Mapping[GateOutcome, str] = {
    GateOutcome.PASS: "✓",
    GateOutcome.FAIL: "✗",
    GateOutcome.NOT_DECIDED: "?",
}


class ReportTable(NamedTuple):
    """A table of a page; a hundred rows are shown, and the others counted."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


class ReportPage(NamedTuple):
    """What a report says, in whatever form it is written; ``kind`` is pass, fail, open or ''."""

    title: str
    lines: Sequence[str]
    tables: Sequence[ReportTable]
    outcome: str = ""
    kind: str = ""


def write_report(path: Path, subject: EvaluationRun | GateReport) -> None:
    """
    Write a report of a run or a gate, by the ending of *path*: .md, .html or .xml (JUnit).

    Raise SettingsError if the ending is another one.
    """
    page = run_page(subject) if isinstance(subject, EvaluationRun) else gate_page(subject)
    if path.suffix == ".md":
        text = as_markdown(page)
    elif path.suffix == ".html":
        text = as_html(page)
    elif path.suffix == ".xml":
        text = run_junit(subject) if isinstance(subject, EvaluationRun) else gate_junit(subject)
    else:
        raise SettingsError(
            f"Invalid report '{path}': expected a name with the ending {', '.join(ENDINGS)}"
        )
    write_whole(path, text)


def as_markdown(page: ReportPage) -> str:
    """Return a page as Markdown; strangers' text is escaped."""
    return _engine(html=False).get_template("page.md.j2").render(page=page).rstrip() + "\n"


def as_html(page: ReportPage) -> str:
    """Return a page as one file of HTML that needs nothing else."""
    return _engine(html=True).get_template("page.html.j2").render(page=page)


# What is said.


def run_sentence(run: EvaluationRun) -> str:
    """Return how a run ended, in one line."""
    said = f"{run.passed:,} of {run.passed + run.failed:,} passed ({percent(run.pass_rate)})"
    if run.app_errors:
        said += f", {count(run.app_errors, 'app error')}"
    if run.unscored:
        said += f", {run.unscored:,} without a score"
    return said


def run_page(run: EvaluationRun) -> ReportPage:
    """Return what is said of a run: figures, categories, failures, errors."""
    cost = run.evaluation_performance.total_cost_usd if run.evaluation_performance else 0.0
    lines = [
        f"test set {run.dataset} {run.dataset_version}, {count(len(run.cases), 'case')}",
        f"app {run.app} {run.app_version}".rstrip(),
        f"{count(run.total_queries, 'answer')} in {duration(run.duration_s)}, judge {usd(cost)}",
        f"{utc_time(run.timestamp)}",
    ]
    figures = ("mean", "median", "5th percentile", "lowest")
    metrics = [
        (
            name, number(f["n"]),
            *(score(f.get(each)) for each in ("mean", "median", "percentile_5", "min")),
            percent(f.get("pass_rate")),
            ", ".join(f"{reason} {n}" for reason, n in f.get("not_scored", {}).items()),
        )
        for name, f in run.metrics.items()
    ]  # fmt: skip
    names = list(run.metrics)
    categories = [
        (category, number(f["count"]), *(score(f.get(name)) for name in names))
        for category, f in run.per_category.items()
    ]
    asked = [(each, _named(each), run.cases[each.case].query or "") for each in run.results]
    failures = [
        (name, query, _scores(each), _why(each), each.output or "")
        for each, name, query in asked
        if each.passed is False
    ]
    errors = [
        (name, query, f"{e.type}: {e.message}".rstrip(": "))
        for each, name, query in asked
        if (e := each.error) is not None
    ]
    columns = ("metric", "n", *figures, "pass rate", "not scored")
    tables = [ReportTable("Metrics", columns, metrics)]
    if len(categories) > 1:
        tables.append(ReportTable("Categories (means)", ("category", "n", *names), categories))
    if failures:
        shown = ("case", "question", "scores", "why", "answer")
        tables.append(ReportTable("Failures", shown, failures))
    if errors:
        tables.append(ReportTable("App errors", ("case", "question", "error"), errors))
    return ReportPage(f"Evaluation of {run.dataset}", lines, tables, run_sentence(run))


def gate_page(report: GateReport) -> ReportPage:
    """Return what is said of a gate: its checks, those that failed first, and changed cases."""
    order = (GateOutcome.FAIL, GateOutcome.NOT_DECIDED, GateOutcome.PASS)
    checks = sorted(report.checks, key=lambda each: order.index(each.outcome))
    changed = []
    for each in report.changed:
        moved = [
            f"{name} {score(before)} → {score(after)}"
            for name, (before, after) in each.scores.items()
            if before != after
        ]
        said = ", ".join(moved) + (", same answer as before" if each.same_answer else "")
        now = f"{each.now}{' (blocks)' if each.blocks else ''}"
        changed.append((each.case, now, each.query or "", said))
    columns = ("case", "now", "question", "scores")
    return ReportPage(
        title=f"Gate of {report.dataset}, {count(report.cases, 'case')}",
        lines=[f"{_ICONS[each.outcome]} {each.says}" for each in checks],
        tables=[ReportTable("Changed cases", columns, changed)] if changed else [],
        outcome=f"{_ICONS[report.outcome]} {report.outcome.value}",
        kind={GateOutcome.NOT_DECIDED: "open"}.get(report.outcome, report.outcome.value),
    )


# JUnit, as build servers read it.


def run_junit(run: EvaluationRun) -> str:
    """Return a run as JUnit: a test a call of the app; unscored ones are skipped."""
    suite = ET.Element("testsuite", name=_xml(run.dataset), time=f"{run.duration_s:.3f}")
    for each in run.results:
        took_s = (each.duration_ms or 0.0) / 1000
        name = run.cases[each.case].category or "uncategorized"
        test = ET.SubElement(
            suite, "testcase", classname=_xml(name), name=_xml(_named(each)), time=f"{took_s:.3f}"
        )
        if each.error is not None:
            found = ET.SubElement(test, "error", type=_xml(each.error.type))
            found.set("message", _xml(each.error.message))
        elif each.passed is False:
            found = ET.SubElement(test, "failure", message=_xml(_scores(each)))
            found.text = _xml(_why(each))
        elif each.passed is None:
            reasons = dict.fromkeys(f"{e.evaluator_name}: {e.reason}" for e in each.evaluations)
            ET.SubElement(test, "skipped", message=_xml(", ".join(reasons)))
    return _suites(suite)


def gate_junit(report: GateReport) -> str:
    """Return a gate as JUnit: a test a check; what is not decided is skipped."""
    suite = ET.Element("testsuite", name=_xml(f"gate of {report.dataset}"))
    for each in report.checks:
        name = " ".join(part for part in (each.name, each.metric) if part)
        test = ET.SubElement(suite, "testcase", classname="gate", name=_xml(name))
        if each.outcome is not GateOutcome.PASS:
            kind = "failure" if each.outcome is GateOutcome.FAIL else "skipped"
            ET.SubElement(test, kind, message=_xml(each.says))
    return _suites(suite)


def _suites(suite: ET.Element) -> str:
    for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(name, str(len(suite.findall(f"testcase/{tag}"))))
    suite.set("tests", str(len(suite)))
    root = ET.Element("testsuites")
    root.append(suite)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _xml(text: str) -> str:
    """Return text without what XML cannot hold."""
    return plain_text(text, _CELL_CHARS)


def _named(result: CaseResult) -> str:
    parts = [result.case, result.model, f"#{result.repeat}" if result.repeat > 1 else None]
    return " ".join(part for part in parts if part)


def _why(result: CaseResult) -> str:
    """Return what evaluators said of an answer."""
    return " ".join(each.explanation for each in result.evaluations if each.explanation)


def _scores(result: CaseResult) -> str:
    return ", ".join(f"{name} {score(s)}" for name, s in result.dimension_scores.items())


@cache
def _engine(*, html: bool) -> Environment:
    engine = template_engine("monitor.testsets", html=html)
    engine.filters["text"] = markdown_text
    engine.filters["cell"] = lambda text: plain_text(text, _CELL_CHARS)
    return engine
