"""Labels verify a level: it is what people see, and status and interval agree."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from alerts.routing import Recipient
from monitor.models import Status
from monitor.models.evaluation import OWN_LEAST, PassRule
from monitor.settings import Settings
from monitor.store.engine import acquire
from monitor.store.labels import LabelRecord, draw, take_labels
from monitor.store.query import read_level_lines
from monitor.store.verdicts import read_verdicts
from monitor.store.write import record
from monitor.testing import make_evaluation, make_interaction, make_sample
from workers.evaluate import Evaluator
from workers.level import drawn_labels
from workers.scoring_run import ScoringRules, result_of

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
KEY = ("support-bot", "groundedness", "*", 3600)
SETTINGS = Settings()
LOCAL = ("local-3-aa", PassRule(OWN_LEAST, own=True))
JUDGE = ("openai-m-1", PassRule(0.7))


class World:
    """An app whose answers are good or bad, an evaluator that errs, and people who do not."""

    def __init__(self, store, kind, hit=0.95, miss=0.25):
        self.store, (self.version, self.rule) = store, kind
        self.hit, self.miss = hit, miss
        self.now, self.rng = NOW, np.random.default_rng(3)
        self.lease = acquire(store, "scheduler", "test", ttl_s=600)
        self.answers = {}
        self.evaluator = Evaluator(
            store=store,
            settings=SETTINGS,
            recipients=[Recipient("slack", "")],
        )

    def minutes(self, count, *, level, release="v1", n=40):
        rules = ScoringRules(pass_score=0.7, bucket_s=60)
        for _ in range(count):
            results = []
            for _ in range(n):
                good = self.rng.random() < level
                high = self.rng.random() < (self.hit if good else self.miss)
                score = self.rng.uniform(0.75, 1.0) if high else self.rng.uniform(0.25, 0.6)
                # Ids decide what is drawn: the same in each run.
                sample_id = f"{len(self.answers):032x}"
                made_of = make_interaction(release=release)
                sample = make_sample(made_of, sample_id=sample_id, sampled_at=self.now)
                self.answers[sample.sample_id] = (good, high)
                criteria = self.rule.criteria()
                made = make_evaluation(
                    score=score, evaluator_version=self.version, criteria=criteria
                )
                results.append(result_of(sample, [made], rules, now=self.now))
            with self.store.write() as connection:
                record(connection, results, now=self.now, bucket_s=60)
            verdict = self.evaluate()
        return verdict

    def label(self, n):
        """Label answers as the queue draws them."""
        for _ in range(n):
            with self.store.write() as connection:
                key = draw(connection, app=KEY[0], metric=KEY[1], annotator="ann").sample_id
                record = LabelRecord(sample_id=key, label=self.answers[key][0], drawn=True)
                take_labels(connection, [record], annotator="ann", now=self.now)
        return self.evaluate()

    def evaluate(self, after_s=60.0):
        self.now += timedelta(seconds=after_s)
        self.evaluator.run(self.lease, now=self.now)
        with self.store.read() as connection:
            verdict = read_verdicts(connection)[KEY]
        agrees(verdict)
        return verdict


def agrees(verdict):
    """Check the status against the interval beside it."""
    high = verdict.high
    if verdict.status is Status.CRITICAL:
        assert high < 0.7
    if verdict.status is Status.WARNING:
        assert 0.7 <= high < 0.85
    if verdict.status is Status.HEALTHY:
        assert high >= 0.85
    if verdict.pass_rate is not None:
        assert verdict.low <= verdict.pass_rate <= high


@pytest.fixture
def world(store):
    return lambda kind, **errors: World(store, kind, **errors)


def test_level_of_the_local_scorer_is_not_verified_until_fifty_answers_are_labelled(world):
    app = world(LOCAL)
    before = app.minutes(15, level=0.95)
    assert (before.level.verified, before.level.needs) == (
        False, "label 50 answers, or ask a judge"
    )  # fmt: skip
    assert "20 so far" in app.label(20).level.needs
    after = app.label(30)
    assert (after.level.verified, after.level.by, after.status) == (True, "labels", Status.HEALTHY)
    assert after.low <= 0.95 <= after.high
    assert after.pass_rate == pytest.approx(0.95, abs=0.1)
    assert after.level.pass_rate > 0.9  # the evaluator's own stays beside it


def test_queue_of_a_local_scorer_draws_from_its_low_middle_and_high_scores(world):
    app = world(LOCAL)
    app.minutes(15, level=0.5)
    app.label(20)
    with app.store.read() as connection:
        ((key, found),) = drawn_labels(connection, since=NOW).items()
        lines = read_level_lines(connection, key)
    assert len(lines) == 2
    assert min(np.bincount(np.searchsorted(lines, [100 * label.score for label in found]))) >= 5


def test_verified_level_warns_of_a_fall_the_pass_rate_misses(world):
    app = world(LOCAL)
    app.minutes(15, level=0.95)
    app.label(50)
    fallen = app.minutes(12, level=0.3)
    assert fallen.level.pass_rate > 0.85
    assert fallen.status is Status.WARNING
    assert "label new ones" in fallen.reason
    assert fallen.pass_rate < 0.75


def test_level_corrects_the_bias_of_a_harsh_judge(world):
    app = world(JUDGE, hit=0.75, miss=0.05)
    assert app.minutes(6, level=0.97).status is not Status.HEALTHY
    assert app.minutes(1, level=0.97).level.by == "judge"
    app.label(50)
    after = app.minutes(12, level=0.97)
    assert (after.status, after.level.by) == (Status.HEALTHY, "labels")
    assert after.low <= 0.97 <= after.high
    assert after.pass_rate > after.level.pass_rate + 0.05
    assert app.minutes(10, level=0.3).status is Status.CRITICAL


def test_labels_show_that_an_app_was_bad_from_the_start(world):
    app = world(LOCAL)
    assert app.minutes(15, level=0.5).status is Status.HEALTHY
    sick = app.label(50)
    assert sick.status is Status.WARNING
    assert sick.low <= 0.5 <= sick.high


def test_labels_apply_only_to_their_release(world):
    app = world(LOCAL)
    app.minutes(15, level=0.95)
    assert app.label(50).level.verified
    new = app.minutes(3, level=0.95, release="v2")
    assert (new.level.verified, new.level.needs) == (
        False, "release v2: label 30 answers (0 so far)"
    )  # fmt: skip


def test_labels_expire_after_ninety_days(world):
    app = world(LOCAL)
    app.minutes(15, level=0.95)
    assert app.label(50).level.verified
    app.now += timedelta(days=91)
    assert "older than 90 days" in app.minutes(1, level=0.95).level.needs


def test_judge_that_passes_failed_answers_is_reported_unfit(world):
    app = world(JUDGE, hit=0.9, miss=0.85)
    app.minutes(10, level=0.6)
    assert "does not tell good answers from bad" in app.label(60).level.needs


def test_cascade_labels_are_weighted_by_the_judge_probability(store):
    with store.write() as connection:
        for i, probability in enumerate((0.1, 0.5, 1.0)):
            noted = {
                "judged": True, "judge_probability": probability, "answered_share": 1.0,
                "local_score": 0.5, "pass_estimate": 1.0, "score_estimate": 0.9,
            }  # fmt: skip
            made = make_evaluation(evaluator_version="cascade-j-l", metadata=noted)
            sample = make_sample(make_interaction(id=f"id-{i}"), sampled_at=NOW)
            rules = ScoringRules(pass_score=0.7, bucket_s=60)
            record(connection, [result_of(sample, [made], rules, now=NOW)], now=NOW, bucket_s=60)
            label = LabelRecord(sample_id=sample.sample_id, label=True, drawn=True)
            take_labels(connection, [label], annotator="ann", now=NOW + timedelta(seconds=i))
        (found,) = drawn_labels(connection, since=NOW - timedelta(days=1)).values()
    assert [label.weight for label in found] == pytest.approx([10.0, 2.0, 1.0])
