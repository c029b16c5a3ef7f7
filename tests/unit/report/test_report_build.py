"""Values to a report: what comes first, what adds up, and the exit code."""

import json
from datetime import UTC, datetime, timedelta
from html import unescape
from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from monitor.models import Status
from monitor.models.insight import ComponentChange, Deploy
from monitor.report.build import (
    exit_code,
    likely_causes,
    make_ledger,
    rate_points,
    recent_counts,
    with_named_release,
)
from monitor.report.model import Ledger, RatePoint, Report, worst_status
from monitor.report.render import render_markdown
from monitor.report.text import render_report, render_status
from monitor.testing import make_verdict
from monitor.web.charts import ChartThresholds
from monitor.web.templating import render_html
from support.reports import app_of, point_of, report_of

NOW = datetime(2026, 3, 1, 12, 0, 30, tzinfo=UTC)
H, W, C, I, B = Status  # noqa: E741

KINDS = ["seen", "sampled", "dropped", "scored", "failed", "skipped"]
counts = st.dictionaries(
    st.tuples(st.sampled_from(KINDS), st.sampled_from(["", "no_context", "buffer_full"])),
    st.integers(0, 10**9),
)


def facts(app, **statuses):
    verdicts = [make_verdict(status, NOW, app=app, metric=m) for m, status in statuses.items()]
    return app_of(app, NOW, verdicts)


def report(*items, **options):
    return report_of(items, NOW, **options)


@given(counts)
def test_ledger_sums_hold_with_lagging_counters(found):
    ledger = make_ledger(found)

    ended = ledger.scored + sum(
        sum(part.values()) for part in (ledger.dropped, ledger.failed, ledger.skipped)
    )
    assert ledger.seen == ledger.sampled + ledger.not_sampled
    assert ledger.sampled == ended + ledger.queued
    assert min(ledger.not_sampled, ledger.queued) >= 0


@given(counts)
def test_ledger_keeps_every_ended_sample_by_reason(found):
    ledger = make_ledger(found)

    for kind in ("dropped", "failed", "skipped"):
        wanted = {reason: n for (name, reason), n in found.items() if name == kind and n}
        assert getattr(ledger, kind) == wanted
    assert ledger.scored == sum(n for (name, _), n in found.items() if name == "scored")


def test_remaining_samples_count_as_queued():
    ledger = make_ledger({("seen", ""): 100, ("sampled", ""): 10, ("scored", ""): 7})

    assert (ledger.not_sampled, ledger.queued, ledger.scored) == (90, 3, 7)


def test_hook_counters_are_raised_to_what_workers_finished():
    ledger = make_ledger({("seen", ""): 4, ("sampled", ""): 4, ("scored", ""): 9})

    assert (ledger.seen, ledger.sampled, ledger.queued) == (9, 9, 0)


def silent(**overrides):
    """Make the verdicts of a stream that is critical, and fell silent an hour ago or more."""
    return [
        make_verdict(
            C, NOW, window_s=window_s, n=n, pass_rate=rate, low=rate, high=rate,
            since=NOW - timedelta(hours=3), **overrides,
        )
        for window_s, n, rate in ((300, 0, None), (3600, 0, None), (86_400, 90, 0.4))
    ]  # fmt: skip


def test_empty_window_has_no_status_and_names_the_held_one():
    item = app_of("a", NOW, silent())

    metric = report(item).apps[0].metrics[0]

    assert [v.status for v in metric.windows] == [I, C, C]
    assert metric.windows[0].reason == (
        "no scores in this window; CRITICAL since 09:00:30 UTC, by the scores before it"
    )
    assert metric.verdict.status is C


def test_held_status_is_marked_as_held_in_every_format():
    found = report(app_of("a", NOW, silent(app="a")))

    text = StringIO()
    Console(file=text, width=120).print(render_status(found), render_report(found))
    told = [
        text.getvalue(),
        render_markdown(found),
        render_html(found, ChartThresholds(warning=0.85, critical=0.7)),
    ]
    assert [one.count("CRITICAL (no new scores)") >= 1 for one in told] == [True] * 3
    # A status is that of the stream: no other window repeats it.
    assert not any("CRITICAL " in one.replace("CRITICAL (no new scores)", "") for one in told[:2])


def test_every_format_lists_each_reason_for_a_missing_score():
    given = {"failed": {"judge_unavailable": 1234}, "skipped": {"no_query": 2, "x": 1}}
    found = report(app_of("a", NOW, [make_verdict(H, NOW, metric="m")], by_metric={"m": given}))

    text = StringIO()
    Console(file=text, width=120).print(render_report(found))
    said = "last 1 h: failed 1,234 (judge_unavailable 1,234), skipped 3 (no_query 2, x 1)"
    assert said in text.getvalue()
    assert said in render_markdown(found).replace("\\", "")
    assert said in render_html(found, ChartThresholds(warning=0.85, critical=0.7))
    metric = json.loads(found.model_dump_json())["apps"][0]["metrics"][0]
    assert (metric["failed"], metric["skipped"]) == (given["failed"], given["skipped"])


def test_every_format_shows_explanations_and_drift(full_report):
    text = StringIO()
    Console(file=text, width=500).print(render_report(full_report))
    told = [
        " ".join(text.getvalue().split()),
        render_markdown(full_report).replace("\\", ""),
        unescape(render_html(full_report, ChartThresholds(warning=0.85, critical=0.7))),
    ]
    for said in (
        "pass rate 90.0 % to 85.0 % since",
        "trend of the day: declining",
        "(n 90, not by chance)",
        "2 metrics together: $6.50",
        "eference: 90.0 % (n 9)",
    ):
        assert [said in one for one in told] == [True] * 3, said


