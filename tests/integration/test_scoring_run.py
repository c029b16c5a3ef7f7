"""A run of a worker over the queue: scored, committed, acknowledged; dead letters set aside."""

import gc
import json
import threading
import time
import tracemalloc
from collections import Counter
from datetime import UTC, datetime

import pytest
from sqlalchemy import func, select

from monitor.errors import StoreUnavailableError
from monitor.models import Evaluation
from monitor.queue import names
from monitor.queue.consumer import Consumer, NewestFirst
from monitor.queue.wire import encode
from monitor.settings import Settings
from monitor.store.engine import Store
from monitor.store.ledger import Booking, Kind, read_totals
from monitor.store.query import read_pass_lines
from monitor.store.tables import dead_letters, samples
from monitor.testing import make_interaction, make_sample
from workers.context import Components
from workers.scoring_run import ScoringRun, commit, score_entry

APP = "support-bot"
NOW = datetime.now(UTC)
pytestmark = pytest.mark.usefixtures("fresh_now")
METADATA_IS_A_LIST = json.dumps(
    make_sample().model_dump(mode="json")
    | {"interaction": {"output": "a", "metadata": [1], "x": 1}}
)


@pytest.fixture
def context(redis_url, store):
    url = store.engine.url.render_as_string(hide_password=False)
    context = Components(Settings(redis_url=redis_url, database_url=url, abandoned_after_s=0.001))
    yield context
    context.close()


def put(context, *interactions):
    made = [make_sample(item) for item in interactions]
    for sample in made:
        context.redis.xadd(names.SAMPLES, encode(sample))
    return made


def run(context, may_go_on=lambda: True, budget_s=200.0):
    drain = context.scoring_run(may_go_on)
    drain.idle_after_s = 0.1
    return drain.run(budget_s=budget_s)


def lines_used(context):
    with context.store.read() as connection:
        payloads = connection.execute(select(samples.c.payload)).scalars().all()
    return Counter(
        record["criteria"]["pass_score"] for one in payloads for record in one["evaluations"]
    )


def test_app_gets_its_own_pass_score_after_a_hundred_scored_answers(context):
    answers = [make_interaction(output="The refund takes five days.") for _ in range(140)]
    put(context, *answers[:120])
    run(context)
    put(context, *answers[120:])
    run(context)
    with context.store.read() as connection:
        [line] = read_pass_lines(connection).values()
    assert line.n == 140
    assert 0.2 < line.line <= 0.5
    # What was decided before stays as it was decided.
    used = lines_used(context)
    assert used[line.line] >= 20
    assert used[0.2] >= 100 + 140  # relevance has one line for all


def totals(context):
    with context.store.read() as connection:
        return read_totals(connection, APP).get(APP, {})


def pending(context):
    return context.redis.xpending(names.SAMPLES, names.GROUP)["pending"]


def test_samples_are_scored_stored_and_acknowledged(context):
    put(context, *(make_interaction() for _ in range(120)))
    assert run(context) == 120
    assert totals(context) == {Booking(Kind.SCORED, ""): 120}
    assert (context.redis.xlen(names.SAMPLES), pending(context)) == (0, 0)


def test_no_text_is_kept_when_its_sample_is_stored(context):
    def bytes_after(n):
        put(context, *(make_interaction(contexts=[f"{i} " + "x" * 20_000]) for i in range(n)))
        assert run(context) == n
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    bytes_after(40)
    tracemalloc.start()
    try:
        # What a first batch of this size brings stays: statements, short strings of pydantic's.
        before = bytes_after(40)
        assert (bytes_after(40) - before) / 40 < 5_000
    finally:
        tracemalloc.stop()


def test_sample_sent_twice_is_scored_once(context):
    sample = make_sample()
    for _ in range(2):
        context.redis.xadd(names.SAMPLES, encode(sample))
    assert run(context) == 1
    assert totals(context)[Booking(Kind.SCORED, "")] == 1


