"""What users say of answers: counted in the app, kept once, joined by trace in either order."""

import json
import time
from datetime import UTC, datetime, timedelta

import pytest
import redis
from sqlalchemy import select

from monitor.hook import Hook
from monitor.hook.recorder import MOST_WAITING
from monitor.queue import names
from monitor.settings.tables import RetentionTimes
from monitor.store.engine import acquire
from monitor.store.feedback import (
    Feedback,
    complained_of,
    count_feedback,
    feedback_of,
    read_complaints,
    save_feedback,
)
from monitor.store.ledger import Kind, read_totals
from monitor.store.retention import Retention
from monitor.store.tables import feedback as table
from monitor.store.write import record
from monitor.testing import make_interaction, make_sample
from workers.maintenance import Collector, FeedbackCollector
from workers.operations import reconcile
from workers.scoring_run import ScoringRules, result_of

NOW = datetime.now(UTC)
pytestmark = pytest.mark.usefixtures("fresh_now")
RULES = ScoringRules(pass_score=0.7, bucket_s=60)


@pytest.fixture
def hook(redis_url):
    """A hook that samples nothing: feedback is sent all the same."""
    hook = Hook(app="bot", sample_rate=0.0, redis_url=redis_url)
    yield hook
    hook.close()


def waiting(redis_url):
    with redis.Redis.from_url(redis_url) as client:
        return [json.loads(fields[b"body"]) for _, fields in client.xrange(names.FEEDBACK)]


def collect(redis_url, store):
    lease = acquire(store, "scheduler", "test", ttl_s=600)
    with redis.Redis.from_url(redis_url) as client:
        new = FeedbackCollector(client, store, 60).run(lease)
        Collector(client, store, 60).run(lease)
    return new


def say(connection, trace_id, *, good=False, number=0, at=None, app="bot"):
    at = at or NOW
    item = Feedback(
        feedback_id=f"{trace_id}-{number}", app=app, trace_id=trace_id, good=good, given_at=at
    )
    return save_feedback(connection, [item], source="hook", now=at, bucket_s=60)


def put(connection, trace_id):
    sample = make_sample(make_interaction(app="bot", trace_id=trace_id), sampled_at=NOW)
    record(connection, [result_of(sample, (), RULES, now=NOW)], now=NOW, bucket_s=60)
    return sample.sample_id


def test_feedback_is_delivered_at_exit_even_without_samples(redis_url):
    hook = Hook(app="bot", sample_rate=0.0, redis_url=redis_url)
    hook.feedback(trace_id="t", good=True)
    assert hook.close(60)
    assert len(waiting(redis_url)) == hook.stats()["feedback"]["sent"] == 1


def test_feedback_reaches_redis_masked_with_its_trace(hook, redis_url):
    hook.init(app="bot", sample_rate=0.0, redis_url=redis_url, mask="key")
    hook.feedback(trace_id="t1", good=False, comment="it showed sk-aaaaaaaaaaaaaaaaaaaaaaaa to me")
    assert hook.flush(60)
    (found,) = waiting(redis_url)
    assert (found["app"], found["trace_id"], found["good"]) == ("bot", "t1", False)
    assert found["comment"] == "it showed [KEY] to me"
    assert hook.stats()["feedback"] == {"given": 1, "sent": 1, "dropped": {}, "waiting": 0}


@pytest.mark.parametrize(
    "arguments",
    [{"trace_id": "", "good": True}, {"trace_id": None, "good": True},
     {"trace_id": "t", "good": "yes"}, {"trace_id": "t", "good": True, "comment": 7}],
)  # fmt: skip
def test_invalid_feedback_is_counted_and_raises_nothing(hook, arguments):
    hook.feedback(**arguments)
    assert hook.stats()["feedback"]["dropped"] == {"invalid": 1}


def test_feedback_buffer_is_bounded_while_redis_is_unreachable():
    hook = Hook(app="bot", redis_url="redis://127.0.0.1:1/0", sample_rate=0.0)
    for number in range(MOST_WAITING + 500):
        hook.feedback(trace_id=f"t{number}", good=True)
    hook.close(timeout=0.1)
    while (found := hook.stats()["feedback"])["waiting"]:  # the sender's thread ends by itself
        time.sleep(0.01)
    assert found["dropped"]["buffer_full"] >= 400
    assert found["given"] == found["sent"] + sum(found["dropped"].values())
    assert (found["sent"], found["waiting"]) == (0, 0)


