"""A backlog: the newest first, the rest later, nothing twice, and what is too old expires."""

import time
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from monitor.queue import names
from monitor.queue.consumer import Consumer, NewestFirst, backlog, connect
from monitor.queue.wire import encode
from monitor.settings import Settings
from monitor.settings.tables import HookLimits
from monitor.store.ledger import Booking, Kind, read_totals
from monitor.store.tables import dead_letters, samples
from monitor.testing import make_interaction, make_sample
from workers.context import Components
from workers.maintenance import Expirer
from workers.operations import reconcile
from workers.self_monitoring import QueueWatch

APP = "support-bot"
SECRET = "what only this user knows"


@pytest.fixture
def client(redis_url):
    client = connect(redis_url)
    Consumer(client, "a").ensure_group()
    yield client
    client.close()


def put(client, ago_s, n=1, **fields):
    """Add samples as if Redis had taken them so long ago; the oldest must come first."""
    at = datetime.now(UTC) - timedelta(seconds=ago_s)
    ids = []
    for _ in range(n):
        sample = make_sample(make_interaction(timestamp=at, **fields), sampled_at=at)
        entry_id = f"{int(at.timestamp() * 1000)}-*"
        ids.append(client.xadd(names.SAMPLES, encode(sample), id=entry_id).decode())
    return ids


def ids_of(entries):
    return [entry.entry_id for entry in entries]


def test_newest_entries_come_first_and_the_backlog_from_its_newest_end(client):
    old, new = put(client, 4000, 3) + put(client, 2000, 3), put(client, 1, 2)
    reader, order = Consumer(client, "a"), NewestFirst(client, "a")
    assert ids_of(reader.take(1)) == old[:1]
    assert order.skip_to(time.time() - 300)
    assert ids_of(reader.take(10)) == new
    assert ids_of(order.take_later(2)) == old[:-3:-1]
    assert ids_of(order.take_later(10)) == old[-3:0:-1]
    assert order.take_later(10) == []
    assert client.llen(names.LATER) == 0


def test_nothing_is_left_out_when_nothing_is_old(client):
    put(client, 1, 3)
    assert not NewestFirst(client, "a").skip_to(time.time() - 300)
    assert len(Consumer(client, "a").take(10)) == 3


def test_entry_taken_later_is_pending_with_one_delivery(client):
    put(client, 4000, 2)
    put(client, 1)
    order = NewestFirst(client, "a")
    order.skip_to(time.time() - 300)
    order.take_later(1)
    (pending,) = client.xpending_range(names.SAMPLES, names.GROUP, "-", "+", 10)
    assert pending["times_delivered"] == 1


def test_oldest_entry_is_taken_only_if_no_worker_has_it(client):
    old = put(client, 4000, 4)
    put(client, 1)
    busy, order = Consumer(client, "busy"), NewestFirst(client, "scheduler")
    busy.take(1)
    assert ids_of(order.take_oldest(10, before_s=time.time() - 300)) == old[1:]
    assert order.take_oldest(10, before_s=time.time() - 300) == []


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.tuples(st.sampled_from("tslo"), st.integers(1, 5)), max_size=25))
def test_every_entry_is_delivered_once_in_any_order_of_steps(client, steps):
    client.flushall()
    Consumer(client, "a").ensure_group()
    sent, got = [], []
    reader, order = Consumer(client, "a"), NewestFirst(client, "a")
    for number, (step, n) in enumerate(steps):
        sent += [
            client.xadd(names.SAMPLES, {"n": "1"}, id=f"{1000 * (number + 1)}-{i + 1}").decode()
            for i in range(n)
        ]
        if step == "t":
            # What was taken as the oldest may come once more, to those to whom it is new.
            got += [entry_id for entry_id in ids_of(reader.take(n)) if entry_id not in got]
        elif step == "s":
            order.skip_to(number + 0.5)
        else:
            old = step == "o"
            found = order.take_oldest(n, before_s=number / 2) if old else order.take_later(n)
            assert not set(ids_of(found)) & set(got)
            got += ids_of(found)
    while taken := reader.take(100) or order.take_later(100):
        got += [entry_id for entry_id in ids_of(taken) if entry_id not in got]
    assert sorted(got) == sorted(sent)


@pytest.fixture
def context(redis_url, store):
    url = store.engine.url.render_as_string(hide_password=False)
    made = Components(Settings(redis_url=redis_url, database_url=url, segments=()))
    Consumer(made.redis, "a").ensure_group()
    yield made
    made.close()


def expirer(context, *, samples=1000, megabytes=100):
    limits = HookLimits(queue_limit=samples, queue_limit_megabytes=megabytes)
    return Expirer(context.redis, context.store, context.rules, "s", limits)


def drain(context):
    made = context.scoring_run(lambda: True)
    made.idle_after_s = 0.05
    return made.run(budget_s=20)


def ledger(context):
    with context.store.read() as connection:
        return dict(read_totals(connection, APP).get(APP, {}))


