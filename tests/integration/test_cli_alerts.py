"""What an engineer on call types: lists, acknowledgement, silences, routes, drills, messages."""

import json
import os
from datetime import UTC, datetime, timedelta

import pytest
import structlog
from sqlalchemy import delete
from typer.testing import CliRunner

from alerts import queries
from alerts.decide import decide
from alerts.dispatch import Dispatcher, wiring_from
from alerts.state import Timers
from monitor.cli import console
from monitor.cli.alerts import app
from monitor.cli.app import app as whole_app
from monitor.errors import GroundwatchError
from monitor.format import utc_time
from monitor.models.status import Status
from monitor.settings import Settings
from monitor.store.alert_tables import outbox
from monitor.store.engine import Store
from monitor.store.verdicts import save_verdicts
from monitor.testing import make_verdict
from support.receivers import SlackAnswer, SlackReceiver
from support.sent_messages import messages

AT_ONCE = Timers(warning_for_s=0, critical_for_s=0, resolve_after_s=0, repeat_after_s=3600)


@pytest.fixture
def slack():
    with SlackReceiver() as receiver:
        yield receiver


class World:
    """A store on this machine, a Slack, and the command line."""

    def __init__(self, url, slack):
        self.store, self.slack, self.now = Store(url), slack, datetime.now(UTC)

    def run(self, line):
        done = CliRunner().invoke(app, line.split())
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return done

    def says(self, line):
        done = self.run(line)
        assert done.exit_code == 0, done.output
        return done.output

    def tell(self, status, *, after_s=0.0, app="shop", **fields):
        self.now += timedelta(seconds=after_s)
        verdict = make_verdict(status, self.now, app=app, **fields)
        with self.store.write() as connection:
            save_verdicts(connection, [verdict], {})
            plan = wiring_from(Settings.from_env()).plan
            decide(connection, [verdict], now=self.now, timers=AT_ONCE, channels=plan)

    def dispatch(self):
        import random

        channels = wiring_from(Settings.from_env()).channels
        clock = max(self.now, datetime.now(UTC))
        return Dispatcher(self.store, channels, random.Random(1), clock=lambda: clock).run_once()

    def messages(self):
        with self.store.read() as connection:
            return [s.event.value for s in reversed(messages(connection))]

    def incident(self):
        with self.store.read() as connection:
            return queries.incidents_since(connection, self.now - timedelta(days=1))[0]


@pytest.fixture
def world(sqlite_url, slack, monkeypatch):
    monkeypatch.setenv("GROUNDWATCH_DATABASE_URL", sqlite_url)
    monkeypatch.setenv("GROUNDWATCH_SLACK_WEBHOOK_URL", slack.url)
    monkeypatch.setattr(console.out, "_width", 200)
    world = World(sqlite_url, slack)
    yield world
    world.store.close()
    structlog.reset_defaults()


def test_open_incident_names_its_figures_its_silence_and_what_to_do(world):
    world.tell(Status.CRITICAL, pass_rate=0.62, low=0.55, high=0.69)
    shown = world.says(f"show {world.incident().incident_id[:8]}")
    assert "62.0 % (55.0–69.0)" in shown
    assert "groundwatch why shop groundedness" in shown
    assert "groundwatch samples --app shop --metric groundedness --failed --since 2" in shown
    world.says("silence add app=shop --for 1h --comment known")
    world.tell(Status.CRITICAL, after_s=30, pass_rate=0.62, low=0.55, high=0.69)
    assert "silenced by " in world.says(f"show {world.incident().incident_id[:8]}")
    world.tell(Status.HEALTHY, after_s=30, pass_rate=0.95)
    assert "groundwatch why" not in world.says(f"show {world.incident().incident_id[:8]}")


def test_failed_samples_are_listed_from_when_the_fall_began(world):
    onset = world.now - timedelta(minutes=20)
    world.tell(Status.CRITICAL, onset=onset)
    shown = world.says(f"show {world.incident().incident_id[:8]}")
    assert f"; began {utc_time(onset, datetime.now(UTC))}" in shown
    assert f"--failed --since {onset:%Y-%m-%dT%H:%M}" in shown


def test_status_ends_with_the_open_incident_and_its_command(world):
    world.tell(Status.CRITICAL)
    world.says(f"ack {world.incident().incident_id[:8]} --by ann")
    done = CliRunner().invoke(whole_app, ["status"], env={"COLUMNS": "200"})
    assert done.exit_code == 2
    last = done.output.strip().splitlines()[-1]
    assert last.startswith("shop: critical incident, open for ")
    command = f"groundwatch incidents show {world.incident().incident_id[:8]}"
    assert last.endswith(f", acknowledged by ann: {command}")


