"""The sampler is a fair coin, counts exactly, and survives being entered from anywhere."""

import itertools
import random
import signal
import threading
from math import sqrt

import pytest

from monitor.hook.recorder import Sampler, belongs


def hits(sampler, n):
    return sum(sampler.choose() > 0 for _ in range(n))


def is_fair(hits, n, rate):
    return abs(hits - n * rate) <= 5 * sqrt(n * rate * (1 - rate))


@pytest.mark.parametrize(("rate", "expected"), [(0.0, 0), (1.0, 1_000)])
def test_choice_is_exact_at_rates_zero_and_one(rate, expected):
    sampler = Sampler(rate)
    assert hits(sampler, 1_000) == expected
    assert sampler.seen == 1_000


@pytest.mark.parametrize("rate", [0.01, 0.05, 0.5, 0.95])
def test_share_of_sampled_calls_equals_the_rate(rate):
    assert is_fair(hits(Sampler(rate), 200_000), 200_000, rate)


def test_choice_returns_its_probability():
    sampler = Sampler(0.25)
    assert {sampler.choose() for _ in range(1_000)} == {0.0, 0.25}


def test_first_call_is_sampled_like_any_other():
    assert is_fair(sum(hits(Sampler(0.2), 1) for _ in range(5_000)), 5_000, 0.2)


def test_sampled_calls_are_independent():
    sampler = Sampler(0.3)
    flips = [sampler.choose() > 0 for _ in range(100_000)]
    pairs = sum(a and b for a, b in itertools.pairwise(flips))
    assert abs(pairs - 100_000 * 0.09) < 5 * sqrt(100_000 * 0.09 * 0.91) * 1.3


def test_every_call_is_counted_one_by_one():
    sampler = Sampler(0.3)
    for n in range(1_000):
        assert sampler.seen == n
        sampler.choose("f" * 32 if n % 7 == 0 else None)


def in_threads(works):
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_count_and_share_hold_with_eight_threads():
    sampler, each, found = Sampler(0.1), 20_000, []
    in_threads([lambda: found.append(hits(sampler, each))] * 8)
    assert sampler.seen == 8 * each
    assert is_fair(sum(found), 8 * each, 0.1)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs signals")
def test_count_holds_when_a_signal_handler_raises_into_the_choice():
    sampler, called, interrupted, armed = Sampler(0.5), 0, 0, False

    def interrupt(*_):
        nonlocal armed
        if armed:
            armed = False
            raise InterruptedError

    former = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
    try:
        while called < 50_000 or interrupted < 20:
            called += 1
            try:
                armed = True
                sampler.choose()
                armed = False
            except InterruptedError:
                interrupted += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)
    assert abs(sampler.seen - called) <= interrupted
    assert is_fair(hits(sampler, 10_000), 10_000, 0.5)


@pytest.mark.parametrize(("old", "new"), [(0.0, 0.5), (1.0, 0.2), (0.001, 0.9), (0.5, 0.0)])
def test_new_rate_applies_from_the_next_call(old, new):
    sampler = Sampler(old)
    hits(sampler, 100)
    sampler.rate = new
    found = [sampler.choose() for _ in range(10_000)]
    assert set(found) <= {0.0, new}
    assert is_fair(sum(rate > 0 for rate in found), 10_000, new)
    assert sampler.seen == 10_100


def test_count_is_exact_when_the_rate_changes_under_load():
    sampler, each, rates, found = Sampler(0.02), 30_000, (0.01, 0.3, 0.0, 1.0, 0.02), []

    def change():
        for rate in itertools.islice(itertools.cycle(rates), 400):
            sampler.rate = rate

    in_threads([change, *[lambda: found.extend({sampler.choose() for _ in range(each)})] * 4])
    assert sampler.seen == 4 * each
    assert set(found) <= {*rates}


def test_closed_sampler_neither_samples_nor_counts():
    sampler = Sampler(0.5)
    hits(sampler, 10)
    sampler.closed = True
    sampler.rate = 1.0
    assert hits(sampler, 10) == sampler.choose("0" * 32) == 0
    assert sampler.seen == 10


@pytest.mark.parametrize(
    ("low", "rate", "hit"),
    [
        ("0" * 16, 0.5, True),
        ("7fffffffffffffff", 0.5, True),
        ("8000000000000000", 0.5, False),
        ("f" * 16, 1.0, True),
        ("0" * 16, 0.0, False),
        ("FFFFFFFFFFFFFFFF", 0.999, False),
    ],
)
def test_low_half_of_the_trace_id_decides_sampling(low, rate, hit):
    trace_id = "a" * 16 + low
    assert Sampler(rate).choose(trace_id) == (rate if hit else 0.0)
    assert belongs(trace_id, rate) is hit


def test_trace_sample_at_a_lower_rate_is_a_subset():
    ids = [f"{random.Random(i).getrandbits(128):032x}" for i in range(2_000)]
    small, large = Sampler(0.05), Sampler(0.1)
    assert {i for i in ids if small.choose(i)} < {i for i in ids if large.choose(i)}
    assert small.seen == 2_000


@pytest.mark.parametrize("trace_id", ["", "abc", "z" * 32, "+" + "0" * 31, "٣" * 32, 7, object()])
def test_invalid_trace_id_falls_back_to_a_random_choice(trace_id):
    sampler = Sampler(1.0)
    assert sampler.choose(trace_id)
    assert sampler.seen == 1


def test_sampler_does_not_use_the_hosts_random_stream():
    random.seed(1)
    expected = random.random()
    random.seed(1)
    hits(Sampler(0.5), 100)
    assert random.random() == expected


@pytest.mark.parametrize("rate", [5e-324, 1e-300, 1 - 1e-16])
def test_extreme_rate_samples_all_or_nothing(rate):
    assert hits(Sampler(rate), 100) in {0, 100}
