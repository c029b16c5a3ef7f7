"""A digest: what is told first, what is left out, and that nothing of it is a command."""

import unicodedata
from datetime import UTC, datetime, timedelta
from io import BytesIO

import pytest
from PIL import Image

from monitor.models import Incident, Severity, Status
from monitor.models.status import Movement
from monitor.report.build import make_ledger
from monitor.report.digest import (
    DigestFacts,
    DigestPoint,
    DigestSeries,
    Period,
    Release,
    build_digest,
)
from monitor.report.digest_chart import HEIGHT, WIDTH, draw_series
from monitor.report.model import ReportedChange
from monitor.report.render import (
    chart_label,
    digest_sections,
    digest_subject,
    digest_verdict,
    render_digest,
)
from monitor.testing import make_verdict

NOW = datetime(2026, 3, 2, 7, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
PERIOD = Period("daily-2026-03-02", NOW - timedelta(days=1), NOW)
HOSTILE = "[/red]\x1b[31m<!channel>|\n# `x` [bold]\u202e*y* $(rm) <b>&amp;"
WELL = make_ledger({("seen", ""): 900, ("sampled", ""): 90, ("scored", ""): 90})


def incident(number, minutes=None, **more):
    opened = NOW - timedelta(hours=number + 1)
    fields = {
        "incident_id": f"incident-{number}", "app": "shop", "metric": "groundedness",
        "segment": "*", "window_s": 3600,
        "level": Severity.CRITICAL, "peak_level": Severity.CRITICAL,
        "since": opened, "opened_at": opened, "updated_at": NOW, "sequence": 1,
        "resolved_at": None if minutes is None else opened + timedelta(minutes=minutes),
    }  # fmt: skip
    return Incident.model_validate(fields | more)


def moved(before, after, *, certain=True, metric="groundedness"):
    return Movement(
        app="shop", metric=metric, before=before, after=after, n_before=400, n_after=390,
        low=max(-1, after - before - 0.05), high=min(1, after - before + 0.05), p_value=0.001,
        certain=certain,
    )  # fmt: skip


def make(**facts):
    usual = {
        "verdicts": [make_verdict(Status.HEALTHY, NOW, app="shop")],
        "ledgers": {"shop": WELL},
    }
    return build_digest(
        DigestFacts(**(usual | facts)), period=PERIOD, now=NOW, zone="Europe/Stockholm",
        warning_rate=0.85, critical_rate=0.7,
    )  # fmt: skip


def section(digest, title):
    return next((s.lines for s in digest_sections(digest) if s.title == title), [])


@pytest.mark.parametrize(
    ("statuses", "subject"),
    [
        ("c w h", "groundwatch daily: 1 critical, 1 warning (of 3 apps)"),
        ("b", "groundwatch daily: 1 blind (of 1 app)"),
        ("h h i", "groundwatch daily: 2 of 3 apps healthy, none needs attention"),
    ],
)
def test_subject_counts_the_apps_that_need_attention(statuses, subject):
    kinds = {status.value[0]: status for status in Status}
    found = {f"app-{n}": kinds[letter] for n, letter in enumerate(statuses.split())}
    assert digest_subject(make().model_copy(update={"statuses": found})) == subject


def test_quiet_day_says_nothing_to_do():
    digest = make(movements=[moved(0.9, 0.91, certain=False)])
    assert digest_verdict(digest) == "shop is healthy. Nothing to do."
    assert section(digest, "To do") == []
    assert section(digest, "Movers") == [
        "none of 1 compared with the period before moved beyond chance"
    ]


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"verdicts": [make_verdict(Status.CRITICAL, NOW, app="shop")]}, "report --app shop"),
        ({"verdicts": [make_verdict(Status.BLIND, NOW, app="shop")]}, "shop is blind"),
        ({"incidents": [incident(1)]}, "has been critical for 2 h: groundwatch alerts show"),
        ({"dead_letters": 2}, "2 alert messages could not be delivered"),
        (
            {"ledgers": {"shop": make_ledger({("sampled", ""): 9, ("failed", "x"): 9})}},
            "only 0.0 % of the samples were evaluated",
        ),
    ],
)
def test_digest_lists_each_to_do_with_its_command(facts, said):
    digest = make(**facts)
    assert not digest.nothing_to_do
    assert "Nothing to do" not in digest_verdict(digest)
    assert any(said in line for line in section(digest, "To do"))


