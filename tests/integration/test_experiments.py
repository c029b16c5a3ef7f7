"""From stored scores to the variant that an app uses, over a real Redis."""

import json
import threading
from datetime import UTC, datetime

import pytest
import redis

from monitor import Hook
from monitor.queue import names, wire
from monitor.settings import Settings
from monitor.store.write import record
from monitor.testing import make_evaluation, make_interaction, make_sample
from workers.maintenance import ExperimentJob
from workers.scoring_run import ScoringRules, result_of

NOW = datetime.now(UTC)
pytestmark = pytest.mark.usefixtures("fresh_now")
RULES = ScoringRules(pass_score=0.7, bucket_s=60, dimensions=("variant",))


@pytest.fixture
def client(redis_url):
    with redis.Redis.from_url(redis_url) as client:
        yield client


@pytest.fixture
def hook(redis_url):
    hook = Hook(app="shop", sample_rate=1.0, redis_url=redis_url)
    yield hook
    hook.close()


def fill(store, **passed_of_50):
    results = [
        result_of(
            make_sample(
                make_interaction(app="shop", tags={"variant": variant}), sampled_at=NOW
            ),
            [make_evaluation(score=float(k < passed))], RULES, now=NOW,
        )
        for variant, passed in passed_of_50.items()
        for k in range(50)
    ]  # fmt: skip
    with store.write() as connection:
        record(connection, results, now=NOW, bucket_s=60)


def samples_in(client):
    return [wire.decode(fields).interaction for _, fields in client.xrange(names.SAMPLES)]


def test_shares_come_from_the_scores_and_reach_the_hook(store, client, hook):
    fill(store, short=48, long=30)
    assert ExperimentJob(client, store, Settings()).run(None) == 1
    published = json.loads(client.get(names.experiments("shop")))["variant"]
    assert published["short"] > 0.99
    assert client.ttl(names.experiments("shop")) > 3_000
    hook.choose("variant", "nobody")
    assert hook.flush(60)
    found = {hook.choose("variant", k, variants=("short", "long")) for k in range(100)}
    assert found == {"short"}


def test_app_with_one_variant_has_no_experiment(store, client):
    fill(store, short=48)
    assert ExperimentJob(client, store, Settings()).run(None) == 0
    assert client.get(names.experiments("shop")) is None


def test_next_sample_carries_the_variant_and_only_that_one(client, hook):
    variant = hook.choose("variant", "user-1")
    hook.sample(query="q", output="first", tags={"route": "faq"})
    hook.sample(query="q", output="second")
    hook.flush(60)
    first, second = samples_in(client)
    assert first.tags == {"variant": variant, "route": "faq"}
    assert second.tags == {}


def test_watched_functions_and_open_interactions_carry_the_variant_too(client, hook):
    @hook.watch
    def answer(query):
        return hook.choose("variant", query)

    with hook.interaction(query="q") as it:
        hook.choose("variant", "user-2", variants=("x", "y"))
        it.output = "answer"
    given = answer("user-1")
    hook.flush(60)
    one, two = samples_in(client)
    assert one.tags["variant"] in {"x", "y"}
    assert two.tags == {"variant": given}


def test_variant_chosen_in_one_thread_does_not_tag_other_threads(client, hook):
    hook.choose("variant", "user-1")
    thread = threading.Thread(target=lambda: hook.sample(query="q", output="other"))
    thread.start()
    thread.join()
    hook.flush(60)
    assert samples_in(client)[0].tags == {}


def test_variant_chosen_for_an_unsampled_interaction_is_dropped(client, redis_url):
    hook = Hook(app="shop", sample_rate=0.0, redis_url=redis_url)
    hook.choose("variant", "user-1")
    hook.sample(query="q", output="not sampled")
    hook.take({"query": "q", "output": "sampled"}, 1.0)
    hook.flush(60)
    assert samples_in(client)[0].tags == {}
    hook.close()


def test_choose_works_without_redis_and_never_raises():
    hook = Hook(app="shop", redis_url="redis://127.0.0.1:1/0")
    assert {hook.choose("variant", k) for k in range(50)} == {"A", "B"}
    assert hook.choose("variant", 1, variants=()) == ""
    assert "choose()" in hook.stats()["last_error"]
    hook.close(0)