def test_unjudgeable_interaction_is_skipped_with_a_reason(context):
    put(context, make_interaction(contexts=[], query=None))
    run(context)
    assert sum(n for (kind, _), n in totals(context).items() if kind is Kind.SKIPPED) == 1


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"v": "1", "app": APP, "body": "{"}, "invalid_record"),
        ({"v": "1", "app": APP, "body": '{"sample_id": 7}'}, "invalid_record"),
        ({"v": "1", "app": APP}, "invalid_record"),
        ({"v": "99", "app": APP, "body": "{}"}, "unknown_schema"),
        ({"v": "1", "app": APP, "body": METADATA_IS_A_LIST}, "invalid_record"),
    ],
)
def test_unreadable_entry_becomes_a_dead_letter_and_others_are_scored(context, fields, reason):
    context.redis.xadd(names.SAMPLES, fields)
    put(context, make_interaction())
    run(context)
    assert totals(context) == {Booking(Kind.FAILED, reason): 1, Booking(Kind.SCORED, ""): 1}
    with context.store.read() as connection:
        assert connection.execute(select(dead_letters.c.reason)).scalar_one() == reason


def test_sample_that_breaks_the_scorer_becomes_a_dead_letter(context, monkeypatch):
    score = context.scorer.score

    def break_on_one(interaction, **rest):
        if interaction.output == "break":
            raise KeyError("a bug")
        return score(interaction, **rest)

    monkeypatch.setattr(context.scorer, "score", break_on_one)
    put(context, make_interaction(), make_interaction(output="break"), make_interaction())
    run(context)
    assert totals(context) == {
        Booking(Kind.FAILED, "internal_error"): 1,
        Booking(Kind.SCORED, ""): 2,
    }
    assert (context.redis.xlen(names.SAMPLES), pending(context)) == (0, 0)


def test_entries_of_a_dead_worker_are_finished(context):
    put(context, make_interaction(), make_interaction())
    dead = Consumer(context.redis, "dead")
    dead.ensure_group()
    dead.take(2)
    assert run(context) == 2
    assert pending(context) == 0


def test_entry_that_keeps_killing_its_worker_becomes_a_dead_letter(context):
    put(context, make_interaction())
    victim = Consumer(context.redis, "victim")
    victim.ensure_group()
    victim.take(1)
    for _ in range(2):
        victim.take_abandoned(1, idle_ms=0)
    run(context)
    assert totals(context) == {Booking(Kind.FAILED, "worker_died"): 1}


def test_no_sample_is_acknowledged_when_the_store_is_unreachable(context, monkeypatch):
    put(context, make_interaction())
    drain = context.scoring_run(lambda: True)
    drain.store = UnreachableStore(context.store)
    drain.idle_after_s = 0.1
    with pytest.raises(StoreUnavailableError):
        drain.run(budget_s=200)
    assert pending(context) == 1
    assert run(context) == 1


def test_store_outage_fails_no_sample(context):
    put(context, *(make_interaction() for _ in range(20)))
    for _ in range(6):
        drain = context.scoring_run(lambda: True)
        drain.store = UnreachableStore(context.store)
        with pytest.raises(StoreUnavailableError):
            drain.run(budget_s=200)
    assert run(context) == 20
    assert totals(context) == {Booking(Kind.SCORED, ""): 20}


def test_no_sample_is_taken_while_the_store_is_unreachable(context):
    put(context, make_interaction())
    drain = context.scoring_run(lambda: True)
    drain.store = Store("postgresql+psycopg://u@127.0.0.1:9/x?connect_timeout=2")
    with pytest.raises(StoreUnavailableError):
        drain.run(budget_s=200)
    drain.store.close()
    assert pending(context) == 0


def test_stored_dead_letter_is_not_counted_again(context):
    put(context, make_interaction())
    victim = Consumer(context.redis, "victim")
    victim.ensure_group()
    (entry,) = victim.take(1)
    commit(context.store, [score_entry(entry, context.scorer, context.rules, now=NOW)],
           context.rules, now=NOW)  # fmt: skip
    for _ in range(3):
        victim.take_abandoned(1, idle_ms=0)
    run(context)
    assert totals(context) == {Booking(Kind.SCORED, ""): 1}