def test_digest_asks_for_action_on_a_fall_and_not_on_a_rise():
    assert not make(movements=[moved(0.9, 0.6)]).nothing_to_do
    assert make(movements=[moved(0.6, 0.9)]).nothing_to_do


def test_falls_precede_rises_with_interval_sizes_and_number_compared():
    digest = make(
        movements=[
            moved(0.5, 0.9, metric="relevance"), moved(0.9, 0.6), moved(0.9, 0.88, certain=False)
        ]
    )  # fmt: skip
    fall, rise, note = section(digest, "Movers")
    assert fall == (
        "▼ shop groundedness down 90.0 % to 60.0 %, −30.0 pts (−35.0 to −25.0), n 400 and 390"
    )
    assert rise.startswith("▲ shop relevance up")
    assert note.startswith("2 of 3 compared")


def test_digest_lists_open_incidents_first_and_no_drills():
    found = [incident(3, 40), incident(2), incident(1, 5, incident_id="drill-1")]
    lines = section(make(incidents=found), "Incidents")
    assert lines == [
        (
            "shop groundedness: critical from 02 Mar 05:00, still open after 3 h:"
            " groundwatch alerts show incident"
        ),
        "shop groundedness: critical from 02 Mar 04:00, ended after 40 min",
    ]


def test_many_incidents_are_counted_and_the_noisy_key_is_named():
    digest = make(
        incidents=[incident(n, 5 if n % 2 else 30) for n in range(1, 21)],
        messages={"incident-1": 4, "incident-2": 3, "other": 1},
    )
    assert section(digest, "Incidents")[-1] == "and 12 more incidents: groundwatch alerts ls"
    assert section(digest, "Noisiest") == [
        "shop groundedness: 20 incidents, 10 ended within 10 min, 7 messages"
    ]


def test_digest_shows_status_from_start_to_end_of_the_period():
    after = [Status.CRITICAL, Status.WARNING, Status.HEALTHY]
    before = [Status.HEALTHY, Status.CRITICAL, Status.WARNING]
    changes = [
        ReportedChange(
            at=NOW - timedelta(hours=3 - n), metric="m", before=b, after=a, pass_rate=None, n=0,
            reason="",
        )
        for n, (b, a) in enumerate(zip(before, after, strict=True))
    ]  # fmt: skip
    assert section(make(changes={"shop": changes}), "What changed") == [
        "shop m changed and is ● healthy again since 02 Mar 07:00, 3 changes"
    ]


def test_metric_without_a_previous_status_is_new():
    change = ReportedChange(
        at=NOW - HOUR, metric="m", before=None, after=Status.WARNING, pass_rate=0.8, n=9, reason=""
    )
    (line,) = section(make(changes={"shop": [change]}, new_series=[("shop", "m")]), "What changed")
    assert line == "shop m is new: ▲ warning since 02 Mar 07:00"


def test_held_status_is_marked_as_held_beside_its_trend():
    held = DigestSeries(
        app="shop", metric="m", status=Status.CRITICAL, rate=None, low=None, high=None, n=0,
        points=[],
    )  # fmt: skip
    assert chart_label(held) == "shop m: no scores; now ■ CRITICAL (no new scores)"


def test_unverified_rate_is_labelled_in_the_digest():
    unsure = course("shop", "m", Status.HEALTHY, [], 240)
    unsure = unsure.model_copy(update={"level_verified": False})
    assert "80.0 % (70.0–90.0), level not verified, n 240; now" in chart_label(unsure)


