"""What changed, which segments and how the monitor does are frozen into the message."""

import random
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import delete, select

from alerts.channels.base import Channel, Receipt
from alerts.decide import decide
from alerts.dispatch import Dispatcher
from alerts.message import Example, render
from alerts.model import Background, Snapshot
from alerts.routing import Recipient
from alerts.state import Timers
from monitor.models.alerting import AlertEvent
from monitor.models.insight import AppInsight, Attribution, Deploy, InputDrift, Insight
from monitor.models.insight import SegmentEffect as Effect
from monitor.models.status import Status
from monitor.store.alert_tables import outbox
from monitor.store.ledger import Entry, Kind, book
from monitor.store.tables import evaluations, samples, scores
from monitor.store.verdicts import ReleaseMark, add_mark, save_insights
from monitor.store.write import record
from monitor.testing import make_evaluation, make_interaction, make_sample, make_verdict
from workers.scoring_run import ScoringRules, result_of

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
APP, METRIC = "support-bot", "groundedness"
AT_ONCE = Timers(warning_for_s=0, critical_for_s=0, resolve_after_s=0, repeat_after_s=3600)


def ago(minutes):
    return NOW - timedelta(minutes=minutes)


def tell(store, status, now=NOW, **changes):
    with store.write() as connection:
        decide(
            connection,
            [make_verdict(status, now, **changes)],
            now=now,
            timers=AT_ONCE,
            channels=[Recipient("slack")],
        )
    with store.read() as connection:
        newest = select(outbox.c.snapshot).order_by(outbox.c.sequence.desc()).limit(1)
        return Snapshot.model_validate(connection.execute(newest).scalar_one())


def marked(store, release, at, app=APP, note=""):
    with store.write() as connection:
        mark = ReleaseMark(app=app, release=release, at=at, note=note, made_at=at)
        add_mark(connection, mark)


def explained(store, change=-0.3, made_at=NOW, deploys=(), inputs=()):
    def effect(segment, explains):
        return Effect(
            segment=segment, n_before=900, n_after=120, share_before=0.5, share_after=0.5,
            rate_before=0.94, rate_after=0.41, rate_effect=-0.2, mix_effect=0, low=-0.3,
            high=-0.1, explains=explains, p_value=1e-9, named=True,
        )  # fmt: skip

    found = Attribution(
        since=ago(40), reference="day", rate_before=0.94, rate_after=0.64,
        n_before=900, n_after=240,
        change=change, low=-0.4, high=-0.2, mix={}, considered=9,
        named=[effect("region=eu", 0.2), effect("release=2.1", 0.7)],
    )  # fmt: skip
    insight = Insight(
        app=APP, metric=METRIC, made_at=made_at, attribution=found, deploys=deploys,
        evaluator_version="judge-8", version_since=ago(20),
    )  # fmt: skip
    of_app = AppInsight(app=APP, made_at=made_at, inputs=inputs)
    with store.write() as connection:
        save_insights(connection, [insight], [of_app])


def test_only_a_deploy_shortly_before_the_fall_is_named(store):
    marked(store, "2.1", ago(30), note="new prompt")
    marked(store, "2.0", ago(600))
    marked(store, "9.9", ago(30), app="other")
    found = tell(store, Status.CRITICAL).background
    assert found.changed == "release 2.1 at 03-01 11:30 UTC (new prompt)"


def test_onset_decides_how_far_back_deploys_are_searched(store):
    marked(store, "2.0", ago(300))
    onset = {"onset": ago(200), "onset_earliest": ago(250), "onset_latest": ago(190)}
    found = tell(store, Status.CRITICAL, **onset)
    assert found.background.changed.startswith("release 2.0")
    text = render(found, {AlertEvent.FIRED}).text
    assert "most likely began 2026-03-01 08:40 UTC (07:50 to 08:50)" in text


def test_segment_that_explains_the_fall_is_named_with_its_contribution(store):
    deploy = Deploy(release="2.1", at=ago(25), source="tag", verdict="worse")
    moved = InputDrift(
        feature="query_chars", before="40", after="310", n_before=900, n_after=240,
        distance=0.5, p_value=1e-9, moved=True,
    )  # fmt: skip
    explained(store, deploys=[deploy], inputs=[moved])
    found = tell(store, Status.CRITICAL).background
    assert found.segments.split("; ") == [
        "release=2.1: 94 % to 41 % (n = 120), 70 % of the fall",
        "region=eu: 94 % to 41 % (n = 120), 20 % of the fall",
    ]
    assert found.changed.split("; ") == [
        "release 2.1 since 03-01 11:35 UTC",
        "evaluator judge-8 since 03-01 11:40 UTC",
        "query chars went from 40 to 310",
    ]


