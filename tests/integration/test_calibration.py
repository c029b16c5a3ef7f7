"""What a judge said, kept in Redis for all workers."""

import redis

from monitor.models.evaluation import PassRule
from monitor.queue import names
from monitor.scoring.calibration import KEPT, Calibration, JudgedSample, VerdictHistory

NO, YES = (
    JudgedSample(0.9, passed=False, score=0.25, places=(3, 4_000_000_000)),
    JudgedSample(0.5, True, 1.0),
)


def test_verdict_history_is_shared_between_workers(redis_url):
    client = redis.Redis.from_url(redis_url)
    here, there = VerdictHistory(client, "v1"), VerdictHistory(client, "v1")
    here.add("shop", "groundedness", NO)
    assert there.read("shop", "groundedness") == ((NO,), 1)
    here.add("shop", "groundedness", YES)
    assert there.read("shop", "groundedness") == ((NO, YES), 2)
    assert there.read("shop", "groundedness")[1] == 2


def test_verdict_history_is_separate_for_each_app_metric_and_version(redis_url):
    client = redis.Redis.from_url(redis_url)
    VerdictHistory(client, "v1").add("shop", "groundedness", NO)
    assert not VerdictHistory(client, "v2").read("shop", "groundedness")[0]
    assert not VerdictHistory(client, "v1").read("bank", "groundedness")[0]
    assert not VerdictHistory(client, "v1").read("shop", "relevance")[0]


def test_verdict_history_is_bounded_and_expires(redis_url):
    client = redis.Redis.from_url(redis_url)
    memory = VerdictHistory(client, "v1")
    for _ in range(KEPT + 300):
        memory.add("shop", "groundedness", YES)
    key = names.calibration("shop", "groundedness", "v1")
    assert KEPT <= client.xlen(key) <= KEPT + 200
    assert len(memory.read("shop", "groundedness")[0]) == KEPT
    assert 0 < client.ttl(key) <= 90 * 86_400


def test_expectations_survive_a_redis_outage(redis_url):
    client = redis.Redis.from_url(redis_url)
    memory = VerdictHistory(client, "v1")
    for _ in range(50):
        memory.add("shop", "groundedness", NO)
    calibration = Calibration(memory, {"groundedness": PassRule(0.7)})
    before = calibration.expect("shop", "groundedness", 0.9)
    assert before.passes < 0.3
    client.connection_pool.disconnect()
    client.connection_pool.connection_kwargs |= {"port": 1}
    calibration._known["shop", "groundedness"] = calibration._known[
        "shop", "groundedness"
    ]._replace(read_s=0.0)
    calibration.learn("shop", "groundedness", YES)
    assert calibration.expect("shop", "groundedness", 0.9) == before
    assert calibration.expect("bank", "groundedness", 0.7).passes == 0.5
