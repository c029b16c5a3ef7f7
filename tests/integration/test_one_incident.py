"""All that fires in one app is one incident: in messages, lists, pages and the API."""

import random
from datetime import UTC, datetime, timedelta

import pytest
from pydantic import SecretStr
from starlette.testclient import TestClient
from typer.testing import CliRunner

from alerts import queries
from alerts.channels.programs import PagerDutyChannel
from alerts.channels.slack import SlackBotChannel
from alerts.conditions import ThresholdRule, verdicts_on
from alerts.decide import decide
from alerts.dispatch import Dispatcher, recipients_of
from alerts.routing import RoutingConfig, parse_all
from alerts.silencing import add_silence
from alerts.state import MOST_A_DAY, Timers
from monitor.cli import alerts as cli
from monitor.cli import console
from monitor.models.status import Status
from monitor.settings import Settings
from monitor.store.engine import Store
from monitor.testing import make_verdict
from monitor.web.app import make_app
from monitor.web.site import Site
from support.vendor_receiver import VendorReceiver

START = datetime.now(UTC)
AT_ONCE = Timers(warning_for_s=0, critical_for_s=0, resolve_after_s=0, repeat_after_s=3600)
H, W, C = Status.HEALTHY, Status.WARNING, Status.CRITICAL
LAG = "monitor:queue_lag"


@pytest.fixture(autouse=True)
def fresh_start(monkeypatch):
    """The stories begin half an hour before their test, whenever it runs."""
    monkeypatch.setattr(f"{__name__}.START", datetime.now(UTC) - timedelta(minutes=30))


class Story:
    """One app whose statuses are decided upon, minute by minute, and those who hear of it."""

    def __init__(self, store, channels):
        self.store, self.channels, self.rules = store, channels, ()

    def tell(self, minute, *, condition=False, evaluator_version="local-1", **statuses):
        now = START + timedelta(minutes=minute)
        verdicts = [
            make_verdict(s, now, app="shop", metric=m, evaluator_version=evaluator_version)
            for m, s in statuses.items()
        ]
        ill = {LAG: "5 wait"} if condition else {}
        verdicts += verdicts_on("shop", ill, [LAG], window_s=3600, now=now)
        plan = RoutingConfig.everyone(recipients_of(self.channels))
        with self.store.write() as connection:
            decide(
                connection, verdicts, now=now, timers=AT_ONCE, channels=plan,
                report_url="https://monitor.example.org",
            )  # fmt: skip
        Dispatcher(self.store, self.channels, random.Random(1), clock=lambda: now).run_once()

    def incidents(self):
        with self.store.read() as connection:
            return queries.incidents_since(connection, START)

    def why_not(self, channels=(), oldest=None):
        (incident,) = self.incidents()
        with self.store.read() as connection:
            return queries.why_not_notified(connection, incident, channels, oldest or START)


@pytest.fixture
def story(store):
    return Story(store, {})


@pytest.fixture
def vendors(story):
    with VendorReceiver("slack-bot") as slack, VendorReceiver("pagerduty") as pager:
        story.channels["slack-bot"] = SlackBotChannel(
            SecretStr("xoxb-good"), channel="C0123", api_url=f"{slack.url}/api"
        )
        story.channels["pagerduty"] = PagerDutyChannel(SecretStr("k" * 32), api_url=pager.url)
        yield slack, pager


def test_one_incident_is_one_thread_and_one_page(story, vendors):
    slack, pager = vendors
    story.tell(0, groundedness=W)
    story.tell(1, groundedness=W, relevance=C)
    story.tell(7, groundedness=W, relevance=C, condition=True)
    story.tell(8, groundedness=W, relevance=H, condition=True)
    story.tell(9, groundedness=H, relevance=H)
    events = [request.json for request in pager.taken]
    assert [event["event_action"] for event in events] == ["trigger"] * 3 + ["resolve"]
    assert len({event["dedup_key"] for event in events}) == 1
    posts = [r.json for r in slack.taken if r.path.endswith("postMessage")]
    assert len({post["thread_ts"] for post in posts[1:]}) == 1
    first, worse, joined, over = (post["text"] for post in posts)
    assert first.startswith("[WARNING] shop · groundedness")
    assert worse.startswith("[NOW CRITICAL] shop · relevance")
    assert joined.startswith(f"[ALSO CRITICAL] shop · {LAG}")
    assert over.startswith("[RESOLVED] shop · groundedness, ")
    assert "healthy again after 9 min; worst: critical" in over
    assert "Recovered" in str(posts[3]["blocks"])
    pages = {block for post in posts for block in str(post).split("|") if "/incidents/" in block}
    assert len({page.rpartition("/")[2] for page in pages}) == 1