def test_incident_is_listed_shown_and_acknowledged(world):
    world.tell(Status.CRITICAL)
    name = world.incident().incident_id[:8]
    listed = world.says("ls")
    assert name in listed
    assert "open for" in listed
    assert "no reminders until" in world.says(f"ack {name} --by ann --note looking")
    assert "acknowledged by ann" in world.says("ls")
    shown = world.says(f"show {name}")
    for part in ("acknowledged by ann: looking", "fired", "the pass rate says", "62.0 %", "slack"):
        assert part in shown


def test_incident_without_messages_says_nobody_was_notified(world):
    world.tell(Status.CRITICAL)
    assert "nobody was notified" not in world.says("ls")
    with world.store.write() as connection:
        connection.execute(delete(outbox))
    assert "nobody was notified" in world.says("ls")


def test_alerts_of_one_incident_are_acknowledged_and_named_together(world):
    world.tell(Status.CRITICAL)
    world.tell(Status.CRITICAL, metric="relevance")
    world.dispatch()
    said = world.says(f"ack {world.incident().incident_id}")
    assert "acknowledged: shop groundedness, shop relevance" in said


def test_reason_for_no_notification_stays_true_after_later_setup(world, monkeypatch):
    url = os.environ["GROUNDWATCH_SLACK_WEBHOOK_URL"]
    monkeypatch.delenv("GROUNDWATCH_SLACK_WEBHOOK_URL")
    world.tell(Status.CRITICAL)
    shown = world.says(f"show {world.incident().incident_id}")
    assert "no notification: no channel was set up when it fired" in shown
    assert "and none is now" in shown
    world.tell(Status.HEALTHY, after_s=60)
    monkeypatch.setenv("GROUNDWATCH_SLACK_WEBHOOK_URL", url)
    shown = world.says(f"show {world.incident().incident_id}")
    assert "no channel was set up when it fired" in shown
    assert "set up since: slack" in shown


def test_alert_silenced_when_it_fires_names_the_silence(world):
    world.says("silence add app=shop --for 2h --by ann --comment deploy")
    world.tell(Status.CRITICAL, after_s=60)
    incident = world.incident()
    shown = world.says(f"show {incident.incident_id}")
    assert f"no notification: silenced by {incident.silenced_by}" in shown


def test_superseded_incident_is_not_listed_as_resolved(world):
    world.tell(Status.CRITICAL)
    world.tell(Status.CRITICAL, after_s=60, evaluator_version="another-1 pass 0.7")
    listed = world.says("ls")
    assert "closed after 1 min: scorer or threshold changed (not a recovery)" in listed
    assert "resolved" not in listed


def test_ids_are_not_cut_on_a_narrow_terminal(world, monkeypatch):
    world.tell(Status.CRITICAL)
    monkeypatch.setattr(console.out, "_width", 30)
    listed = world.says("ls")
    assert world.incident().incident_id[:8] in listed.split()
    assert "groundedness" in listed
    assert "…" not in listed


def test_unknown_incident_cannot_be_shown_or_acknowledged(world):
    for line in ("show nobody", "ack nobody"):
        with pytest.raises(GroundwatchError, match="no incident is named 'nobody'"):
            world.run(line)


def test_closed_incident_cannot_be_acknowledged(world):
    world.tell(Status.CRITICAL)
    world.tell(Status.HEALTHY, after_s=1)
    with pytest.raises(GroundwatchError, match="over already"):
        world.run(f"ack {world.incident().incident_id}")


def test_silence_blocks_messages_and_nothing_else(world):
    world.tell(Status.HEALTHY)
    said = world.says("silence add app=shop severity=warning --for 2h --by ann --comment deploy")
    assert "mutes 0 of 0" in said
    world.tell(Status.WARNING, after_s=60)
    assert world.messages() == []
    assert "silenced by" in world.says("ls")
    world.tell(Status.CRITICAL, after_s=60)
    assert world.messages() == ["fired"]
    world.tell(Status.HEALTHY, after_s=60)
    assert world.messages() == ["fired", "resolved"]


def test_alert_never_sent_sends_no_resolved_message(world):
    world.says("silence add app=shop --for 2h --by ann --comment deploy")
    world.tell(Status.CRITICAL, after_s=60)
    world.tell(Status.HEALTHY, after_s=3 * 3600)
    assert world.messages() == []


