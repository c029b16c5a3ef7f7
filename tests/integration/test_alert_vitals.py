"""The vitals are read from real tables and a real Redis, and become alerts of the app."""

from datetime import UTC, datetime, timedelta

import pytest
from pydantic import SecretStr

from monitor.models.status import Status
from monitor.queue.consumer import connect
from monitor.settings import Settings
from monitor.store.ledger import Entry, HookCounters, Kind, absorb, book
from monitor.store.write import record
from monitor.testing import make_evaluation, make_interaction, make_sample
from support.vendor_receiver import Reaction, VendorReceiver
from workers.context import Clocks, Components
from workers.scheduler import Scheduler
from workers.scoring_run import ScoringRules, result_of
from workers.self_monitoring import DeadMansSwitch, QueueWatch, VitalsReader

NOW = datetime.now(UTC)
pytestmark = pytest.mark.usefixtures("fresh_now")


@pytest.fixture
def reader(store, redis_url):
    client = connect(redis_url)
    yield VitalsReader(store=store, settings=Settings(), queue=QueueWatch(client), clocks=Steady())
    client.close()


class Steady:
    """A clock that goes on as told, whatever the calendar does."""

    passed_s = 0.0

    def __call__(self):
        return Clocks(0.0, self.passed_s)


def ill(reader, now=None):
    return {(v.app, v.metric): v.reason for v in reader(now or NOW) if v.status is Status.WARNING}


def booked(store, app, at, **counts):
    start_s = int(at.timestamp()) // 60 * 60
    with store.write() as connection:
        book(connection, [Entry(app, start_s, Kind(k), "", n) for k, n in counts.items()])


def heartbeat(store, app, at):
    counters = HookCounters(
        hook_id=app, app=app, host="h", pid=1, heartbeat_at=at, counters={"seen": 1}
    )
    with store.write() as connection:
        absorb(connection, [counters], bucket_s=60)


def test_healthy_app_has_no_condition(store, reader):
    heartbeat(store, "shop", NOW)
    booked(store, "shop", NOW, seen=100, sampled=30, sent=30, scored=30)
    assert {key for key in ill(reader) if key[0] == "shop"} == set()


def test_missing_hook_raises_an_alert_of_its_app(store, reader):
    heartbeat(store, "shop", NOW - timedelta(minutes=20))
    for hour in range(1, 14):
        booked(store, "shop", NOW - timedelta(hours=hour), seen=5)
    assert "20 min old" in ill(reader)["shop", "monitor:hook_silent"]


def test_hook_of_an_occasional_job_is_not_reported_missing(store, reader):
    heartbeat(store, "job", NOW - timedelta(minutes=20))
    assert ("job", "monitor:hook_silent") not in ill(reader)


def test_traffic_that_stopped_is_compared_with_a_week_ago(store, reader):
    heartbeat(store, "shop", NOW)
    booked(store, "shop", NOW - timedelta(days=7, minutes=5), seen=70)
    with store.write() as connection:
        connection.exec_driver_sql("UPDATE groundwatch_counts SET count = 0 WHERE count = 1")
    assert "70 at this time" in ill(reader)["shop", "monitor:traffic_stopped"]


def test_answers_without_passages_raise_an_alert(store, reader):
    from monitor.models import Evaluation

    skipped = [
        Evaluation.skipped(
            reason="no_context",
            **make_evaluation().model_dump(
                include={"evaluator_name", "evaluator_version", "target_event_id"}
            ),
        )
        for _ in range(25)
    ]
    rules = ScoringRules(pass_score=0.7, bucket_s=60)
    results = [
        result_of(make_sample(make_interaction(), sampled_at=NOW), [e], rules, now=NOW)
        for e in skipped
    ]
    with store.write() as connection:
        record(connection, results, now=NOW, bucket_s=60)
    found = {metric for _, metric in ill(reader)}
    assert "monitor:contexts_missing" in found


def test_redis_that_may_lose_samples_raises_an_alert(store, reader):
    assert "no append-only file" in ill(reader)["groundwatch", "monitor:store_unsafe"]


def test_pause_between_evaluations_is_reported_for_a_while(reader):
    ill(reader)
    late = NOW + timedelta(minutes=5)
    reader.clocks.passed_s = 300.0
    assert "no evaluation for 5 min" in ill(reader, late)["groundwatch", "monitor:evaluator_stale"]
    for minute in range(1, 40):
        reader.clocks.passed_s += 50.0
        found = ill(reader, late + timedelta(seconds=50 * minute))
    assert ("groundwatch", "monitor:evaluator_stale") not in found


def test_clock_jump_is_not_reported_as_a_pause(reader):
    ill(reader)
    found = ill(reader, NOW + timedelta(hours=1))
    assert ("groundwatch", "monitor:evaluator_stale") not in found


def test_vitals_are_cached_between_reads_with_a_new_time(store, reader):
    first = reader(NOW)
    again = reader(NOW + timedelta(seconds=5))
    assert [v.metric for v in first] == [v.metric for v in again]
    assert {v.evaluated_at for v in again} == {NOW + timedelta(seconds=5)}


def test_dead_mans_switch_is_called_only_while_the_chain_works(redis_url, sqlite_url):
    with VendorReceiver("webhook", "/ping/secret") as receiver:
        receiver._rules = type("Ping", (), {
            "take": lambda *_: (200, {}, b"OK"), "says": lambda *_: None
        })()  # fmt: skip
        switch = DeadMansSwitch(SecretStr(receiver.url))
        assert switch.call(None)
        assert not switch.call("the evaluator is late")
        receiver.script(Reaction.SERVER_ERROR)
        assert not switch.call(None)
        assert len(receiver.taken) == 1
        settings = Settings(
            database_url=sqlite_url, redis_url=redis_url, dead_mans_switch_url=receiver.url
        )
        context = Components(settings)
        scheduler = Scheduler(context)
        assert "dead_mans_switch" in [job.name for job in scheduler.jobs]
        assert scheduler.broken_link() == "the evaluator is late"
        context.close()


def test_scheduler_calls_the_dead_mans_switch_once_everything_works(redis_url, sqlite_url):
    import threading

    with VendorReceiver("webhook") as receiver:
        receiver._rules = type("Ping", (), {
            "take": lambda *_: (200, {}, b"OK"), "says": lambda *_: None
        })()  # fmt: skip
        settings = Settings(
            database_url=sqlite_url, redis_url=redis_url, evaluate_every_s=0.1,
            dead_mans_switch_url=receiver.url, dead_mans_switch_every_s=0.2,
        )  # fmt: skip
        context, stop = Components(settings), threading.Event()
        thread = threading.Thread(target=Scheduler(context).run, args=(stop,))
        thread.start()
        receiver.wait_for(1, timeout_s=20)
        stop.set()
        thread.join()
        context.close()
