"""Tables that fit: columns where there is room, else a paragraph a row; nothing is ever cut."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from monitor.report.listing import Listing, SparklineRow, fewer
from monitor.report.model import RatePoint

START = datetime(2026, 11, 20, tzinfo=UTC)
CELLS = st.text("abcdefgh", min_size=1, max_size=40)


def drawn(renderable, width):
    console = Console(width=width, color_system=None)
    with console.capture() as captured:
        console.print(renderable)
    return captured.get()


def listing():
    made = Listing.of("id", "app", "n", right=("n",))
    made.add_row("60c5c77b", "support-bot", "4,226")
    made.add_row("6c7e664d", "shop", "12")
    return made


def points(*rates, n=10):
    return [
        RatePoint(start=START + timedelta(hours=i), n=0 if rate is None else n, pass_rate=rate)
        for i, rate in enumerate(rates)
    ]


def test_columns_are_side_by_side_on_a_wide_terminal():
    lines = [line.rstrip() for line in drawn(listing(), 40).splitlines()]
    assert lines == [
        "id        app              n",
        "60c5c77b  support-bot  4,226",
        "6c7e664d  shop            12",
    ]


def test_rows_become_paragraphs_on_a_narrow_terminal():
    lines = [line.rstrip() for line in drawn(listing(), 27).splitlines()]
    assert lines == [
        "60c5c77b", "  app support-bot  n 4,226", "6c7e664d", "  app shop  n 12",
    ]  # fmt: skip


@given(st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=1, max_size=4), st.integers(12, 120))
def test_no_cell_is_ever_cut(rows, width):
    made = Listing.of("a", "b", "c")
    for row in rows:
        made.add_row(*row)
    shown = "".join(drawn(made, width).split())
    if drawn(made, width).startswith("a "):  # columns; their folded parts lie apart
        assert all(len(cell) > 24 or cell in shown for row in rows for cell in row)
    else:
        assert all(cell in shown for row in rows for cell in row)


def test_cells_are_text_and_never_markup():
    made = Listing.of("what")
    made.add_row("[red]x[/red]")
    assert "[red]x[/red]" in drawn(made, 40)


def test_status_mark_precedes_its_row():
    made = Listing.of("", "sum", "found")
    made.add_row("✓", "sent = ended + waiting", "4,279")
    assert drawn(made, 26).startswith("✓ sent = ended + waiting")


def test_trend_is_no_wider_than_the_terminal():
    course = SparklineRow(points(*[0.5] * 96), "pass rate, last 24 h")
    assert all(len(line) <= 40 for line in drawn(course, 40).splitlines())
    assert len(drawn(course, 40).splitlines()) == 2


@given(st.lists(st.one_of(st.none(), st.floats(0, 1)), min_size=1, max_size=100),
       st.integers(1, 100))  # fmt: skip
def test_reduced_series_keeps_all_scores(rates, most):
    before = points(*rates)
    after = fewer(before, most)
    assert len(after) <= most
    assert sum(p.n for p in after) == sum(p.n for p in before)
    passed = sum(p.n * (p.pass_rate or 0) for p in before)
    assert sum(p.n * (p.pass_rate or 0) for p in after) == pytest.approx(passed)