def test_alert_still_firing_when_its_silence_ends_is_sent(world):
    world.says("silence add app=shop --for 2h --by ann --comment deploy")
    world.tell(Status.CRITICAL, after_s=60)
    world.tell(Status.CRITICAL, after_s=3600)
    assert world.messages() == []
    world.tell(Status.CRITICAL, after_s=3600)
    assert world.messages() == ["unsilenced"]
    world.dispatch()
    assert "it was silenced by ann: deploy" in str(world.slack.messages)
    world.tell(Status.HEALTHY, after_s=60)
    assert world.messages() == ["unsilenced", "resolved"]


def test_silence_over_a_firing_alert_says_so_and_can_be_ended(world):
    world.tell(Status.CRITICAL)
    said = world.says("silence preview app=shop")
    assert "mutes 1 of 1" in said
    made = world.says("silence add app=shop --for 2h --by ann --comment deploy")
    name = made.split("silence ")[1].split()[0]
    assert "ann" in world.says("silence ls")
    world.tell(Status.CRITICAL, after_s=3600)
    world.says(f"silence expire {name}")
    assert "no silences" in world.says("silence ls")
    world.tell(Status.CRITICAL, after_s=60)
    assert world.messages() == ["fired", "unsilenced"]
    with pytest.raises(GroundwatchError, match="no silence"):
        world.run(f"silence expire {name}")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("silence add app=shop --for 90d --by a --comment b", "30 days at most"),
        ("silence add app --for 1h --by a --comment b", "Invalid matcher"),
    ],
)
def test_invalid_silence_is_refused(world, line, message):
    with pytest.raises(GroundwatchError, match=message):
        world.run(line)


def test_silence_that_matches_nothing_or_everything_warns(world, capsys):
    world.tell(Status.HEALTHY)
    for matcher, warning in (
        ("app=shoop", "no app or metric matches"),
        ("app=~.*", "every alert matches"),
    ):
        done = world.run(f"silence preview {matcher}")
        assert warning in done.output


ROUTES = """
[labels.shop]
team = "web"

[[routes]]
name = "web"
match = ["team=web", "severity=critical"]
channels = ["slack"]
[[routes]]
channels = ["slack"]
active_hours = { from = "08:00", to = "18:00" }
[[routes]]
channels = ["quiet"]
fallback = "slack"

[channels.quiet]
type = "console"

[[maintenance]]
name = "reindex"
match = "app=shop"
from = "02:00"
to = "04:00"
timezone = "Europe/Stockholm"
"""


@pytest.fixture
def routes(tmp_path, monkeypatch):
    path = tmp_path / "alerts.toml"
    path.write_text(ROUTES)
    monkeypatch.setenv("GROUNDWATCH_ALERTS_FILE", str(path))


def test_route_shows_where_an_alert_would_go_and_why(world, routes):
    at_night = "--at 2026-06-01T22:00+00:00"
    assert world.says(f"route --app shop --severity critical {at_night}").splitlines() == [
        "web: matches",
        "-> slack",
    ]
    assert world.says(f"route --app shop --severity warning {at_night}").splitlines() == [
        "web: no: severity=critical does not match: severity is 'warning'",
        "route 2: no: outside its active hours, every day 08:00-18:00 UTC",
        "route 3: matches",
        "-> quiet, else slack",
    ]


def test_channel_can_leave_out_explanations(world, tmp_path, monkeypatch):
    path = tmp_path / "private.toml"
    for line, told in (("", True), ("explanations = false", False)):
        text = '[channels.c]\ntype = "console"\n{}\n[[routes]]\nchannels = "c"\n'
        path.write_text(text.format(line))
        monkeypatch.setenv("GROUNDWATCH_ALERTS_FILE", str(path))
        said = world.says("test c")
        assert "TEST CRITICAL" in said
        assert ("where the reason for a bad score would stand" in said) is told


def test_route_shows_what_maintenance_blocks(world, routes):
    said = world.says("route --app shop --at 2026-06-01T03:00+02:00")
    assert "but it is silenced now: maintenance:reindex" in said
    assert "reindex (" in world.says("silence ls")


def test_maintenance_blocks_messages(world, routes):
    world.now = datetime(2026, 6, 1, 1, 0, tzinfo=UTC)
    world.tell(Status.CRITICAL)
    assert world.messages() == []
    world.tell(Status.CRITICAL, after_s=2 * 3600)
    assert world.messages() == ["unsilenced"]


def test_drill_sends_every_step_marked_as_a_test(world):
    said = world.says("drill shop")
    assert [line.split()[0] for line in said.splitlines()[1:]] == ["fired", "escalated", "resolved"]
    texts = [message["text"] for message in world.slack.messages]
    assert len(texts) == 3
    assert all("TEST" in text and "shop" in text for text in texts)
    assert ["62.0 %" in text for text in texts] == [True, True, False]
    assert "healthy again" in texts[2]
    assert "93.0 %" in texts[2]
    with world.store.read() as connection:
        assert queries.open_incidents(connection) == []


