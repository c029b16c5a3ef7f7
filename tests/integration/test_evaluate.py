"""From buckets to verdicts, changes and alerts, in one transaction under the lease."""

import io
from datetime import UTC, datetime, timedelta

import pytest
from rich.console import Console

from alerts.queries import deliveries, incidents_since
from alerts.routing import Recipient
from monitor.errors import LeaseLostError
from monitor.models import ErrorInfo, Evaluation, Status
from monitor.report.text import render_status
from monitor.settings import Settings
from monitor.store.engine import acquire
from monitor.store.ledger import Entry, Kind, book
from monitor.store.verdicts import read_changes, read_verdicts
from monitor.store.write import record
from monitor.testing import make_evaluation, make_interaction, make_sample
from support.sent_messages import messages
from workers.evaluate import Evaluator
from workers.reports import read_status
from workers.scoring_run import ScoringRules, result_of

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
SETTINGS = Settings(
    status_policy="point_min_n",
    min_n=10,
    warning_for_s=0,
    critical_for_s=0,
    resolve_after_s=0,
    status_window_s=3600,
)
KEY = ("support-bot", "groundedness", "*", 3600)
ON_CALL = Recipient("slack", "")


@pytest.fixture
def world(store):
    return World(store)


class World:
    """A store with an evaluator, and a clock that the test moves."""

    def __init__(self, store):
        self.store = store
        self.now = NOW
        self.lease = acquire(store, "scheduler", "test", ttl_s=600)
        self.evaluator = Evaluator(
            store=store,
            settings=SETTINGS,
            recipients=[ON_CALL],
        )

    def scored(self, *scores, n=1):
        evaluations = [make_evaluation(score=score) for score in scores for _ in range(n)]
        self.write(evaluations)

    def write(self, evaluations):
        rules = ScoringRules(pass_score=0.7, bucket_s=60)
        results = [
            result_of(
                make_sample(make_interaction(), sampled_at=self.now), [e], rules, now=self.now
            )
            for e in evaluations
        ]
        with self.store.write() as connection:
            record(connection, results, now=self.now, bucket_s=60)

    def evaluate(self, after_s=60.0):
        self.now += timedelta(seconds=after_s)
        return self.evaluator.run(self.lease, now=self.now)

    def verdict(self):
        with self.store.read() as connection:
            return read_verdicts(connection)[KEY]

    def incidents(self):
        with self.store.read() as connection:
            return incidents_since(connection, NOW - timedelta(days=1))


def printed(renderable):
    console = Console(width=120, file=io.StringIO())
    console.print(renderable)
    return console.file.getvalue()


def test_every_window_gets_a_verdict(world):
    world.scored(0.9, n=12)
    world.evaluate()
    with world.store.read() as connection:
        windows = {key[3] for key in read_verdicts(connection)}
    assert windows == {300, 3600, 86_400}


def test_verdict_uses_only_samples_in_the_window(world):
    world.scored(0.1, n=12)
    world.evaluate(after_s=7200)
    world.scored(0.9, n=12)
    world.evaluate()
    verdict = world.verdict()
    assert (verdict.status, verdict.n) == (Status.HEALTHY, 12)


def test_status_says_what_was_not_scored_and_why(world):
    world.scored(0.9, n=3)
    error = ErrorInfo(type="TimeoutError", message="late", code="timeout")
    like = make_evaluation()
    named = {
        name: getattr(like, name)
        for name in ("target_event_id", "evaluator_name", "evaluator_version")
    }
    world.write([Evaluation.failed(error=error, **named)])
    world.write([Evaluation.skipped(reason="no_context", **named)] * 2)
    with world.store.write() as connection:
        book(
            connection,
            [Entry("support-bot", int(world.now.timestamp()), Kind.DROPPED, "buffer_full", 5)],
        )
    world.evaluate()
    found = read_status(world.store, SETTINGS, now=world.now, with_reasons=True)
    said = " ".join(printed(render_status(found)).split())
    assert "support-bot, not scored in the last 1 h: samples dropped 5 (buffer_full 5)" in said
    assert "groundedness failed 1 of 4 (timeout), skipped 2 of 6 (no_context)" in said


def test_status_does_not_count_samples_that_a_cascade_kept_from_its_judge(world):
    world.scored(0.9, n=3)
    like = make_evaluation()
    named = {
        name: getattr(like, name)
        for name in ("target_event_id", "evaluator_name", "evaluator_version")
    }
    world.write([Evaluation.skipped(reason="not_asked", **named)] * 20)
    world.evaluate()
    found = read_status(world.store, SETTINGS, now=world.now, with_reasons=True)
    assert found.apps[0].metrics[0].skipped == {"not_asked": 20}
    assert "not scored" not in printed(render_status(found))


def test_status_without_anything_missing_says_nothing_of_it(world):
    world.scored(0.9, n=3)
    world.evaluate()
    found = read_status(world.store, SETTINGS, now=world.now, with_reasons=True)
    assert "not scored" not in printed(render_status(found))


