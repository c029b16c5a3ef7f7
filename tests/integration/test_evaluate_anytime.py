"""The policy ``anytime`` from buckets to alerts: evidence is kept, and told at once."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from alerts.queries import deliveries, incidents_since
from alerts.routing import Recipient
from monitor.models import Status
from monitor.rolling.choice import PolicyChoice
from monitor.rolling.policies import Thresholds
from monitor.settings import Settings
from monitor.store.lease import acquire
from monitor.store.verdicts import read_states, read_verdicts
from monitor.store.write import record
from monitor.testing import make_evaluation, make_interaction, make_sample
from workers.drift_reference import reference_tallies
from workers.evaluate import Evaluator
from workers.scoring_run import Rules, result_of

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
SETTINGS = Settings()
KEY = ("support-bot", "groundedness", "*", 3600)


class World:
    """A store with traffic, and an evaluator that can be started again."""

    def __init__(self, store, settings=SETTINGS):
        self.store, self.settings = store, settings
        self.now = NOW
        self.rng = np.random.default_rng(1)
        self.lease = acquire(store, "scheduler", "test", ttl_s=600)
        self.restart()

    def restart(self):
        self.evaluator = Evaluator(
            store=self.store,
            settings=self.settings,
            lines=Thresholds(),
            recipients=[Recipient("slack", "")],
            policies=PolicyChoice.parse(self.settings.status_policy, self.settings.status_policies),
        )

    def scored(self, n, *, passing, at=None, sample_rate=1.0):
        rules = Rules(pass_score=0.7, bucket_s=60)
        results = [
            result_of(
                make_sample(make_interaction(), sampled_at=at or self.now, sample_rate=sample_rate),
                [make_evaluation(score=0.9 if self.rng.random() < passing else 0.1)],
                rules,
                now=self.now,
            )
            for _ in range(n)
        ]
        with self.store.write() as connection:
            record(connection, results, now=self.now, bucket_s=60)

    def evaluate(self, after_s=5.0):
        self.now += timedelta(seconds=after_s)
        self.evaluator.run(self.lease, now=self.now)
        with self.store.read() as connection:
            return read_verdicts(connection).get(KEY)

    def minutes(self, count, *, passing, n=20):
        for _ in range(count):
            self.scored(n, passing=passing)
            verdict = self.evaluate(60.0)
        return verdict


@pytest.fixture
def world(store):
    return World(store)


def test_fall_fires_and_recovery_resolves_once_without_timers(world):
    assert world.minutes(5, passing=0.95).status is Status.HEALTHY
    broken = world.minutes(4, passing=0.1)
    assert (broken.status, broken.evidence) == (Status.CRITICAL, "probable")
    assert broken.onset_earliest <= broken.onset <= broken.onset_latest <= world.now
    assert world.minutes(20, passing=0.97).status is Status.HEALTHY
    with world.store.read() as connection:
        events = {str(item.event) for item in deliveries(connection)}
        (incident,) = incidents_since(connection, NOW - timedelta(days=1))
    assert incident.resolved_at is not None
    assert events >= {"fired", "resolved"}


def test_fall_is_not_in_the_reference_from_its_onset_on(world):
    world.minutes(30, passing=0.95)
    world.scored(60, passing=0.0)
    broken = world.evaluate()
    assert broken.status is Status.CRITICAL
    assert broken.onset_earliest < world.now
    begin_s, end_s = int(NOW.timestamp()), int(world.now.timestamp()) + 3600
    with world.store.read() as connection:
        (before,) = reference_tallies(
            connection, from_s=begin_s, to_s=end_s, status_window_s=3600
        ).values()
    assert 500 < before.n <= 600
    assert before.passed / before.n > 0.9


def test_thousands_of_old_records_at_once_have_a_status(world):
    world.scored(900, passing=0.95)
    good = world.evaluate()
    assert good.status is Status.HEALTHY
    assert good.low < good.pass_rate < good.high
    assert (good.n, good.since) == (900, NOW)
    assert good.n_effective == good.window_n == 900
    assert good.window_low < good.window_pass_rate < good.window_high


def test_bad_records_at_once_are_critical(world):
    world.scored(600, passing=0.4)
    assert world.evaluate().status is Status.CRITICAL


def test_few_records_say_how_many_are_missing(world):
    world.scored(12, passing=1.0)
    few = world.evaluate()
    assert (few.status, few.more_n) == (Status.INSUFFICIENT_DATA, 18)


def test_healthy_stream_says_what_it_would_see(world):
    verdict = world.minutes(5, passing=0.95)
    assert 0.3 < verdict.resolution < 0.85
    assert f"below {100 * verdict.resolution:.4g} % would be seen" in verdict.reason


def test_restart_goes_on_from_what_is_remembered(world):
    world.minutes(3, passing=0.95)
    with world.store.read() as connection:
        before = read_states(connection)
    world.restart()
    world.evaluate()
    with world.store.read() as connection:
        assert read_states(connection) == before


def test_pause_of_the_scheduler_loses_nothing(world):
    world.minutes(3, passing=0.95)
    for _ in range(10):
        world.scored(20, passing=0.2)
        world.now += timedelta(seconds=60)
    assert world.evaluate().status is Status.CRITICAL


def test_late_samples_count_when_they_arrive(world):
    world.minutes(3, passing=0.95)
    world.scored(60, passing=0.0, at=world.now - timedelta(minutes=45))
    assert world.evaluate().status in {Status.WARNING, Status.CRITICAL}


def test_samples_older_than_the_window_are_no_news_when_they_arrive(world):
    world.minutes(3, passing=0.95)
    world.scored(600, passing=0.0, at=world.now - timedelta(hours=3))
    assert world.minutes(3, passing=0.95).status is Status.HEALTHY
    world.restart()
    assert world.minutes(3, passing=0.95).status is Status.HEALTHY
    with world.store.read() as connection:
        assert incidents_since(connection, NOW - timedelta(days=1)) == []


def test_backlog_is_no_news_of_a_stream_that_nobody_has_looked_at(world):
    world.scored(300, passing=0.0, at=world.now - timedelta(minutes=70))
    world.scored(20, passing=1.0)
    assert world.evaluate().status not in {Status.WARNING, Status.CRITICAL}


def test_forgotten_states_begin_with_the_last_day(world):
    world.scored(500, passing=0.1, at=world.now - timedelta(days=3))
    world.scored(200, passing=0.95, at=world.now - timedelta(minutes=5))
    assert world.evaluate().status is Status.HEALTHY


def test_sparse_sampling_counts_no_more_than_its_samples(world):
    world.scored(4, passing=0.0, sample_rate=0.01)
    assert world.evaluate().status is Status.INSUFFICIENT_DATA


def test_another_policy_for_one_metric(store):
    rules = '[{"app": "support-bot", "policy": "point_min_n"}]'
    world = World(store, SETTINGS.model_copy(update={"status_policies": rules}))
    world.scored(40, passing=0.95)
    verdict = world.evaluate()
    assert (verdict.policy, verdict.evidence) == ("point_min_n", None)