def test_drill_is_listed_as_a_test(world):
    world.says("drill shop")
    assert "TEST critical" in world.says("ls")


def test_drill_is_sent_and_names_the_silence_that_would_mute_alerts(world):
    made = world.says("silence add app=shop --for 2h --by ann --comment deploy")
    name = made.split("silence ")[1].split()[0]
    done = world.run("drill shop")
    assert f"a drill is always sent; silence {name} would mute an alert" in " ".join(
        done.output.split()
    )
    assert len(world.slack.messages) == 3


def test_undelivered_drill_fails(world):
    world.slack.script(SlackAnswer.NO_SERVICE)
    done = world.run("drill shop")
    assert done.exit_code == 1
    assert "no_service" in done.output


@pytest.mark.parametrize(
    ("form", "part"),
    [
        ("text", "CRITICAL  test-app"),
        ("html", "<html"),
        ("email", "Message-ID: <"),
        ("slack", '"blocks"'),
        ("teams", '"AdaptiveCard"'),
        ("discord", '"embeds"'),
        ("pagerduty", '"dedup_key"'),
        ("alertmanager", '"startsAt"'),
        ("webhook", '"groundwatch.alert.fired"'),
    ],
)
def test_render_shows_a_message_without_sending_it(world, form, part):
    assert part in world.says(f"render --form {form}")
    assert world.slack.requests == []


def test_dead_letter_is_listed_retried_and_then_final(world):
    world.tell(Status.CRITICAL)
    world.slack.script(SlackAnswer.NO_SERVICE)
    world.dispatch()
    listed = world.says("outbox ls --dead")
    assert "no_service" in listed
    name = listed.splitlines()[1].split()[0]
    assert "waits to be sent again" in world.says(f"outbox retry {name}")
    assert world.dispatch() == {"sent": 1}
    assert "no messages were given up" in world.says("outbox ls --dead")
    with pytest.raises(GroundwatchError, match="was not given up"):
        world.run(f"outbox retry {name}")
    with pytest.raises(GroundwatchError, match="cannot be dropped"):
        world.run(f"outbox drop {name}")


def test_old_message_is_not_retried_after_a_newer_one(world):
    world.tell(Status.CRITICAL)
    world.slack.script(SlackAnswer.NO_SERVICE)
    world.dispatch()
    world.tell(Status.HEALTHY, after_s=1)
    world.dispatch()
    name = world.says("outbox ls --dead").splitlines()[1].split()[0]
    with pytest.raises(GroundwatchError, match="a newer message"):
        world.run(f"outbox retry {name}")
    world.says(f"outbox drop {name}")
    assert "dropped" in world.says("outbox")


def test_backtest_counts_what_rules_would_have_sent(world, tmp_path):
    begin = datetime(2026, 3, 1, tzinfo=UTC)
    path, rules = tmp_path / "scores.jsonl", tmp_path / "rules.toml"
    lines = []
    for minute in range(2 * 24 * 60):
        bad = 600 <= minute < 900 and minute % 2 == 0
        at = (begin + timedelta(minutes=minute)).isoformat()
        record = {"timestamp": at, "app": "shop", "metric": "groundedness"}
        lines.append(json.dumps(record | {"score": 0.1 if bad else 0.9}))
    path.write_text("\n".join(lines))
    rules.write_text("warning_rate = 0.4\ncritical_rate = 0.2\n")
    said = world.says(f"backtest --scores {path} --rules {rules}")
    row = next(line for line in said.splitlines() if line.startswith("shop")).split()
    # It fires, gets worse, and is over.
    assert (row[2], row[4]) == ("3", "0")
    assert "would miss: 1" in said
    said = world.says(f"backtest --scores {path} --every-policy")
    for policy in ("now (anytime)", "anytime_strict", "wilson", "point_min_n", "point"):
        assert policy in said
    row = next(line for line in said.splitlines() if line.startswith("shop")).split()
    assert [int(count) for count in row[2::2]] == [3, 3, 4, 4, 4]


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ("colour = 1", "is not a rule"),
        ("warning_rate = 7", "less than or equal to 1"),
        ("=", "TOML"),
    ],
)
def test_invalid_rules_are_reported(world, tmp_path, rules, message):
    path = tmp_path / "rules.toml"
    path.write_text(rules)
    with pytest.raises(GroundwatchError, match=message):
        world.run(f"backtest --rules {path}")


def test_backtest_of_an_empty_store_says_so(world):
    assert "no history" in world.says("backtest --since 7d")
