"""The policy ``anytime`` from buckets to alerts: evidence is kept, and told at once."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from alerts.queries import deliveries, incidents_since
from alerts.routing import Recipient
from monitor.models import Status
from monitor.models.alerting import AlertEvent
from monitor.settings import Settings
from monitor.store.engine import acquire
from monitor.store.verdicts import read_changes, read_states, read_verdicts
from monitor.store.write import record
from monitor.testing import make_evaluation, make_interaction, make_sample
from workers.backtest import of_store, rules_from
from workers.evaluate import Evaluator, reference_tallies
from workers.scoring_run import JudgeShare, ScoringRules, result_of

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
            recipients=[Recipient("slack", "")],
        )

    def scored(self, n, *, passing, at=None, sample_rate=1.0):
        rules = ScoringRules(pass_score=0.7, bucket_s=60)
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


def test_onset_of_a_sudden_fall_matches_its_shown_figures(world):
    world.minutes(5, passing=1.0)
    world.scored(40, passing=1.0)
    world.evaluate(20.0)
    world.scored(100, passing=0.0)
    broken = world.evaluate(20.0)
    assert broken.status is Status.CRITICAL
    assert broken.onset == broken.since
    assert broken.pass_rate == 0.0


def test_onset_of_a_fall_in_the_first_minute_matches_its_shown_figures(world):
    world.scored(60, passing=1.0)
    world.evaluate(20.0)
    world.scored(100, passing=0.0)
    broken = world.evaluate(20.0)
    assert broken.status is Status.CRITICAL
    assert broken.onset == broken.since


def test_reference_excludes_a_fall_from_its_onset(world):
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


def test_thousands_of_old_records_imported_at_once_get_a_status(world):
    world.scored(900, passing=0.95)
    good = world.evaluate()
    assert good.status is Status.HEALTHY
    assert good.low < good.pass_rate < good.high
    assert (good.n, good.since) == (900, NOW)
    assert good.n_effective == good.window_n == 900
    assert good.window_low < good.window_pass_rate < good.window_high


def test_bad_records_imported_at_once_are_critical(world):
    world.scored(600, passing=0.4)
    assert world.evaluate().status is Status.CRITICAL


def test_few_records_say_how_many_are_missing(world):
    world.scored(12, passing=1.0)
    few = world.evaluate()
    assert (few.status, few.more_n) == (Status.INSUFFICIENT_DATA, 18)


def test_healthy_stream_names_the_fall_it_would_detect(world):
    verdict = world.minutes(5, passing=0.95)
    assert 0.3 < verdict.resolution < 0.85
    assert f"below {100 * verdict.resolution:.1f} % would be seen" in verdict.reason


def test_restart_continues_from_the_stored_state(world):
    world.minutes(3, passing=0.95)
    with world.store.read() as connection:
        before = read_states(connection)
    world.restart()
    world.evaluate()
    with world.store.read() as connection:
        assert read_states(connection) == before


def test_scheduler_pause_loses_no_evidence(world):
    world.minutes(3, passing=0.95)
    for _ in range(10):
        world.scored(20, passing=0.2)
        world.now += timedelta(seconds=60)
    assert world.evaluate().status is Status.CRITICAL


def test_late_samples_count_when_they_arrive(world):
    world.minutes(3, passing=0.95)
    world.scored(60, passing=0.0, at=world.now - timedelta(minutes=45))
    assert world.evaluate().status in {Status.WARNING, Status.CRITICAL}


def test_samples_older_than_the_window_raise_no_alert_when_they_arrive(world):
    world.minutes(3, passing=0.95)
    world.scored(600, passing=0.0, at=world.now - timedelta(hours=3))
    assert world.minutes(3, passing=0.95).status is Status.HEALTHY
    world.restart()
    assert world.minutes(3, passing=0.95).status is Status.HEALTHY
    with world.store.read() as connection:
        assert incidents_since(connection, NOW - timedelta(days=1)) == []


def test_old_backlog_of_a_new_stream_raises_no_alert(world):
    world.scored(300, passing=0.0, at=world.now - timedelta(minutes=70))
    world.scored(20, passing=1.0)
    assert world.evaluate().status not in {Status.WARNING, Status.CRITICAL}


def test_stream_without_state_starts_from_the_last_day(world):
    world.scored(500, passing=0.1, at=world.now - timedelta(days=3))
    world.scored(200, passing=0.95, at=world.now - timedelta(minutes=5))
    assert world.evaluate().status is Status.HEALTHY


def test_sparse_samples_count_only_once_each(world):
    world.scored(4, passing=0.0, sample_rate=0.01)
    assert world.evaluate().status is Status.INSUFFICIENT_DATA


def test_status_rules_choose_a_policy_for_one_app(store):
    rules = '[{"app": "support-bot", "policy": "point_min_n"}]'
    chosen = SETTINGS.status_rules.model_copy(update={"status_policies": rules})
    world = World(store, SETTINGS.model_copy(update={"status_rules": chosen}))
    world.scored(40, passing=0.95)
    verdict = world.evaluate()
    assert (verdict.policy, verdict.evidence) == ("point_min_n", None)


class CascadeWorld(World):
    """A store whose judge is asked about a tenth of the samples; the local score sees nothing."""

    version = "cascade-judge-1-local-1"

    def scored(self, n, *, passing, at=None, sample_rate=1.0):
        rules = ScoringRules(pass_score=0.7, bucket_s=60)
        results = []
        for _ in range(n):
            asked, passed = self.rng.random() < 0.1, self.rng.random() < passing
            noted = {
                "judged": bool(asked),
                "judge_probability": 0.1,
                "answered_share": 1.0,
                "local_score": 0.9,
                "expected_pass": 0.92,
                "pass_estimate": 0.92 + (passed - 0.92) / 0.1 * asked,
                "score_estimate": 0.9,
            }
            score = (0.9 if passed else 0.1) if asked else 0.9
            made = make_evaluation(score=score, evaluator_version=self.version, metadata=noted)
            sample = make_sample(
                make_interaction(), sampled_at=at or self.now, sample_rate=sample_rate
            )
            results.append(result_of(sample, [made], rules, now=self.now))
        with self.store.write() as connection:
            record(connection, results, now=self.now, bucket_s=60)


def agrees(verdict):
    if verdict.pass_rate is None:
        return verdict.status not in {Status.WARNING, Status.CRITICAL}
    read = (
        Status.CRITICAL
        if verdict.high < 0.70
        else Status.WARNING
        if verdict.high < 0.85
        else Status.HEALTHY
    )
    calm = {Status.HEALTHY, Status.INSUFFICIENT_DATA}
    same = verdict.status is read if read is not Status.HEALTHY else verdict.status in calm
    return same and verdict.low <= verdict.pass_rate <= verdict.high


def test_cascade_finds_a_fall_that_only_its_judge_sees(store):
    world = CascadeWorld(store)
    for _ in range(12):
        assert agrees(world.minutes(1, passing=0.95, n=40))
    found = []
    for _ in range(30):
        found.append(world.minutes(1, passing=0.3, n=40))
        assert agrees(found[-1])
    assert found[0].status is not Status.CRITICAL
    assert found[-1].status is Status.CRITICAL
    assert found[-1].n > found[-1].n_judged
    world.restart()
    again = world.minutes(1, passing=0.3, n=40)
    assert (again.status, agrees(again)) == (Status.CRITICAL, True)


def test_each_cascade_sample_is_evaluated_once(store):
    world = CascadeWorld(store)
    for minute in range(6):
        world.scored(10, passing=0.95)
        if minute == 3:
            world.restart()
        verdict = world.evaluate(7.0)
    assert verdict.n == 60
    assert world.evaluate(1.0).n == 60


def test_status_and_shown_interval_agree_from_calm_to_incident_and_back(world):
    for passing, minutes in ((0.95, 4), (0.75, 15), (0.3, 8), (0.97, 25)):
        for _ in range(minutes):
            assert agrees(world.minutes(1, passing=passing, n=12))


def test_replayed_cascade_gives_the_same_status_sample_by_sample(store):
    """What a tenth of judged samples finds live, the backtest finds in what was kept of them."""
    world = CascadeWorld(store)
    world.minutes(40, passing=0.95, n=20)
    world.minutes(40, passing=0.3, n=20)
    with store.read() as connection:
        changes = read_changes(connection, since=NOW - timedelta(days=1))
        live = next(
            c.at
            for c in changes
            if c.window_s == 3600 and c.after in {Status.WARNING, Status.CRITICAL}
        )
        (told,) = of_store(
            connection, rules_from(Settings()), begin=world.now - timedelta(hours=3), end=world.now
        )
    fired = next(at for at, event in told.events if event is AlertEvent.FIRED)
    assert abs(fired - live) <= timedelta(minutes=5)


def test_judge_share_rises_only_while_evidence_builds_up(store):
    world = CascadeWorld(store)
    world.minutes(12, passing=0.95, n=40)
    shares = [JudgeShare(store, 0.1)("support-bot")]
    while world.minutes(1, passing=0.3, n=15).status is not Status.CRITICAL:
        shares.append(JudgeShare(store, 0.1)("support-bot"))
    assert (shares[0], max(shares)) == (0.1, 0.5)
    assert JudgeShare(store, 0.1)("support-bot") == 0.1
    assert JudgeShare(store, 0.1)("another") == 0.1
