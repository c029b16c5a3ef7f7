"""The report in a terminal: it fits, and nothing in it does harm."""

import re
from datetime import UTC, datetime
from io import StringIO

import pytest
from rich.cells import cell_len
from rich.console import Console

from monitor.models import Status
from monitor.report.text import render_report, render_status
from monitor.report.words import ICONS, WORDS
from monitor.testing import make_verdict
from support.reports import app_of, report_of

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)

BOTH = pytest.mark.parametrize("render", [render_status, render_report])
WIDTHS = pytest.mark.parametrize("width", [60, 80, 120])
OWN_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def printed(renderable, width, *, colour=False):
    out = StringIO()
    console = Console(
        file=out,
        width=width,
        force_terminal=colour,
        no_color=not colour,
        color_system="truecolor" if colour else None,
        highlight=False,
        legacy_windows=False,
    )
    console.print(renderable)
    return out.getvalue()


def test_names_are_not_cut_in_a_narrow_table():
    verdict = make_verdict(Status.CRITICAL, NOW, app="shop-bot", n=0, pass_rate=None)
    found = report_of([app_of("shop-bot", NOW, [verdict])], NOW)
    for width in (60, 80):
        said = printed(render_status(found), width)
        assert "groundedness" in said
        assert "CRITICAL (no new scores)" in said


def test_missing_reference_is_shown_as_a_dash():
    verdict = make_verdict(Status.HEALTHY, NOW, app="shop-bot", drift=None)
    said = printed(render_status(report_of([app_of("shop-bot", NOW, [verdict])], NOW)), 120)
    (row,) = (line for line in said.splitlines() if line.startswith("shop-bot  "))
    assert row.rstrip().endswith("–")


def test_status_gives_start_and_reason_once_for_each_unhealthy_metric():
    alarm = {"since": NOW, "reason": "pass rate is below 70 %", "point_status": Status.CRITICAL}
    verdicts = [
        make_verdict(Status.CRITICAL, NOW, app="shop", metric="groundedness", **alarm),
        make_verdict(Status.CRITICAL, NOW, app="shop", metric="relevance", **alarm),
        make_verdict(Status.BLIND, NOW, app="shop", metric="toxicity", reason="the judge is away"),
    ]
    found = report_of([app_of("shop", NOW, verdicts)], NOW)
    lines = [line.rstrip() for line in printed(render_status(found), 120).splitlines()]
    assert "shop groundedness, relevance since 12:00:00 UTC: pass rate is below 70 %" in lines
    assert "shop toxicity: the judge is away" in lines


@BOTH
@WIDTHS
@pytest.mark.parametrize("colour", [False, True])
def test_no_report_line_is_longer_than_the_terminal(full_report, render, width, colour):
    lines = OWN_COLOURS.sub("", printed(render(full_report), width, colour=colour)).splitlines()

    assert max(cell_len(line) for line in lines) <= width


@BOTH
@WIDTHS
def test_report_without_colour_prints_no_control_characters(full_report, render, width):
    text = printed(render(full_report), width)

    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "[/red]" in text


@BOTH
def test_report_in_colour_prints_only_our_colour_codes(full_report, render):
    text = printed(render(full_report), 120, colour=True)

    assert "\x1b" in text
    assert "\x1b" not in OWN_COLOURS.sub("", text)
    assert "[31m" in OWN_COLOURS.sub("", text)


@BOTH
def test_status_is_a_word_when_there_is_no_colour(full_report, render):
    text = printed(render(full_report), 120)

    for app in full_report.apps:
        assert f"{ICONS[app.status]} {WORDS[app.status]}" in text


@WIDTHS
def test_status_and_rate_stay_whole_when_the_terminal_is_narrow(full_report, width):
    text = printed(render_status(full_report), width)

    assert "▲ warning" in text
    assert "80.0 % (74.0–86.0)" in text


@BOTH
def test_report_without_apps_is_one_sentence(empty_report, render):
    assert "No app has sent anything yet." in printed(render(empty_report), 80)


def test_drawn_report_has_every_part(full_report):
    text = " ".join(printed(render_report(full_report), 200).split())

    for part in (
        "pass rate, last 2 h",
        "reference: 90.0 % (n 9",
        "0.10 [/red]",
        "Status changes",
        "critical open for 2 h",
        "critical resolved after 1 h 30 min",
        "seen 9 = sampled 3 + not sampled 6",
        "sampled 3 = dropped 0 + queued 0 + scored 2 + failed 0 + skipped 1 (no_context 1)",
        "1,234,567",
        "$3.25",
        "2 metrics together: $6.50",
    ):
        assert part in text
