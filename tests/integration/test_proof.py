"""Planted falls test each objective at night, and what breaks its promise is found next morning."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from sqlalchemy import delete, update

from monitor.models import Status
from monitor.queue.consumer import connect
from monitor.report.render import render_markdown
from monitor.rolling.baseline import Baseline
from monitor.rolling.evidence_state import EvidenceState, to_json
from monitor.settings import Settings
from monitor.store.engine import acquire
from monitor.store.labels import LabelRecord, take_labels
from monitor.store.query import active_streams
from monitor.store.tables import bucket_bins, buckets, streams
from monitor.store.verdicts import read_proofs, save_states
from monitor.store.write import record
from monitor.testing import make_evaluation, make_interaction, make_sample
from workers.context import Components
from workers.reports import read_status
from workers.scheduler import Scheduler
from workers.scoring_run import ScoringRules, result_of
from workers.self_monitoring import QueueWatch, VitalsReader

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
NEXT_NIGHT = (NOW + timedelta(days=1)).replace(hour=3, minute=5)
KEY = ("shop", "groundedness")
OBJECTIVE = {"app": "shop", "detect": "15 points in 2h", "false_alarms_per_month": 1.0}
BASELINE = Baseline((0.905,), 0.92, 9_000.0, 1.0, 1.0, effect_known=True)


class Shop:
    """An app of which 92 % pass, with a scheduler; a test decides its traffic and its rules."""

    def __init__(self, store, redis_url):
        self.store, self.redis_url = store, redis_url
        self.lease = acquire(store, "scheduler", "test", ttl_s=86_400)
        self.contexts, self.samples = [], []
        self.judged(1)
        with store.read() as connection:
            (self.stream,) = active_streams(connection, since_s=0)
        state = EvidenceState.fresh(NOW.timestamp()).but(
            status=Status.HEALTHY, baseline=BASELINE, n_day=4_000.0
        )
        with store.write() as connection:
            states = {self.stream.stream_id: {"memory": to_json(state), "seen": [0, 0, 0, 0, 0]}}
            save_states(connection, states, now=NOW)

    def judged(self, n):
        """Record n verdicts of the judge, of which every second one passes."""
        rules, results = ScoringRules(pass_score=0.7, bucket_s=60), []
        for i in range(n):
            sample = make_sample(make_interaction(app="shop"), sampled_at=NOW)
            score = 0.9 if i % 2 else 0.1
            made = make_evaluation(score=score, evaluator_version="openai-m-1")
            results.append(result_of(sample, [made], rules, now=NOW))
            self.samples.append(sample.sample_id)
        with self.store.write() as connection:
            record(connection, results, now=NOW, bucket_s=60)

    def traffic(self, per_minute, until):
        """Make the 27 hours before *until* what the store has of the app."""
        rng = np.random.default_rng(7)
        starts = np.arange(-27 * 60, 0) * 60 + int(until.timestamp()) // 60 * 60
        n = rng.poisson(per_minute, starts.size)
        passed = rng.binomial(n, 0.92)
        rows = [
            dict.fromkeys((c.key for c in buckets.c), 0) | {
                "stream_id": self.stream.stream_id, "start_s": at, "n": k, "passed": y,
                "sum_w": k, "sum_w2": k, "sum_wy": y, "sum_w2y": y, "sum_w2yy": y,
            }
            for at, k, y in zip(starts.tolist(), n.tolist(), passed.tolist(), strict=True) if k
        ]  # fmt: skip
        with self.store.write() as connection:
            connection.execute(delete(buckets))
            connection.execute(delete(bucket_bins))
            connection.execute(buckets.insert(), rows)
            place = ("stream_id", "start_s")
            bins = [
                {name: row[name] for name in place} | {"bin": 90, "count": row["n"]} for row in rows
            ]
            connection.execute(bucket_bins.insert(), bins)
            connection.execute(update(streams).values(last_bucket_s=rows[-1]["start_s"]))

    def proof(self, at, **rules):
        """Let the scheduler's task run at a moment; return the proof that is stored."""
        settings = Settings(
            database_url=self.store.engine.url.render_as_string(hide_password=False),
            redis_url=self.redis_url,
            **({"objectives": [OBJECTIVE]} | rules),
        )
        self.contexts.append(Components(settings))
        scheduler = Scheduler(self.contexts[-1])
        scheduler._now = lambda: at
        next(job for job in scheduler.jobs if job.name == "proofs").run(self.lease)
        with self.store.read() as connection:
            return read_proofs(connection).get(KEY)

    def alert(self, at):
        """Return why the monitor alerts about the objective; None if it does not."""
        client = connect(self.redis_url)
        reader = VitalsReader(store=self.store, settings=Settings(), queue=QueueWatch(client))
        found = [v for v in reader(at) if v.metric == "monitor:objective_missed"]
        client.close()
        return next((v.reason for v in found if v.status is Status.WARNING), None)