def test_lists_pages_and_the_api_have_one_incident_with_its_alerts(sqlite_url, monkeypatch):
    monkeypatch.setenv("GROUNDWATCH_DATABASE_URL", sqlite_url)
    monkeypatch.setattr(console.out, "_width", 200)
    story = Story(Store(sqlite_url), {})
    story.tell(0, groundedness=W)
    story.tell(1, groundedness=W, relevance=C)
    story.tell(2, groundedness=H, relevance=C)
    (incident,) = story.incidents()
    assert (incident.metrics, incident.level) == (["relevance", "groundedness"], "critical")
    shown = CliRunner().invoke(cli.app, ["ls"]).output
    assert [line for line in shown.splitlines() if "shop" in line and "relevance" in line]
    assert len([line for line in shown.splitlines() if "shop" in line]) == 1
    alert = incident.alerts[1].incident_id  # any alert leads to the whole
    told = CliRunner().invoke(cli.app, ["show", alert]).output
    assert "shop · relevance, groundedness" in told
    assert "resolved" in told
    client = TestClient(
        make_app(Site(story.store, Settings.from_env())),
        base_url="http://127.0.0.1", client=("127.0.0.1", 1),
    )  # fmt: skip
    (item,) = client.get("/api/v1/incidents").json()["items"]
    assert [found["metric"] for found in item["alerts"]] == ["groundedness", "relevance"]
    whole = client.get(f"/api/v1/incidents/{alert}").json()
    assert whole["incident"] == item
    assert [event["metric"] for event in whole["timeline"]] == [
        "groundedness", "relevance", "groundedness",
    ]  # fmt: skip
    assert client.get("/api/v1/status").json()["open_incidents"] == 1
    assert client.get("/incidents").text.count('href="/incidents/') == 1
    page = client.get(f"/incidents/{alert}").text
    assert "shop, relevance, groundedness" in page
    assert page.count("<tr>") == 3
    story.store.close()


def test_alert_of_a_rule_is_part_of_its_apps_incident(story):
    verdict = make_verdict(C, START, app="shop", metric="groundedness", average_score=0.2)
    plan = RoutingConfig(
        routes=RoutingConfig.everyone([]).routes, addresses={},
        rules=[ThresholdRule(name="low", metric="groundedness", below=0.5)],
    )  # fmt: skip
    with story.store.write() as connection:
        decide(connection, [verdict], now=START, timers=AT_ONCE, channels=plan)
    (incident,) = story.incidents()
    assert set(incident.metrics) == {"groundedness", "rule:low"}


def test_incident_says_nobody_was_notified_without_a_channel(story):
    story.tell(0, groundedness=C)
    assert "no channel was set up when it fired" in story.why_not()
    silence(story, 1)
    story.tell(2, groundedness=C)
    assert "no channel was set up when it fired" in story.why_not()  # the silence came later
    story.tell(3, groundedness=H)
    assert story.why_not(["slack"]).endswith("; set up since: slack")


def test_incident_says_nobody_was_notified_because_of_a_silence(story, vendors):
    silence(story, 0)
    story.tell(1, groundedness=C, relevance=W)
    with story.store.read() as connection:
        (name,) = {alert.silenced_by for alert in queries.open_alerts(connection)}
    assert story.why_not() == f"silenced by {name}"
    story.tell(2, groundedness=H, relevance=H)
    assert story.why_not(oldest=START + timedelta(days=9)) == f"silenced by {name}"


def test_incident_says_nobody_was_notified_because_of_flapping(story, vendors):
    for minute in range(MOST_A_DAY + 2):  # each other scorer ends one incident and begins another
        story.tell(minute, evaluator_version=f"scorer-{minute // 2}", groundedness=W)
    with story.store.read() as connection:
        quiet = queries.incidents_since(connection, START)[0]
        assert queries.deliveries(connection, incident_id=quiet.incident_id) == []
        why = queries.why_not_notified(connection, quiet, ["slack"], START)
    assert why == "suppressed, as the alert was flapping"


def test_deleted_messages_are_reported_as_deleted(story):
    story.tell(0, groundedness=C)
    later = START + timedelta(days=60)
    assert "are deleted by now" in story.why_not(["slack"], oldest=later)


def silence(story, minute):
    now = START + timedelta(minutes=minute)
    with story.store.write() as connection:
        add_silence(
            connection, parse_all(["app=shop"]), now=now, ends_at=now + timedelta(hours=8),
            author="ann", comment="deploy",
        )  # fmt: skip
