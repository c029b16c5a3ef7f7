"""The digest from the store to real receivers: once a period, whoever tries and however often."""

import random
import subprocess
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from io import BytesIO

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image
from sqlalchemy import delete, func, select

from alerts import outbox, queries
from alerts.channels.base import ChannelRate
from alerts.channels.programs import PagerDutyChannel
from alerts.digest import enqueue_once, recipients_of_digests
from alerts.dispatch import Dispatcher, channels_from
from monitor.errors import LeaseLostError, SettingsError
from monitor.models import Status, StreamKey, Tally
from monitor.models.alerting import DeliveryStatus
from monitor.models.status import TALLY_SUMS
from monitor.report.digest import Cadence, Schedule, last_period, window_before
from monitor.settings import Settings
from monitor.store.alert_tables import digests
from monitor.store.alert_tables import outbox as outbox_table
from monitor.store.engine import Lease, Store, acquire
from monitor.store.ledger import Entry, Kind, book
from monitor.store.tables import buckets, leases, streams
from monitor.store.verdicts import save_verdicts
from monitor.testing import make_verdict
from support.receivers import MailReceiver, SlackReceiver
from workers.digest import DigestJob, read_digest

DAY = timedelta(days=1)
NOW = datetime(2026, 3, 2, 8, 5, tzinfo=UTC)
KEY = StreamKey("support-bot", "groundedness", "*", "local-1")