@pytest.fixture
def shop(store, redis_url):
    made = Shop(store, redis_url)
    yield made
    for context in made.contexts:
        context.close()


def test_met_objective_is_proven_and_reported(shop):
    shop.traffic(3.0, NOW)
    proof = shop.proof(NOW)
    assert (proof.met, proof.reason, proof.planted) == (True, "", 48)
    assert proof.found > 40
    assert 10 * 60 < proof.median_s < proof.within_s
    assert shop.alert(NOW) is None
    Scheduler(shop.contexts[-1])._evaluator.run(shop.lease, now=NOW)
    report = read_status(shop.store, Settings(), now=NOW)
    assert report.apps[0].metrics[0].proof == proof
    assert "objective 15 points in 2h met: " in render_markdown(report)


def test_too_low_a_threshold_breaks_the_objective_next_morning(shop):
    shop.traffic(3.0, NOW)
    assert shop.proof(NOW).met
    shop.traffic(3.0, NEXT_NIGHT)
    proof = shop.proof(NEXT_NIGHT, warning_rate=0.70, critical_rate=0.60)
    assert proof.met is False
    assert "stays above the warning threshold of 70.0 %" in proof.reason
    assert "objective 15 points in 2h not met" in shop.alert(NEXT_NIGHT)


def test_fallen_traffic_breaks_the_objective_next_morning(shop):
    shop.traffic(1.5, NOW)
    assert shop.proof(NOW).met
    shop.traffic(0.75, NEXT_NIGHT)
    proof = shop.proof(NEXT_NIGHT)
    assert proof.met is False
    assert "scores an hour are too few" in proof.reason
    assert shop.alert(NEXT_NIGHT)


def test_judge_found_blind_by_labels_breaks_the_objective_next_morning(shop):
    shop.traffic(3.0, NOW)
    assert shop.proof(NOW).met
    shop.judged(60)
    # Of its passes and of its failures people call every second answer good.
    labels = [
        LabelRecord(sample_id=key, label=i // 2 % 2 == 0, drawn=True)
        for i, key in enumerate(shop.samples)
    ]
    with shop.store.write() as connection:
        take_labels(connection, labels, annotator="ann", now=NOW)
    shop.traffic(3.0, NEXT_NIGHT)
    proof = shop.proof(NEXT_NIGHT)
    assert (proof.met, proof.found) == (False, 0)
    assert "by its labels" in proof.reason


def test_period_without_scores_breaks_the_objective_next_morning(shop):
    shop.traffic(3.0, NOW)
    assert shop.proof(NOW).met
    proof = shop.proof(NEXT_NIGHT)  # no score since
    assert (proof.met, proof.reason) == (False, "no scores since 2026-01-01 12:00 UTC")
    assert shop.alert(NEXT_NIGHT)


def test_proof_runs_once_a_night_and_is_deleted_with_its_objective(shop):
    shop.traffic(3.0, NOW)
    first = shop.proof(NOW)
    assert shop.proof(NOW + timedelta(minutes=10)) == first
    shop.traffic(3.0, NEXT_NIGHT)
    assert shop.proof(NEXT_NIGHT).made_at == NEXT_NIGHT
    assert shop.proof(NEXT_NIGHT, objectives=[]) is None


def test_false_alarm_budget_above_the_objective_misses_it(shop):
    shop.traffic(3.0, NOW)
    proof = shop.proof(NOW, false_alarms_per_month=5.0)
    assert proof.met is False
    assert "5 false alarms a month, the objective 1" in proof.reason