def holds(context, sent):
    context.redis.hset(names.hook("h"), mapping={
        "app": APP, "host": "web", "pid": 1, "heartbeat_at_ms": 1, "seen": sent, "sampled": sent,
        "sent": sent,
    })  # fmt: skip
    context.redis.zadd(names.HOOKS, {"h": 1})
    found = reconcile(context.redis, context.store, now_s=time.time(), window_s=9e5, bucket_s=60)
    return {i.check for i in found.sums if not i.holds} <= {"hook counters = ledger"}


def test_sample_that_waited_a_day_expires_counted_and_without_texts(context):
    put(context.redis, 2 * 86_400, 600, output=SECRET)
    put(context.redis, 60, 3)
    assert expirer(context).run(None) == 600
    assert ledger(context) == {Booking(Kind.EXPIRED, "too_old"): 600}
    with context.store.read() as connection:
        stored = connection.execute(select(samples.c.payload)).scalars().all()
    assert SECRET not in str(stored)
    assert holds(context, 603)
    assert drain(context) == 3
    assert holds(context, 603)


def test_worker_does_not_score_what_is_too_old(context):
    put(context.redis, 2 * 86_400, 5)
    put(context.redis, 60, 2)
    drain(context)
    assert ledger(context) == {
        Booking(Kind.EXPIRED, "too_old"): 5, Booking(Kind.SCORED, ""): 2,
    }  # fmt: skip


def test_redelivered_sample_expires_once(context):
    sample = make_sample(sampled_at=datetime.now(UTC) - timedelta(days=2))
    for i in (1, 2):
        context.redis.xadd(names.SAMPLES, encode(sample), id=f"{i}-1")
    expirer(context).run(None)
    context.redis.xadd(names.SAMPLES, encode(sample))
    drain(context)
    assert ledger(context) == {Booking(Kind.EXPIRED, "too_old"): 1}


def test_oldest_samples_expire_when_the_queue_stays_full(context):
    put(context.redis, 3600, 95)
    assert expirer(context, samples=100).run(None) == 15
    assert ledger(context) == {Booking(Kind.EXPIRED, "no_room"): 15}
    assert context.redis.xlen(names.SAMPLES) == 80


def test_returned_samples_can_expire_for_room_too(context):
    put(context.redis, 3600, 600)
    worker = Consumer(context.redis, "w")
    worker.give_back(worker.take(300))
    assert expirer(context, samples=600).run(None) == 120
    assert holds(context, 600)


def test_oldest_waiting_samples_expire_while_older_ones_are_in_work(context):
    put(context.redis, 3600, 600)
    held = Consumer(context.redis, "w").take(300)
    assert expirer(context, samples=600).run(None) == 120
    assert context.redis.xpending(names.SAMPLES, names.GROUP)["pending"] == len(held)


def test_oldest_samples_expire_when_redis_memory_is_full(context):
    put(context.redis, 3600, 40, output="x" * 50_000)
    assert expirer(context, megabytes=1).run(None) > 15


def test_new_samples_never_expire_for_room(context):
    put(context.redis, 10, 100)
    assert expirer(context, samples=100).run(None) == 0


def test_unreadable_old_entry_becomes_a_dead_letter_instead_of_expiring(context):
    context.redis.xadd(names.SAMPLES, {"v": "1", "app": APP, "body": "{"}, id="1-1")
    expirer(context).run(None)
    assert ledger(context) == {Booking(Kind.FAILED, "invalid_record"): 1}
    with context.store.read() as connection:
        assert connection.execute(select(dead_letters.c.body)).scalar_one() == b"{"


def test_worker_that_is_behind_scores_the_newest_first(context):
    put(context.redis, 4000, 200)
    new = put(context.redis, 1, 20)
    scored = []
    made = context.scoring_run(lambda: True)
    made.idle_after_s = 0.05
    inner = made.scorer
    made.scorer = Noting(inner, scored)
    assert made.run(budget_s=30) == 220
    news = [i for i, age_s in enumerate(scored) if age_s < 300]
    assert len(news) == len(new)
    # The first window was taken before anybody could know.
    assert max(news) < 100
    assert context.redis.xlen(names.SAMPLES) == 0


class Noting:
    """A scorer that notes how old each sample was."""

    def __init__(self, inner, ages):
        self._inner, self._ages, self.concurrency = inner, ages, inner.concurrency

    def score(self, interaction, *, key):
        self._ages.append((datetime.now(UTC) - interaction.timestamp).total_seconds())
        return self._inner.score(interaction, key=key)


def test_backlog_left_for_later_does_not_make_the_monitor_blind(context):
    put(context.redis, 4000, 3)
    watch, now = QueueWatch(context.redis), datetime.now(UTC)
    assert "3 samples wait" in watch.trouble(now)
    NewestFirst(context.redis, "a").skip_to(time.time() - 300)
    assert watch.trouble(now) is None
    assert backlog(context.redis).oldest_age_s > 3600