def test_cost_is_shown_beside_the_previous_periods():
    assert section(make(cost_usd=1.5, cost_before_usd=20), "Cost") == [
        "LLM judge $1.50, $20.00 in the period before"
    ]


def course_facts(points):
    return [course("shop", "groundedness", Status.HEALTHY, points, 240)]


def course(app, metric, status, points, n):
    return DigestSeries(
        app=app, metric=metric, status=status, rate=0.8, low=0.7, high=0.9, n=n, points=points
    )


@pytest.fixture
def hostile():
    point = DigestPoint(rate=0.8, low=0.7, high=0.9)
    verdict = make_verdict(Status.CRITICAL, NOW, app=HOSTILE, metric=HOSTILE)
    return make(
        verdicts=[verdict],
        ledgers={HOSTILE: WELL},
        incidents=[incident(1, app=HOSTILE, metric=HOSTILE), incident(2, 3, app=HOSTILE)],
        movements=[moved(0.9, 0.5).model_copy(update={"app": HOSTILE, "metric": HOSTILE})],
        releases=[Release(app=HOSTILE, release=HOSTILE, at=NOW)],
        new_series=[(HOSTILE, HOSTILE)],
        courses=[course(HOSTILE, HOSTILE, Status.CRITICAL, [point, DigestPoint()], 24)],
    )


def test_samples_skipped_for_budget_are_not_counted_as_evaluated():
    skipped = {("skipped", "budget_reached"): 60, ("skipped", "no_contexts"): 10}
    ledger = make_ledger({("sampled", ""): 100, ("scored", ""): 30, **skipped})
    (coverage,) = make(ledgers={"shop": ledger}).coverage
    assert (coverage.skipped, coverage.share) == (70, 0.4)


def test_hostile_names_print_no_control_character(hostile):
    text = render_digest(hostile)
    wild = {c for c in text if unicodedata.category(c) in {"Cc", "Cf"}} - {"\n"}
    assert wild == set()
    assert "groundwatch report --app '[/red]" in text  # quoted: `$(rm)` runs nothing


@pytest.mark.parametrize("width", [40, 80, 200])
def test_digest_lines_fit_the_width(hostile, width):
    assert max(map(len, render_digest(hostile, width).splitlines())) <= width


def test_digest_reads_back_from_its_json(hostile):
    assert type(hostile).model_validate_json(hostile.model_dump_json()) == hostile


def picture(points):
    digest = make(courses=course_facts(points))
    image = Image.open(BytesIO(draw_series(digest.courses[0], digest)))
    return image.convert("RGB")


def columns_with_line(image):
    """Tell in which columns the line is, by its colour."""
    green = (26, 127, 55)
    return [
        x
        for x in range(image.width)
        if any(
            sum(abs(a - b) for a, b in zip(image.getpixel((x, y)), green, strict=True)) < 60
            for y in range(image.height)
        )
    ]


def test_digest_chart_shows_gaps():
    point = DigestPoint(rate=0.9, low=0.85, high=0.95)
    image = picture([point] * 4 + [DigestPoint()] * 4 + [point] * 4)
    assert image.size == (2 * WIDTH, 2 * HEIGHT)
    drawn = columns_with_line(image)
    middle = image.width * 0.54
    assert any(x < middle - 200 for x in drawn)
    assert any(x > middle + 200 for x in drawn)
    assert not [x for x in drawn if abs(x - middle) < 100]


def test_fall_is_drawn_lower_on_the_chart():
    high, low = (DigestPoint(rate=r, low=r, high=r) for r in (0.99, 0.72))
    image = picture([high, high, low, low])
    at = {
        x: [y for y in range(image.height) if image.getpixel((x, y))[0] < 90]
        for x in (300, 900)
    }  # fmt: skip
    assert max(at[300]) < min(at[900])
