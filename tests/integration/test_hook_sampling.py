"""Rules, predicates and a rate that changes: every record carries its own probability."""

import os
import random
from math import sqrt

import pytest
import redis

import monitor
from monitor.queue import names, wire

N = 2_000


@pytest.fixture
def make_hook(redis_url):
    hooks = []

    def make(**arguments):
        given = {"app": "bot", "redis_url": redis_url, "buffer_samples": 20_000, **arguments}
        hooks.append(monitor.Hook(**given))
        return hooks[-1]

    yield make
    for hook in hooks:
        hook.close(0.2)


@pytest.fixture
def delivered(redis_url):
    def read(hook):
        assert hook.flush(60)
        with redis.Redis.from_url(redis_url) as client:
            return [wire.decode(fields) for _, fields in client.xrange(names.SAMPLES)]

    return read


def rates(samples):
    """Give how many samples there are of each output and rate."""
    counts = {}
    for sample in samples:
        key = sample.interaction.output, sample.sample_rate
        counts[key] = counts.get(key, 0) + 1
    return counts


def is_fair(hits, rate, n=N):
    return abs(hits - n * rate) <= 5 * sqrt(n * rate * (1 - rate))


def trace_ids(n):
    return [f"{random.Random(i).getrandbits(128):032x}" for i in range(n)]


def test_rules_set_rates_for_tags_and_users(make_hook, delivered):
    rules = [
        monitor.Rule(tags={"tenant": "big"}, sample_rate=0.4),
        {"user_id": "ann", "sample_rate": 0.8},
        {"app": "other", "sample_rate": 1.0},
    ]
    hook = make_hook(sample_rate=0.1, rules=rules)
    for _ in range(N):
        hook.sample(output="other")
        hook.sample(output="big", tags={"tenant": "big"})
        hook.sample(output="ann", user_id="ann")
    found = rates(delivered(hook))
    assert set(found) == {("other", 0.1), ("big", 0.4), ("ann", 0.8)}
    assert all(is_fair(hits, rate) for (_, rate), hits in found.items())
    stats = hook.stats()
    assert (stats["seen"], stats["sampled"]) == (3 * N, sum(found.values()))


def test_rules_apply_to_watch_and_interaction(make_hook, delivered):
    hook = make_hook(sample_rate=0.0, rules=[{"user_id": "ann", "sample_rate": 1.0}])

    @hook.watch(user_id="ann")
    def ann(query):
        return query

    @hook.watch(user_id="bob")
    def bob(query):
        return query

    for user in ("ann", "bob"):
        with hook.interaction(query="q", user_id=user) as it:
            it.output = f"with {user}"
    ann("by ann")
    bob("by bob")
    assert set(rates(delivered(hook))) == {("by ann", 1.0), ("with ann", 1.0)}
    assert hook.stats()["not_sampled"] == 2


def test_always_samples_every_match_and_never_samples_none(make_hook, delivered):
    hook = make_hook(
        sample_rate=0.05,
        always=lambda given: given["output"] == "thumbs down",
        never=lambda given: given["query"] == "secret",
    )
    for _ in range(100):
        hook.sample(query="q", output="thumbs down")
        hook.sample(query="secret", output="thumbs down")
    found = delivered(hook)
    assert rates(found) == {("thumbs down", 1.0): 100}
    assert {sample.interaction.query for sample in found} == {"q"}
    assert (hook.stats()["seen"], hook.stats()["not_sampled"]) == (200, 100)


def test_predicate_that_raises_is_counted_and_ignored(make_hook, delivered):
    hook = make_hook(sample_rate=1.0, never=lambda given: given["missing"])
    for _ in range(10):
        hook.sample(output="a")
    assert len(delivered(hook)) == 10
    assert hook.stats()["predicates_failed"] == 10


def test_interrupt_raised_in_a_predicate_reaches_the_host(make_hook):
    def interrupt(_):
        raise KeyboardInterrupt

    hook = make_hook(sample_rate=1.0, never=interrupt)
    with pytest.raises(KeyboardInterrupt):
        hook.sample(output="a")
    assert (hook.stats()["seen"], hook.stats()["sampled"]) == (1, 0)