def test_worst_app_and_metric_come_first():
    found = report(
        facts("healthy", a=H),
        facts("unknown", a=I),
        facts("blind", a=B),
        facts("zebra", a=H, b=C, c=W),
        facts("warned", a=W),
        facts("aardvark", a=C),
    )

    assert [app.app for app in found.apps] == [
        "aardvark", "zebra", "warned", "blind", "unknown", "healthy"
    ]  # fmt: skip
    assert [metric.metric for metric in found.apps[1].metrics] == ["b", "c", "a"]
    assert found.status is C


def test_all_windows_are_listed_in_order():
    verdicts = [make_verdict(H, NOW, window_s=w) for w in (86_400, 300, 3600)]
    found = report(app_of("a", NOW, verdicts))

    (metric,) = found.apps[0].metrics
    assert metric.verdict.window_s == 3600
    assert [verdict.window_s for verdict in metric.windows] == [300, 3600, 86_400]


def test_app_is_shown_without_data_when_nothing_was_scored_yet():
    found = report(app_of("new", NOW, ledger=Ledger(seen=3, not_sampled=3)))

    assert found.apps[0].status is I


def test_series_has_gaps_when_steps_have_no_scores():
    step_s = 600
    last = int(NOW.timestamp()) // step_s * step_s
    skipped = RatePoint(start=NOW - timedelta(seconds=step_s), n=0, pass_rate=None)
    scored = {last: point_of(last, 3, 4), last - step_s: skipped}
    scored[last - 9 * step_s] = point_of(last - 9 * step_s, 1, 1)
    series = rate_points(scored, now=NOW, window_s=3600, step_s=step_s)

    assert [point.pass_rate for point in series] == [None] * 5 + [0.75]
    assert series[-1].start == NOW.replace(second=0)
    assert series[-1].start - series[0].start == timedelta(seconds=5 * step_s)


def test_series_is_empty_when_nothing_was_counted():
    assert rate_points({}, now=NOW, window_s=3600, step_s=60) == []


@pytest.mark.parametrize(
    ("statuses", "code"),
    [
        ([], 3),
        ([H], 0),
        ([H, H], 0),
        ([W, H], 1),
        ([W, I, B], 1),
        ([C], 2),
        ([C, W, B, I, H], 2),
        ([I], 3),
        ([B], 3),
        ([H, I], 3),
        ([H, B], 3),
    ],
)
def test_exit_code_is_that_of_the_worst_status(statuses, code):
    assert exit_code(statuses) == code


@pytest.mark.parametrize(
    ("statuses", "worst"), [([], I), ([H, I], I), ([I, B], B), ([B, W], W), ([W, C], C)]
)
def test_unknown_ranks_worse_than_healthy(statuses, worst):
    assert worst_status(statuses) is worst


def test_report_survives_json():
    found = report(facts("a", m=C, k=H), facts("b", m=I), deliveries={"sent": 2})

    again = Report.model_validate_json(found.model_dump_json())

    assert again.model_dump_json() == found.model_dump_json()
    assert '"schema_version":1' in found.model_dump_json()
    assert '"status":"critical"' in found.model_dump_json()


@given(st.dictionaries(st.sampled_from(KINDS), st.integers(0, 50)))
def test_scored_count_never_exceeds_sampled(counts):
    """A window ends between the sampling and the scoring of some."""
    found = recent_counts(counts)
    assert found.get("scored", 0) <= found.get("sampled", 0) <= found.get("seen", 0)


def _change(component, confidence):
    return ComponentChange(component, "v2", 0.0, 1.0, -0.46, -0.51, -0.41, confidence)


def test_release_known_only_from_samples_is_a_likely_cause():
    causes = likely_causes(None, began=NOW, ended=NOW)
    assert [cause.said for cause in causes if cause.kind == "release"] == [
        "none in the hour before"
    ]

    release, *rest = with_named_release(causes, [_change("model", 0.99), _change("release", 0.96)])

    assert (release.kind, release.release, release.is_likely) == ("release", "v2", True)
    assert release.said.endswith("the fall came with it (95 % certain)")
    assert [cause.kind for cause in rest] == ["retrieval or generation"]


def test_undecided_release_is_named_when_its_samples_show_the_fall():
    deploy = Deploy(
        release="v2", at=NOW, source="mark", verdict="not decided", rate_before=1.0, n_before=2,
        rate_after=0.8, n_after=300, difference=-0.2, low=-0.26, high=0.45,
    )  # fmt: skip
    causes = likely_causes(None, began=NOW, ended=NOW, deploys=[deploy])
    (cause, *_) = with_named_release(causes, [_change("release", 0.99)])

    assert cause.said.startswith("v2 went live at ")
    assert cause.said.endswith("the fall came with it (99 % certain)")
    assert "not decided" not in cause.said


def test_release_not_blamed_by_samples_or_already_recorded_adds_no_cause():
    deploy = Deploy(release="v2", at=NOW, source="mark", verdict="worse")
    causes = likely_causes(None, began=NOW, ended=NOW, deploys=[deploy])

    assert with_named_release(causes, [_change("release", 0.99)]) == causes
    causes = likely_causes(None, began=NOW, ended=NOW)
    assert with_named_release(causes, [_change("release", 0.5)]) == causes