def test_window_before_is_the_reference(world):
    world.scored(0.9, n=20)
    world.evaluate(after_s=4000)
    world.scored(0.2, n=20)
    world.evaluate(after_s=120)
    drift = world.verdict().drift
    assert (drift.reference_n, drift.reference_pass_rate, drift.ks) == (20, 1.0, 1.0)


def test_incident_that_began_before_the_reference_is_left_out(world):
    world.evaluator.settings = SETTINGS.model_copy(
        update={"windows": SETTINGS.windows.model_copy(update={"reference_s": 4 * 3600})}
    )
    world.scored(0.1, n=20)
    world.evaluate()
    for hours in (6, 1):
        world.now += timedelta(hours=hours)
        world.scored(0.1, n=20)
        world.evaluate()
    world.now += timedelta(hours=2)
    world.scored(0.9, n=20)
    world.evaluate()
    assert world.verdict().drift is None


def test_concurrent_judges_do_not_alternate_in_the_status(world):
    for _ in range(4):
        for version in ("old", "new"):
            world.write([make_evaluation(score=0.1, evaluator_version=version) for _ in range(12)])
            world.evaluate()
    assert world.verdict().evaluator_version.startswith("new")
    # What the old one found was closed once, and the new one found it too.
    assert sorted(incident.is_open for incident in world.incidents()) == [False, True]


def test_replaced_judge_gives_the_status_until_its_samples_stop(world):
    for version in ("old", "new"):
        world.write([make_evaluation(evaluator_version=version) for _ in range(12)])
    world.evaluate(after_s=4000)
    world.write([make_evaluation(evaluator_version="old") for _ in range(12)])
    world.evaluate()
    assert world.verdict().evaluator_version.startswith("old")


def test_only_the_status_window_has_a_reference(world):
    world.scored(0.9, n=20)
    world.evaluate(after_s=4000)
    world.scored(0.2, n=20)
    world.evaluate(after_s=120)
    with world.store.read() as connection:
        found = read_verdicts(connection)
    assert found[(*KEY[:3], 86_400)].drift is None


def test_status_change_is_recorded_once(world):
    world.scored(0.9, n=12)
    assert [change.after for change in world.evaluate()] == [Status.HEALTHY] * 3
    assert world.evaluate() == []
    with world.store.read() as connection:
        assert len(read_changes(connection, since=NOW)) == 3


def test_drop_fires_once_and_recovery_resolves_once(world):
    world.scored(0.9, n=12)
    world.evaluate()
    for _ in range(4):
        world.scored(0.1, n=12)
        world.evaluate()
    for _ in range(4):
        world.scored(0.95, n=400)
        world.evaluate()
    (incident,) = world.incidents()
    assert incident.resolved_at is not None
    with world.store.read() as connection:
        events = [str(item.event) for item in deliveries(connection)]
    assert sorted(events) == ["fired", "resolved"]


def test_failing_judge_fires_no_quality_alert(world):
    error = ErrorInfo(type="JudgeUnavailableError", message="away", code="judge_unavailable")
    failed = [
        Evaluation.failed(
            target_event_id="i", evaluator_name="groundedness", evaluator_version="1", error=error
        )
        for _ in range(40)
    ]
    world.write(failed)
    for _ in range(3):
        world.evaluate()
    assert world.verdict().status is Status.BLIND
    assert [incident.metric for incident in world.incidents()] == ["monitor:blind"]


def test_stopped_traffic_leads_to_insufficient_data(world):
    world.scored(0.9, n=12)
    world.evaluate()
    world.evaluate(after_s=4000)
    assert world.verdict().status is Status.INSUFFICIENT_DATA


def test_unreadable_vitals_are_reported_and_cost_no_verdict(world):
    world.evaluator.conditions = lambda _: {}["a kind of a newer program"]
    world.scored(0.1, n=20)
    for _ in range(3):
        world.evaluate()
    assert world.verdict().status is Status.CRITICAL
    metrics = {incident.metric for incident in world.incidents()}
    assert metrics == {"groundedness", "monitor:store_unsafe"}


def test_evaluator_that_lost_the_lease_writes_nothing(world):
    world.scored(0.1, n=12)
    acquire(world.store, "scheduler", "test", ttl_s=-1)
    acquire(world.store, "scheduler", "another", ttl_s=60)
    with pytest.raises(LeaseLostError):
        world.evaluate()
    with world.store.read() as connection:
        assert read_verdicts(connection) == {}
    assert world.incidents() == []


def test_message_carries_the_pass_rate_trend(world):
    world.scored(0.9, n=20)
    world.now += timedelta(minutes=30)
    world.scored(0.2, n=40)
    world.evaluate()
    with world.store.read() as connection:
        (message,) = messages(connection)
    assert [rate for rate in message.trend if rate is not None] == [1.0, 0.0]
    assert None in message.trend
