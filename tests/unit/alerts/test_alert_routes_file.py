"""The routes file: what it makes, and how it says all that is wrong with it, line by line."""

from datetime import UTC, datetime

import pytest

from alerts.dispatch import wiring_from
from monitor.errors import SettingsError
from monitor.settings import Settings

NOW = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
GOOD = """
[defaults]
timezone = "Europe/Stockholm"
group_wait = "60s"

[labels."support-*"]
team = "search"

[channels.team]
type = "slack"
url = "env:TEAM_SLACK_URL"

[channels.pager]
type = "pagerduty"
routing_key = { env = "PAGER_KEY" }

[channels.mail]
type = "email"
url = { env = "MAIL_URL" }
from = "monitor@example.org"
to = ["ann@example.org", "bob@example.org"]

[[routes]]
name = "pages"
match = ["severity=critical", "team=search"]
channels = ["pager", "team"]
fallback = "mail"

[[routes]]
match = "kind=monitor"
channels = "mail"
active_hours = { from = "08:00", to = "18:00", days = "mon-fri" }

[[routes]]
channels = ["team"]
fallback = "mail"

[[maintenance]]
name = "reindex"
match = ["app=support-bot"]
from = "02:00"
to = "04:00"
days = ["sun"]
"""


@pytest.fixture
def wire(tmp_path, monkeypatch):
    monkeypatch.setenv("TEAM_SLACK_URL", "https://hooks.slack.example/T0")
    monkeypatch.setenv("PAGER_KEY", "k" * 32)
    monkeypatch.setenv("MAIL_URL", "smtp://mail.example.org:587")

    def make(text, **settings):
        path = tmp_path / "alerts.toml"
        path.write_text(text, encoding="utf-8")
        return wiring_from(Settings(alerts_file=path, **settings))

    return make


def test_valid_routes_file_defines_channels_routes_and_maintenance(wire):
    channels, plan = wire(GOOD)
    assert list(channels) == ["team", "pager", "mail"]
    assert plan.addresses["mail"] == ("ann@example.org", "bob@example.org")
    assert plan.group_wait_s == 60
    assert [route.name for route in plan.routes] == ["pages", "route 2", "route 3"]
    (window,) = plan.maintenance
    assert str(window.hours) == "sun 02:00-04:00 Europe/Stockholm"


def test_app_labels_select_routes(wire):
    plan = wire(GOOD).plan
    labels = {"app": "support-bot", "severity": "critical", **plan.labels_of_app("support-bot")}
    places = [(to.channel, fallback) for to, fallback in plan.recipients(labels, NOW).items()]
    assert places == [("pager", "mail"), ("team", "mail")]


def test_routes_can_use_channels_from_the_settings(wire):
    channels, plan = wire(
        '[[routes]]\nchannels = "slack"\n', slack_webhook_url="https://hooks.slack.example/T1"
    )
    assert list(channels) == ["slack"]
    assert plan.addresses == {"slack": ("",)}


@pytest.mark.parametrize(
    ("given", "seconds"), [('"1.5m"', 90), ('"0s"', 0), ('"0.5 h"', 1800), ("45", 45)]
)
def test_duration_is_text_with_a_unit_or_a_number_of_seconds(wire, given, seconds):
    assert wire(GOOD.replace('"60s"', given))[1].group_wait_s == seconds


def test_without_a_routes_file_every_channel_gets_everything():
    plan = wiring_from(Settings(slack_webhook_url="https://hooks.slack.example/T1")).plan
    assert [to.channel for to in plan.recipients({}, NOW)] == ["slack"]


def test_all_mistakes_are_reported_at_once_with_line_numbers(wire):
    broken = (
        GOOD.replace('channels = ["team"]\nfallback', 'channels = ["taem"]\nfallback')
        .replace('"env:TEAM_SLACK_URL"', '"https://hooks.slack.example/secret"')
        .replace('"60s"', '"soon"')
        .replace('days = "mon-fri"', 'days = "mon-fri", colour = "red"')
    )
    with pytest.raises(SettingsError) as caught:
        wire(broken)
    lines = str(caught.value).splitlines()
    assert [line.split(": ")[0] for line in lines] == [
        "alerts.toml:4", "alerts.toml:11", "alerts.toml:32"
    ]  # fmt: skip
    assert "expected 90s, 15m, 24h or 7d" in lines[0]
    assert "is a secret" in lines[1]
    assert "hooks.slack.example" not in str(caught.value)
    assert "colour" in lines[2]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('channels = ["team"]\nfallback', 'channels = ["taem"]\nfallback',
         ":35: routes[3].channels: there is no channel 'taem'; did you mean 'team'?"),
        ('fallback = "mail"\n\n[[routes]]\nmatch', 'fallback = "post"\n\n[[routes]]\nmatch',
         ":27: routes[1].fallback: there is no channel 'post'"),
        ('"team=search"', '"taem=search"', ":25: routes[1].match: no alert has a label 'taem'"),
        ('"team=search"', '"team=~("', "Invalid pattern"),
        ("Europe/Stockholm", "Europe/Atlantis", "Invalid time zone"),
        ('from = "02:00"', 'from = "2"', "Invalid time of day"),
        ("PAGER_KEY", "PAGER_KEYS", "the environment variable PAGER_KEYS is not set"),
        ('{ env = "PAGER_KEY" }', '"file:/nowhere"', "the file /nowhere cannot be read"),
        ('type = "slack"', 'type = "slak"', ":9: channels.team"),
        ("[[maintenance]]", "[[maintenance]", "this is not TOML"),
        ("[[maintenance]]", "k = " + "9" * 5_000, "this is not TOML"),
        ("[[maintenance]]", "k = " + "[" * 5_000, "this is not TOML"),
    ],
)  # fmt: skip
def test_mistake_is_reported_with_what_to_do(wire, old, new, message):
    assert old in GOOD
    with pytest.raises(SettingsError) as caught:
        wire(GOOD.replace(old, new))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "last",
    [
        'match = "app=x"\nchannels = "team"',
        'min_severity = "critical"\nchannels = "team"',
        'active_hours = { from = "08:00", to = "18:00" }\nchannels = "team"',
    ],
)
def test_routes_file_without_a_catch_all_route_is_refused(wire, last):
    with pytest.raises(SettingsError, match="the last route must take everything"):
        wire(GOOD + "\n[[routes]]\n" + last)


def test_channel_from_the_settings_cannot_be_declared_again(wire):
    url = "https://hooks.slack.example/T1"
    with pytest.raises(SettingsError, match="already"):
        wire(GOOD.replace("[channels.team]", "[channels.slack]").replace('"team"', '"slack"'),
             slack_webhook_url=url)  # fmt: skip


def test_missing_routes_file_is_reported(tmp_path):
    with pytest.raises(SettingsError, match="GROUNDWATCH_ALERTS_FILE: cannot read"):
        wiring_from(Settings(alerts_file=tmp_path / "none.toml"))
