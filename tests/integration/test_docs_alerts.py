"""The pages about alerts: commands run, the file is read, the lists are the program's."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from alerts.channels.declared import DeclaredChannel
from alerts.conditions import CONDITIONS
from alerts.routes_file import read_routes_file
from monitor.cli.alerts import app

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "alerts.md").read_text(encoding="utf-8")
ROUTES = (DOCS / "routes.md").read_text(encoding="utf-8")


def blocks(language, page):
    return re.findall(rf"```{language}\n(.*?)```", page, flags=re.DOTALL)


def commands():
    (block,) = blocks("sh", PAGE)
    return [line.split("#")[0].strip() for line in block.splitlines()]


@pytest.mark.parametrize("line", commands())
def test_every_command_of_the_page_runs(line, sqlite_url, monkeypatch):
    monkeypatch.setenv("GROUNDWATCH_DATABASE_URL", sqlite_url)
    program, group, *words = shlex.split(line)
    assert (program, group) == ("groundwatch", "alerts")
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output


def test_routes_file_of_the_page_is_read(tmp_path, monkeypatch):
    monkeypatch.setenv("SLACK_BOT_TOKEN", "xoxb-1")
    monkeypatch.setenv("SMTP_URL", "smtp://mail.example.org:587")
    (text,) = blocks("toml", ROUTES)
    secret = tmp_path / "pagerduty"
    secret.write_text("k" * 32)
    path = tmp_path / "alerts.toml"
    path.write_text(text.replace("/run/secrets/pagerduty", str(secret)))
    _, plan = read_routes_file(path, {}, 5.0)
    assert [route.name for route in plan.routes] == ["pages", "office hours", "route 3"]


def test_pages_name_every_condition_and_channel():
    pages = PAGE + (DOCS / "channels.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^\| `([\w:-]+)`", pages, flags=re.MULTILINE))
    kinds = {each.model_fields["type"].annotation.__args__[0]
             for each in DeclaredChannel.__origin__.__args__}  # fmt: skip
    assert set(CONDITIONS) | kinds | {"monitor:blind"} == named
