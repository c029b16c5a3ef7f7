"""Durations as people write them, and warnings that may quote anything."""

import pytest
import typer

from monitor.cli.console import parse_duration_s, warn


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("15m", 900),
        ("24h", 86_400),
        ("7d", 604_800),
        ("2w", 1_209_600),
        (" 1 H ", 3600),
    ],
)
def test_duration_is_read_when_it_has_a_unit(text, seconds):
    assert parse_duration_s(text) == seconds


@pytest.mark.parametrize("text", ["", "24", "h", "0s", "-1h", "1.5h", "1h30m", "yesterday", "١h x"])
def test_invalid_duration_is_refused_with_an_example(text):
    with pytest.raises(typer.BadParameter, match="expected 90s, 15m, 24h or 7d"):
        parse_duration_s(text)


def test_duration_longer_than_ten_years_is_refused():
    with pytest.raises(typer.BadParameter, match="longer than ten years"):
        parse_duration_s("99999999999d")


def test_warning_that_quotes_markup_is_one_plain_line(capsys):
    warn("[/red] [bold]x\x1b[31m\n" + "y" * 200)

    assert capsys.readouterr().err == "[/red] [bold]x[31m " + "y" * 200 + "\n"
