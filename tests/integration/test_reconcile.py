"""The reconciliation sees every sum that is off, and says what nobody can know."""

import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import text

from monitor.hook import Hook
from monitor.queue import names
from monitor.queue.wire import encode
from monitor.settings import Settings
from monitor.store.engine import acquire
from monitor.store.reconcile import sums_of_store
from monitor.store.rollup import roll_up
from monitor.store.tables import dead_letters, totals
from monitor.testing import make_interaction, make_sample
from workers.context import Components
from workers.maintenance import Collector
from workers.operations import reconcile

NOW = datetime.now(UTC)
pytestmark = pytest.mark.usefixtures("fresh_now")


@pytest.fixture
def context(redis_url, store):
    url = store.engine.url.render_as_string(hide_password=False)
    context = Components(Settings(redis_url=redis_url, database_url=url, segments=("release",)))
    yield context
    context.close()


def send(context, n, **fields):
    """Send through a real hook, as an app would; some with an error on their way."""
    hook = Hook(app="shop", sample_rate=1.0, redis_url=context.settings.redis_url)
    for i in range(n):
        hook.sample(
            query="How long?" if i % 5 else None, contexts=["Five days."] if i % 5 else [],
            output="Five days.",
            release=f"v{i % 2}", **fields,
        )  # fmt: skip
    assert hook.flush(60)
    hook.close()


def drain(context):
    made = context.scoring_run(lambda: True)
    made.idle_after_s = 0.05
    return made.run(budget_s=20)


def collect(context):
    lease = acquire(context.store, "scheduler", "test", ttl_s=600)
    Collector(context.redis, context.store, 60).run(lease)


@pytest.fixture
def settled(context):
    """Traffic that went all the way: scored, skipped, failed, and summed to hours."""
    send(context, 20)
    context.redis.xadd(names.SAMPLES, {"v": "1", "app": "shop", "body": "{"})
    context.redis.hincrby(names.hook(hook_id(context)), "sent", 1)
    context.redis.hincrby(names.hook(hook_id(context)), "sampled", 1)
    drain(context)
    for hours in (2, 3):
        old = make_interaction(app="old", timestamp=NOW - timedelta(hours=hours))
        context.redis.xadd(names.SAMPLES, encode(make_sample(old)))
    context.redis.hincrby(names.hook(hook_id(context)), "sent", 2)
    context.redis.hincrby(names.hook(hook_id(context)), "sampled", 2)
    drain(context)
    collect(context)
    roll_up(context.store, now_s=time.time(), settle_s=60)
    return context


def hook_id(context):
    return context.redis.zrange(names.HOOKS, 0, 0)[0].decode()


def look(context, window_s=6 * 3600.0):
    return reconcile(
        context.redis, context.store, now_s=time.time(), window_s=window_s, bucket_s=60
    )


def wrong(found):
    return {item.check for item in found.sums if not item.holds}


def test_all_sums_agree_when_nothing_is_wrong(settled):
    found = look(settled)
    assert found.holds, wrong(found)
    by_name = {check.name: check for check in found.checks}
    assert by_name["sent = ended + waiting"].found == 23
    assert by_name["samples = ledger"].expected == 23
    assert by_name["hours = buckets"].found > 0
    assert by_name["segments = evaluations"].found > 0
    assert list(found.notes) == []