def test_unwritable_sample_alone_becomes_a_dead_letter(context):
    put(context, *(make_interaction() for _ in range(3)))
    drain = context.scoring_run(lambda: True)
    drain.scorer, drain.idle_after_s = Unwritable(), 0.1
    assert drain.run(budget_s=200) == 2
    assert totals(context) == {Booking(Kind.SCORED, ""): 2, Booking(Kind.FAILED, "unwritable"): 1}
    assert pending(context) == 0


def test_unstarted_samples_are_returned_when_the_drain_stops(context):
    put(context, *(make_interaction() for _ in range(40)))
    asked = iter([True])
    drain = context.scoring_run(lambda: next(asked, False))
    drain.scorer = SlowScorer(concurrency=4, until=1, takes_s=1.2)
    assert drain.run(budget_s=200) == 4
    assert context.redis.xlen(names.SAMPLES) == 36
    assert run(context) == 36


def test_dead_letter_keeps_the_whole_entry(context):
    context.redis.xadd(names.SAMPLES, {"v": "99", "app": APP, "body": "from the future"})
    run(context)
    with context.store.read() as connection:
        assert connection.execute(select(dead_letters.c.body)).scalar_one() == b"from the future"


def test_judge_that_takes_seconds_does_not_end_the_run(context):
    put(context, *(make_interaction() for _ in range(24)))
    drain = context.scoring_run(lambda: True)
    drain.scorer, drain.idle_after_s = SlowScorer(concurrency=2, until=1, takes_s=0.1), 0.05
    assert drain.run(budget_s=200) == 24


def test_stopped_drain_finishes_or_leaves_every_sample(context):
    put(context, *(make_interaction() for _ in range(30)))
    told = threading.Event()
    told.set()
    run(context, lambda: not told.is_set(), budget_s=1.5)
    with context.store.read() as connection:
        stored = connection.execute(select(func.count()).select_from(samples)).scalar_one()
    assert stored + context.redis.xlen(names.SAMPLES) == 30
    assert pending(context) == 0


def test_slow_judge_calls_run_side_by_side(redis_url, context):
    put(context, *(make_interaction() for _ in range(16)))
    slow = SlowScorer(concurrency=8, until=8)
    drain = ScoringRun(
        consumer=Consumer(context.redis, "a"),
        newest_first=NewestFirst(context.redis, "a"),
        store=context.store,
        scorer=slow,
        rules=context.rules,
        may_go_on=lambda: True,
        abandoned_after_s=60,
        idle_after_s=0.1,
    )
    drain.consumer.ensure_group()
    drain.run(budget_s=200)
    assert slow.most_at_once == 8


class UnreachableStore:
    """A store whose server goes away after the start."""

    def __init__(self, store):
        self.read = store.read

    def write(self):
        raise StoreUnavailableError("away")


class Unwritable:
    """A scorer whose first verdict no database can hold."""

    concurrency = 1

    def __init__(self):
        self._texts = iter(["\ud800"])

    def score(self, interaction, *, key):
        text = next(self._texts, "fine")
        return (
            Evaluation(
                target_event_id=interaction.id,
                evaluator_name="odd",
                score=1.0,
                explanation=text,
            ),
        )


class SlowScorer:
    """A scorer whose calls wait for each other, as calls to a slow judge would."""

    def __init__(self, concurrency, until, takes_s=0.0):
        self.concurrency = concurrency
        self.takes_s = takes_s
        self.most_at_once = self._now = 0
        self._lock = threading.Lock()
        self._barrier = threading.Barrier(until)

    def score(self, interaction, *, key):
        with self._lock:
            self._now += 1
            self.most_at_once = max(self.most_at_once, self._now)
        self._barrier.wait(timeout=100)
        time.sleep(self.takes_s)
        with self._lock:
            self._now -= 1
        return (Evaluation(target_event_id=interaction.id, evaluator_name="slow", score=1.0),)