def test_traces_at_a_lower_rate_are_a_subset_of_a_higher_rate(make_hook, delivered):
    rules = [{"tags": {"plan": "pro"}, "sample_rate": 0.5}]
    hook, ids = make_hook(sample_rate=0.1, rules=rules), trace_ids(1_000)
    for trace_id in ids:
        hook.sample(output="free", trace_id=trace_id)
        hook.sample(output="pro", trace_id=trace_id, tags={"plan": "pro"})
    found = delivered(hook)
    kept = {
        output: {s.interaction.trace_id for s in found if s.interaction.output == output}
        for output in ("free", "pro")
    }
    assert kept["free"] < kept["pro"]
    assert kept["pro"] == {i for i in ids if int(i[16:], 16) < 2**63}
    assert set(rates(found)) == {("free", 0.1), ("pro", 0.5)}


def test_later_records_carry_the_new_rate(make_hook, delivered):
    hook = make_hook(sample_rate=0.1)
    for _ in range(N):
        hook.sample(output="before")
    assert hook._recorder.set_rate(0.5) == 0.5
    for _ in range(N):
        hook.sample(output="after")
    found = rates(delivered(hook))
    assert set(found) == {("before", 0.1), ("after", 0.5)}
    assert all(is_fair(hits, rate) for (_, rate), hits in found.items())
    assert (hook.stats()["seen"], hook.stats()["sample_rate"]) == (2 * N, 0.5)


def test_streamed_sample_records_the_rate_it_was_chosen_with(make_hook, delivered):
    hook = make_hook(sample_rate=1.0)

    @hook.watch
    def answer(query):
        yield query
        hook._recorder.set_rate(0.5)
        yield "!"

    assert list(answer("a")) == ["a", "!"]
    assert rates(delivered(hook)) == {("a!", 1.0): 1}


def test_requested_rate_stays_within_limits_and_keeps_rules(make_hook, delivered):
    rules = [{"user_id": "ann", "sample_rate": 1.0}]
    hook = make_hook(sample_rate=0.1, min_rate=0.05, max_rate=0.2, rules=rules)
    hook.sample(output="a")
    set_rate = hook._recorder.set_rate
    assert [set_rate(rate) for rate in (1.0, 0.15, 0.0, -1, float("nan"))] == [
        0.2, 0.15, 0.05, 0.05, 0.05,
    ]  # fmt: skip
    hook.sample(output="ann", user_id="ann")
    assert ("ann", 1.0) in rates(delivered(hook))


def test_app_with_rate_zero_is_never_raised(make_hook):
    hook = make_hook(sample_rate=0.0)
    hook.sample(output="a")
    assert hook._recorder.set_rate(0.5) == 0.0
    hook.sample(output="a")
    assert (hook.stats()["seen"], hook.stats()["sampled"]) == (2, 0)


def test_rules_come_from_the_environment(make_hook, delivered, monkeypatch):
    monkeypatch.setenv("GROUNDWATCH_SAMPLE_RULES", '[{"user_id": "ann", "sample_rate": 1}]')
    hook = make_hook(sample_rate=0.0)
    hook.sample(output="a", user_id="ann")
    hook.sample(output="b")
    assert rates(delivered(hook)) == {("a", 1.0): 1}


def test_hook_is_disabled_and_says_why_when_the_rules_are_invalid(make_hook, monkeypatch):
    monkeypatch.setenv("GROUNDWATCH_SAMPLE_RULES", "everything")
    hook = make_hook()
    hook.sample(output="a")
    assert hook.stats()["last_error"] == "GROUNDWATCH_SAMPLE_RULES: should be a list of rules"
    assert (hook.stats()["enabled"], hook.stats()["seen"]) == (False, 0)


def test_init_refuses_invalid_rules_and_keeps_the_previous_hook(make_hook):
    hook = make_hook(sample_rate=1.0)
    with pytest.raises(ValueError, match="rules: rule 1"):
        hook.init(rules=[{"sample_rate": 7}])
    hook.sample(output="a")
    assert hook.stats()["sampled"] == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_forked_workers_sample_different_calls(make_hook):
    hook = make_hook(sample_rate=0.5, redis_url="redis://127.0.0.1:1/0")
    hook.sample(output="a")

    def choices():
        return "".join(str(int(hook.chosen())) for _ in range(64))

    picks = [choices()]
    for _ in range(3):
        ours, theirs = os.pipe()
        child = os.fork()
        if not child:
            os.write(theirs, choices().encode())
            os._exit(0)
        picks.append(os.read(ours, 64).decode())
        os.waitpid(child, 0)
        os.close(ours)
        os.close(theirs)
    assert len(set(picks)) == 4