CORRUPTIONS = {
    "DELETE FROM groundwatch_scores WHERE score IS NOT NULL AND position ="
    " (SELECT max(position) FROM groundwatch_evaluations"
    " WHERE score IS NOT NULL AND app = 'shop')": {
        "buckets = evaluations", "segments = evaluations",
    },
    "UPDATE groundwatch_scores SET passed = 1 - passed WHERE score IS NOT NULL": {
        "buckets = evaluations"
    },
    "UPDATE groundwatch_samples SET outcome = 'failed' WHERE outcome = 'skipped'": {
        "samples = ledger"
    },
    "UPDATE groundwatch_dead_letters SET reason = 'other'": {"samples = ledger"},
    "UPDATE groundwatch_totals SET count = count + 1 WHERE kind = 'scored' AND app = 'shop'": {
        "ledger by time = ledger",
    },
    "UPDATE groundwatch_totals SET count = count + 1 WHERE kind = 'seen'": {
        "hook counters = ledger", "ledger by time = ledger",
    },
    "UPDATE groundwatch_counts SET count = count + 1 WHERE kind = 'skipped'": {
        "ledger by time = ledger", "samples = ledger",
    },
    "UPDATE groundwatch_buckets SET n = n + 1 WHERE start_s = (SELECT max(start_s) FROM"
    " groundwatch_buckets) AND stream_id IN (SELECT stream_id FROM groundwatch_streams"
    " WHERE segment = '*')": {
        "buckets = evaluations", "histograms = buckets", "streams = buckets",
    },
    "UPDATE groundwatch_buckets SET n = n + 1 WHERE stream_id IN"
    " (SELECT stream_id FROM groundwatch_streams WHERE segment = 'release=v1')": {
        "segments = evaluations", "streams = buckets",
    },
    "UPDATE groundwatch_bucket_bins SET count = count + 1 WHERE start_s ="
    " (SELECT max(start_s) FROM groundwatch_bucket_bins) AND stream_id IN"
    " (SELECT stream_id FROM groundwatch_streams WHERE segment = '*')": {"histograms = buckets"},
    "UPDATE groundwatch_hour_buckets SET n = n + 1 WHERE stream_id IN"
    " (SELECT stream_id FROM groundwatch_streams WHERE segment = '*')": {
        "buckets = evaluations", "histograms = buckets", "hours = buckets",
    },
    "UPDATE groundwatch_hour_bins SET count = count + 1": {
        "histograms = buckets", "histograms of hours = of buckets",
    },
    "UPDATE groundwatch_streams SET n_total = n_total + 1": {"streams = buckets"},
    "UPDATE groundwatch_streams SET sum_wy = sum_wy + 0.5": {"streams = buckets"},
}  # fmt: skip


class Undo(Exception):
    """Takes a corruption back, with the transaction that made it."""


def test_each_wrong_sum_is_reported(settled):
    found = {}
    for statement in CORRUPTIONS:
        with suppress(Undo), settled.store.write() as connection:
            assert connection.execute(text(statement)).rowcount
            sums = sums_of_store(connection, since_s=int(time.time()) // 3600 * 3600 - 6 * 3600)
            found[statement] = {item.check for item in sums if not item.holds}
            raise Undo
    # At some hours of the day more is off, as with a day that holds the hour.
    unseen = {what: CORRUPTIONS[what] - seen for what, seen in found.items()}
    assert not any(unseen.values()), unseen
    assert found.keys() == CORRUPTIONS.keys()


def test_ledger_that_differs_from_hook_counters_is_reported(settled):
    with settled.store.write() as connection:
        connection.execute(totals.update().values(count=totals.c.count + 1))
    assert "sent = ended + waiting" in wrong(look(settled))


def test_lost_sample_is_reported(context):
    send(context, 5)
    context.redis.xtrim(names.SAMPLES, maxlen=3, approximate=False)
    assert wrong(look(context)) == {"sent = ended + waiting", "lost to the size limit = 0"}


def test_waiting_and_pending_samples_are_not_counted_as_lost(context):
    send(context, 30)
    assert look(context).holds
    consumer = context.scoring_run(lambda: True).consumer
    consumer.take(10)
    assert look(context).holds


def test_sample_that_is_stored_and_still_waits_counts_once(context):
    send(context, 3)
    (first, *_) = context.redis.xrange(names.SAMPLES)
    drain(context)
    context.redis.xadd(names.SAMPLES, first[1])
    found = look(context)
    assert found.holds, wrong(found)


def test_store_sums_are_compared_when_redis_is_unreachable(settled):
    settled.redis.connection_pool.disconnect()
    away = Components(Settings(redis_url="redis://127.0.0.1:1/0"))
    found = reconcile(away.redis, settled.store, now_s=time.time(), window_s=6e4, bucket_s=60)
    assert wrong(found) == set()
    assert not found.holds  # nothing was proved of the queue
    assert "is not known" in found.notes[0]


def test_reconciliation_window_starts_no_earlier_than_kept_data(settled):
    with settled.store.write() as connection:
        connection.execute(text(
            "INSERT INTO groundwatch_levels (level, complete_to_s, kept_from_s)"
            f" VALUES ('samples', 0, {int(time.time()) - 3600})"
        ))  # fmt: skip
        connection.execute(dead_letters.update().values(at=datetime.fromtimestamp(0, UTC)))
    assert any("were deleted" in note for note in look(settled).notes)