@pytest.mark.parametrize("changes", [{"made_at": ago(60)}, {"change": 0.2}])
def test_explanation_that_is_old_or_of_a_rise_is_left_out(store, changes):
    explained(store, **changes)
    assert tell(store, Status.CRITICAL).background.segments == ""


def test_message_shows_the_state_of_the_pipeline(store):
    start_s = int(ago(5).timestamp())
    counts = [("seen", "", 9000), ("sampled", "", 900), ("scored", "", 880), ("failed", "timeout", 12)]  # fmt: skip  # noqa: E501
    with store.write() as connection:
        book(connection, [Entry(APP, start_s, Kind(k), reason, n) for k, reason, n in counts])
    assert tell(store, Status.CRITICAL).background.pipeline == (
        "9,000 seen, 900 sampled, 880 scored, 12 failed in 15 min (most of all timeout);"
        " the newest score is 5 min old"
    )


def test_message_has_no_background_lines_without_background(store):
    found = tell(store, Status.CRITICAL)
    assert found.background == Background()
    text = render(found, {AlertEvent.FIRED}).text
    assert not {"Changed", "Where", "Monitor"} & set(text.split())


def test_resolved_message_has_no_background(store):
    marked(store, "2.1", ago(30))
    tell(store, Status.CRITICAL)
    over = tell(store, Status.HEALTHY, NOW + timedelta(minutes=1))
    assert (over.event, over.background) == (AlertEvent.RESOLVED, Background())


class Wire(Channel):
    """A channel that takes everything and keeps it."""

    name, addresses, timeout_s = "slack", ("",), 5.0

    def __init__(self):
        self.messages = []

    def send(self, message, delivery_id):
        self.messages.append(message)
        return Receipt(answer="taken")


def failed_sample(store, question, score, said):
    sample = make_sample(
        make_interaction(app=APP, query=question, output="Our CEO approves refunds."),
        sampled_at=ago(1),
    )
    evaluation = make_evaluation(score=score, explanation=said)
    rules = ScoringRules(pass_score=0.7, bucket_s=60, dimensions=())
    with store.write() as connection:
        record(connection, [result_of(sample, [evaluation], rules, now=NOW)], now=NOW, bucket_s=60)
    return sample


def test_message_shows_the_worst_sample_and_links_to_it(store):
    failed_sample(store, "is hail covered", 0.4, "half of it is supported")
    worst = failed_sample(store, "is water\ndamage covered", 0.05, "not in the sources: CEO")
    with store.write() as connection:
        version = connection.execute(
            select(evaluations.c.evaluator_version).distinct()
        ).scalar_one()
        found = make_verdict(Status.CRITICAL, NOW, since=ago(2), evaluator_version=version)
        decide(
            connection, [found], now=NOW, timers=AT_ONCE, channels=[Recipient("slack")],
            report_url="https://status.example.org",
        )  # fmt: skip
        stored = connection.execute(select(outbox.c.snapshot)).scalar_one()
    assert stored["example_id"] == worst.sample_id
    assert "water" not in str(stored)
    wire = Wire()
    Dispatcher(store, {"slack": wire}, random.Random(1), clock=lambda: NOW).run_once()
    (message,) = wire.messages
    assert message.example == Example(
        question="is water damage covered",
        answer="Our CEO approves refunds.",
        finding="not in the sources: CEO",
        link=f"https://status.example.org/sample/{worst.sample_id}",
    )
    assert message.link.startswith("https://status.example.org/incidents/")


def test_sample_of_another_scorer_is_not_shown_as_an_example(store):
    failed_sample(store, "is hail covered", 0.4, "half of it is supported")
    told = tell(store, Status.CRITICAL, since=ago(2), evaluator_version="another")
    assert told.example_id == ""


def test_sample_that_was_deleted_is_not_shown(store):
    sample = failed_sample(store, "is hail covered", 0.4, "half of it")
    tell(store, Status.CRITICAL, since=ago(2))
    with store.write() as connection:
        mine = samples.c.sample_id == sample.sample_id
        position = select(samples.c.position).where(mine).scalar_subquery()
        connection.execute(delete(scores).where(scores.c.position == position))
        connection.execute(delete(samples).where(mine))
    wire = Wire()
    Dispatcher(store, {"slack": wire}, random.Random(1), clock=lambda: NOW).run_once()
    assert wire.messages[0].example is None


def test_late_counters_do_not_distort_the_pipeline_line(store):
    start_s = int(ago(5).timestamp())
    with store.write() as connection:
        counts = [("seen", 45), ("sampled", 45), ("scored", 85)]
        book(connection, [Entry(APP, start_s, Kind(k), "", n) for k, n in counts])
    assert tell(store, Status.CRITICAL).background.pipeline.startswith("85 scored in 15 min")
