"""``groundwatch up`` names everyone whom alerts may go to."""

import pytest

from monitor.cli.processes import alert_recipients
from monitor.settings import Settings

ROUTES = """
[channels.pager]
type = "webhook"
url = "env:PAGER_URL"

[channels.screen]
type = "console"

[[routes]]
channels = ["pager", "screen"]
"""


@pytest.fixture(autouse=True)
def _secrets(monkeypatch):
    monkeypatch.setenv("PAGER_URL", "https://example.org/hook")


def test_channels_of_the_routes_file_are_named(tmp_path):
    file = tmp_path / "alerts.toml"
    file.write_text(ROUTES)
    assert alert_recipients(Settings(alerts_file=file)) == f"pager, screen (of {file})"


def test_default_settings_notify_nobody():
    assert alert_recipients(Settings()).startswith("nobody yet")


def test_settings_and_routes_file_are_named_together(tmp_path):
    file = tmp_path / "alerts.toml"
    file.write_text(ROUTES)
    settings = Settings(alerts_file=file, slack_webhook_url="https://hooks.slack.com/services/x")
    assert alert_recipients(settings).startswith("Slack and pager, screen")