def test_disabled_hook_accepts_no_feedback(redis_url):
    hook = Hook(app="bot", redis_url=redis_url, enabled=False)
    hook.feedback(trace_id="t", good=True)
    assert hook.flush(60)
    assert (hook.stats()["feedback"]["given"], waiting(redis_url)) == (0, [])


def test_comments_are_not_sent_when_only_metadata_is_captured(redis_url):
    hook = Hook(app="bot", sample_rate=0.0, redis_url=redis_url, capture="metadata")
    hook.feedback(trace_id="t", good=False, comment="my name is Eve")
    assert hook.flush(60)
    assert waiting(redis_url)[0]["comment"] == ""
    hook.close()


def test_feedback_is_stored_once_and_the_ledger_balances(hook, redis_url, store):
    for number in range(3):
        hook.feedback(trace_id=f"t{number}", good=number == 0)
    hook.feedback(trace_id="", good=True)
    assert hook.flush(60)
    with redis.Redis.from_url(redis_url) as client:
        entries = client.xrange(names.FEEDBACK)
        assert collect(redis_url, store) == 3
        for _, fields in entries:  # as after a death between the commit and the removal
            client.xadd(names.FEEDBACK, fields)
        assert collect(redis_url, store) == 0
        with store.read() as connection:
            booked = {b.reason: n for b, n in read_totals(connection)["bot"].items()
                      if b.kind in {Kind.FEEDBACK, Kind.FEEDBACK_STORED}}  # fmt: skip
        assert booked == {"given": 4, "sent": 3, "invalid": 1, "hook_good": 1, "hook_bad": 2}
        found = reconcile(client, store, now_s=time.time(), window_s=3600, bucket_s=60)
    assert found.holds, [item for check in found.checks for item in check.wrong]
    assert "feedback sent = stored + waiting" in {check.name for check in found.checks}


def test_malformed_entry_is_counted_and_does_not_stop_the_batch(redis_url, store):
    with redis.Redis.from_url(redis_url) as client:
        client.xadd(names.FEEDBACK, {"app": "bot", "body": "{"})
    assert collect(redis_url, store) == 0
    assert waiting(redis_url) == []
    with store.read() as connection:
        assert read_totals(connection)["bot"][Kind.FEEDBACK_STORED, "unreadable"] == 1


def test_feedback_joins_its_sample_whichever_arrives_first(store):
    with store.write() as connection:
        say(connection, "before")
        first = put(connection, "before")
        second = put(connection, "behind")
        say(connection, "behind")
        say(connection, "never sampled", good=True)
        say(connection, "behind", app="shop")
        found = count_feedback(connection, "bot", since=NOW - timedelta(hours=1))
        examples = complained_of(connection, "bot", since=NOW - timedelta(hours=1), limit=9)
    assert (found.good, found.bad, found.joined) == (1, 2, 2)
    assert set(examples) == {first, second}


def test_latest_feedback_on_an_answer_counts(store):
    with store.write() as connection:
        say(connection, "t", good=False)
        say(connection, "t", good=True, number=1, at=NOW + timedelta(seconds=5))
        found = count_feedback(connection, "bot", since=NOW - timedelta(hours=1))
        assert (found.good, found.bad) == (1, 0)
        assert [item.good for item in feedback_of(connection, "bot", "t")] == [False, True]


def test_more_complaints_than_before_are_reported_as_a_rise(store):
    with store.write() as connection:
        for number in range(100):
            early = NOW - timedelta(days=3)
            say(connection, "early", good=number % 10 > 0, number=number, at=early)
        for number in range(30):
            say(connection, "late", good=number % 2 > 0, number=number)
        found = read_complaints(connection, "bot", now=NOW + timedelta(minutes=1))
    assert (found.good, found.bad, found.good_before, found.bad_before) == (15, 15, 90, 10)
    assert found.has_risen


def test_feedback_is_deleted_with_the_texts(store):
    with store.write() as connection:
        say(connection, "t", at=NOW - timedelta(days=40))
        say(connection, "t", number=1)
    Retention(store=store, kept=RetentionTimes()).run(NOW.timestamp())
    with store.read() as connection:
        assert connection.execute(select(table.c.feedback_id)).scalars().all() == ["t-1"]
