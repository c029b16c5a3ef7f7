"""A backtest of what was recorded gives the alerts that were raised, at the same seconds."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from alerts.routing import Recipient
from monitor.models import Status
from monitor.models.alerting import AlertEvent
from monitor.settings import Settings
from monitor.store.engine import Store, acquire
from monitor.store.schema import migrate
from monitor.store.verdicts import read_changes
from monitor.store.write import record
from monitor.testing import make_evaluation, make_interaction, make_sample
from workers.backtest import of_store, rules_from
from workers.evaluate import Evaluator
from workers.scoring_run import ScoringRules, result_of

START = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
RULES = ScoringRules(pass_score=0.7, bucket_s=60)
SETTINGS = Settings(evaluate_every_s=15.0)
#: Streams of each kind; a hundred in all were compared once, looked at every five seconds.
EACH = 2
MINUTES = 60
BAD = {Status.WARNING, Status.CRITICAL}


class Recording:
    """Streams that fall and recover, looked at as they are recorded."""

    def __init__(self, store, each):
        self.store, self.now = store, START
        self.lease = acquire(store, "scheduler", "test", ttl_s=60_000)
        self.evaluator = Evaluator(
            store=store,
            settings=SETTINGS,
            recipients=[Recipient("slack", "")],
        )
        self.streams = [
            (kind, f"{kind}-{i}", np.random.default_rng([i, len(kind)]))
            for kind in ("plain", "weighted", "cascade")
            for i in range(each)
        ]
        self.plans = {app: self.plan(rng) for _, app, rng in self.streams}

    @staticmethod
    def plan(rng):
        """Draw when the rate changes and to what, and how many samples a look brings."""
        turns = np.sort(rng.uniform(10, MINUTES, 3))
        return turns, [0.95, *rng.permutation([0.2, 0.6, 0.96])], rng.choice([0.3, 1.0, 3.0])

    def one(self, kind, rng, rate, app):
        passed, late = rng.random() < rate, rng.random() < 0.05
        at = self.now - timedelta(seconds=float(rng.exponential(400.0)) if late else 1.0)
        score, noted, sample_rate, version = (0.9 if passed else 0.1), None, 1.0, "g@1"
        if kind == "weighted":
            sample_rate = 1.0 if rng.random() < 0.2 else 0.25
        if kind == "cascade":
            asked, version = rng.random() < 0.3, "cascade-j-l"
            score = score if asked else 0.9
            noted = {
                "judged": bool(asked), "judge_probability": 0.3, "answered_share": 1.0,
                "local_score": 0.9, "expected_pass": 0.93,
                "pass_estimate": 0.93 + (passed - 0.93) / 0.3 * asked, "score_estimate": 0.9,
            }  # fmt: skip
        made = make_evaluation(score=score, evaluator_version=version, metadata=noted)
        sample = make_sample(make_interaction(app=app), sampled_at=at, sample_rate=sample_rate)
        return result_of(sample, [made], RULES, now=self.now)

    def go_on(self):
        looks = round(60 / SETTINGS.evaluate_every_s)
        for look in range(MINUTES * looks):
            self.now += timedelta(seconds=SETTINGS.evaluate_every_s)
            results = []
            for kind, app, rng in self.streams:
                turns, rates, per_look = self.plans[app]
                rate = rates[int(np.searchsorted(turns, look / looks))]
                results += [self.one(kind, rng, rate, app) for _ in range(rng.poisson(per_look))]
            with self.store.write() as connection:
                record(connection, results, now=self.now, bucket_s=60)
            self.evaluator.run(self.lease, now=self.now)


def compare(recording):
    """Return how many alerts there were, after comparing those live with those of a backtest."""
    with recording.store.read() as connection:
        told = of_store(
            connection,
            rules_from(SETTINGS),
            begin=START - timedelta(days=1),
            end=recording.now + timedelta(seconds=1),
        )
        changes = read_changes(connection, since=START - timedelta(days=1))
    alerts = 0
    for item in told:
        app = item.key.app
        fired = [at for at, event in item.events if event is AlertEvent.FIRED]
        resolved = [at for at, event in item.events if event is AlertEvent.RESOLVED]
        live = [c for c in changes if c.app == app and c.window_s == 3600]
        assert [c.at for c in live if c.after in BAD and c.before not in BAD] == fired
        assert [c.at for c in live if c.before in BAD and c.after not in BAD] == resolved
        alerts += len(fired)
    return alerts


@pytest.fixture
def recording(tmp_path):
    store = Store(f"sqlite:///{tmp_path}/recording.db")
    migrate(store)
    yield Recording(store, EACH)
    store.close()


def test_backtest_gives_the_alerts_of_the_recorded_streams_at_the_same_seconds(recording):
    """Plain, weighted and cascade; a fold that looked at other moments would be seconds off."""
    recording.go_on()
    assert compare(recording) >= EACH