def fill(store, *, rates, now=NOW):
    """Write 50 scores an hour for two days; *rates* are those of the day before and of the last."""
    end_s = int(now.timestamp()) // 3600 * 3600
    with store.write() as connection:
        stream = {**KEY._asdict(), "n_total": 0, "last_bucket_s": 0}
        added = connection.execute(streams.insert().values(**stream).returning(streams.c.stream_id))
        stream_id = added.scalar_one()
        for hour in range(48):
            start_s, passed = end_s - (48 - hour) * 3600, round(50 * rates[hour // 24])
            sums = Tally(n=50, passed=passed, sum_w=50, sum_w2=50, sum_wy=passed, sum_w2y=passed,
                         sum_w2yy=passed, cost_microusd=10_000)  # fmt: skip
            row = {name: getattr(sums, name) for name in TALLY_SUMS}
            connection.execute(
                buckets.insert(), [row | {"stream_id": stream_id, "start_s": start_s}]
            )
            book(connection, [Entry("support-bot", start_s, Kind.SCORED, "", 50)])
        connection.execute(streams.update().values(last_bucket_s=end_s, n_total=2400))
        verdict = make_verdict(Status.CRITICAL, now)
        save_verdicts(connection, [verdict], {})


class World:
    """A store, receivers, and the scheduler's job at whatever time a test says."""

    def __init__(self, store, slack, mail, **changes):
        self.store, self.slack, self.mail = store, slack, mail
        self.settings = Settings(
            slack_webhook_url=slack.url, smtp_url=mail.url, email_from="gw@example.org",
            email_to="ann@example.org,bob@example.org", delivery_timeout_s=60, digest="daily",
            **changes,
        )  # fmt: skip
        self.channels = channels_from(self.settings)
        self.lease = acquire(store, "scheduler", "me", ttl_s=3600)

    def job(self):
        return DigestJob(self.store, self.settings, self.channels)

    def dispatch(self, now):
        dispatcher = Dispatcher(
            self.store, self.channels, random.Random(1), clock=lambda: now
        )  # fmt: skip
        return dispatcher.run_once()


@pytest.fixture
def world(store):
    with SlackReceiver() as slack, MailReceiver() as mail:
        yield World(store, slack, mail)


@pytest.fixture
def sqlite_store(sqlite_url):
    store = Store(sqlite_url)
    yield store
    store.close()


@pytest.fixture
def lite(sqlite_store):
    with SlackReceiver() as slack, MailReceiver() as mail:
        yield World(sqlite_store, slack, mail)


def test_digest_arrives_once_per_channel_with_its_chart(world):
    world.job().run(world.lease, now=NOW - DAY)
    fill(world.store, rates=(0.94, 0.7))
    for _ in range(3):  # restarts
        world.job().run(world.lease, now=NOW)
        world.dispatch(NOW)
    (slack,) = world.slack.messages
    assert slack["text"].startswith("groundwatch daily: 1 critical (of 1 app)")
    assert Counter(mail["To"] for mail in world.mail.messages) == {
        "ann@example.org": 1, "bob@example.org": 1
    }  # fmt: skip
    pictures = [
        part for part in world.mail.messages[0].walk() if part.get_content_type() == "image/png"
    ]
    assert Image.open(BytesIO(pictures[0].get_content())).width > 1000
    text = world.mail.messages[0].get_body(("plain",)).get_content()
    assert "down 94.0 % to 70.0 %" in " ".join(text.split())
    assert "judge $0.24, $0.24 in the period before" in text
    assert "support-bot: 1,200 seen, 1,200 sampled, 1,200 scored" in text


def test_first_digest_is_sent_after_the_first_full_period(lite):
    job = lite.job()
    assert job.run(lite.lease, now=NOW) == 0
    assert job.run(lite.lease, now=NOW + DAY - timedelta(minutes=6)) == 0
    assert job.run(lite.lease, now=NOW + DAY) == 3
    assert job.run(lite.lease, now=NOW + DAY) == 0


def test_scheduler_without_its_lease_makes_no_digest(world):
    world.job().run(world.lease, now=NOW - DAY)
    with pytest.raises(LeaseLostError):
        world.job().run(Lease("scheduler", "another", 99), now=NOW)
    assert world.job().run(world.lease, now=NOW) == 3


def test_two_concurrent_schedulers_make_one_digest(world):
    digest = read_digest(world.store, world.settings, window_before(NOW, 86_400), now=NOW)
    to = recipients_of_digests(world.channels, ())

    def attempt(_):
        with world.store.write() as connection:
            return enqueue_once(connection, digest, to, NOW)

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(attempt, range(4))) == [0, 0, 0, 3]


TICKS = st.lists(st.tuples(st.integers(0, 1), st.booleans(), st.integers(1, 100_000)), max_size=12)


@settings(
    max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(st.sampled_from(Cadence), st.integers(0, 23), TICKS)
def test_two_restarting_schedulers_make_one_digest_per_period(sqlite_store, cadence, hour, ticks):
    """Around the end of summer time, in the zone where it ends."""
    store, now = sqlite_store, datetime(2026, 10, 20, tzinfo=UTC)
    with store.write() as connection:
        for table in (outbox_table, digests, leases):
            connection.execute(delete(table))
    config = Settings(
        slack_webhook_url="https://127.0.0.1:9/x", digest=cadence.value, digest_hour=hour,
        digest_timezone="Europe/Stockholm",
    )  # fmt: skip
    channels = channels_from(config)
    schedule = Schedule(cadence, hour, DigestJob(store, config, channels)._schedule.zone)
    jobs = [DigestJob(store, config, channels) for _ in range(2)]
    expected = set()
    for who, restarts, step_s in ticks:
        now += timedelta(seconds=step_s)
        if restarts:
            jobs[who] = DigestJob(store, config, channels)
        lease = acquire(store, "scheduler", "me", ttl_s=3600)
        jobs[who].run(lease, now=now)
        expected.add(last_period(schedule, now).name)
    with store.read() as connection:
        sent = Counter(connection.execute(select(outbox_table.c.incident_id)).scalars())
    first = min(expected, default=None)
    assert sent == dict.fromkeys(expected - {first}, 1)


def test_digest_survives_an_alert_storm_and_contains_no_alert(lite):
    digest = read_digest(lite.store, lite.settings, window_before(NOW, 3600), now=NOW)
    to = recipients_of_digests(lite.channels, ["slack"])
    with lite.store.write() as connection:
        for number in range(32):
            enqueue_once(connection, digest.model_copy(update={"name": f"daily-{number}"}), to, NOW)
    rate = ChannelRate(per_minute=600, burst=100)
    for second in range(40):
        now = NOW + timedelta(seconds=second)
        if item := outbox.claim(lite.store, now, 60, "slack", rate):
            outbox.finish_sent(lite.store, item, now)
            assert item.digest == ()
    with lite.store.read() as connection:
        assert queries.outbox_counts(connection)[DeliveryStatus.SENT] == 32


def test_alert_only_channels_get_no_digest_and_refuse_one_by_name(lite):
    pager = PagerDutyChannel("k", name="pager")  # type: ignore[arg-type]
    channels = lite.channels | {"pager": pager}
    assert {to.channel for to in recipients_of_digests(channels, ())} == {"slack", "email"}
    with pytest.raises(SettingsError, match="'pager' is for alerts only"):
        recipients_of_digests(channels, ["pager"])
    with pytest.raises(SettingsError, match="no channel 'nobody' is set up; there is: slack"):
        recipients_of_digests(lite.channels, ["nobody"])


def test_digest_on_demand_has_the_newest_scores(lite):
    fill(lite.store, rates=(0.94, 0.7), now=NOW + timedelta(hours=1))  # up to the next full hour
    found = read_digest(lite.store, lite.settings, window_before(NOW, 24 * 3600), now=NOW)
    (course,) = found.courses
    assert course.n == 24 * 50


def test_digest_command_sends_and_prints_the_digest(
    lite, sqlite_url, monkeypatch, warm_groundwatch
):
    fill(lite.store, rates=(0.9, 0.9), now=datetime.now(UTC))
    monkeypatch.setenv("GROUNDWATCH_DATABASE_URL", sqlite_url)
    monkeypatch.setenv("GROUNDWATCH_SLACK_WEBHOOK_URL", lite.slack.url)
    command = [warm_groundwatch, "digest", "--send", "slack", "--print"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    assert "support-bot groundedness" in done.stdout
    assert len(lite.slack.messages) == 1
    with lite.store.read() as connection:
        assert not connection.execute(select(func.count()).select_from(digests)).scalar_one()
