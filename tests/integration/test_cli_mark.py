"""``groundwatch mark``: told, listed, and refused where it makes no sense."""

from datetime import UTC, datetime, timedelta

import pytest
from typer.testing import CliRunner

from monitor.cli.app import app
from monitor.models import Status
from monitor.store.engine import Store
from monitor.store.verdicts import read_release_marks, save_verdicts
from monitor.testing import make_verdict


@pytest.fixture
def run(sqlite_url, monkeypatch):
    monkeypatch.setenv("GROUNDWATCH_DATABASE_URL", sqlite_url)
    return lambda *words: CliRunner().invoke(app, ["mark", *words])


def marks(sqlite_url):
    store = Store(sqlite_url)
    with store.read() as connection:
        found = read_release_marks(connection)
    store.close()
    return found


def test_deploy_is_recorded_now_and_listed(run, sqlite_url):
    assert run("bot", "--release", "v12", "--note", "bigger model").exit_code == 0
    (mark,) = marks(sqlite_url)
    assert (mark.app, mark.release, mark.note) == ("bot", "v12", "bigger model")
    assert datetime.now(UTC) - mark.at < timedelta(minutes=1)


def test_deploy_of_an_unknown_app_is_recorded_with_a_hint(run, sqlite_url):
    found = run("nope", "--release", "v1")
    assert found.exit_code == 0
    assert "nothing of nope has been scored yet" in found.stdout
    assert len(marks(sqlite_url)) == 1


def test_deploy_of_a_known_app_is_recorded_without_a_hint(run, sqlite_url):
    run("bot", "--release", "v1")
    store = Store(sqlite_url)
    with store.write() as connection:
        verdict = make_verdict(Status.HEALTHY, datetime.now(UTC), app="bot")
        save_verdicts(connection, [verdict], {})
    store.close()
    assert "judged so far" not in run("bot", "--release", "v2").stdout


def test_deploy_time_is_accepted_in_three_formats(run, sqlite_url):
    for at in ("2026-01-02T03:04", "2026-01-02T05:04+02:00", "30m"):
        assert run("bot", "--release", "v1", "--at", at).exit_code == 0
    first, second, third = (mark.at for mark in marks(sqlite_url))
    assert first == second == datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
    assert timedelta(minutes=29) < datetime.now(UTC) - third < timedelta(minutes=31)


def test_list_is_empty_at_first(run):
    assert run("--list").stdout.strip() == "no deploys are recorded"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "groundwatch deploys APP --release v12"),
        (["bot"], "groundwatch deploys APP --release v12"),
        (["bot", "--release", " "], "printable"),
        (["bot", "--release", "v1", "--at", "soon"], "Invalid time 'soon'"),
        (["bot", "--release", "v1", "--at", "2999-01-01"], "still to come"),
    ],
)
def test_mistake_is_reported_in_one_line(run, sqlite_url, words, message):
    result = run(*words)
    assert result.exit_code == 2
    assert message in " ".join(result.output.replace("│", " ").split())
    assert marks(sqlite_url) == []
