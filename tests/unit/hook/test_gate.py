"""The gate is a fair coin, counts exactly, and survives being entered from anywhere."""

import itertools
import random
import threading
from math import sqrt

import pytest

from monitor.hook.gate import Gate

OTHER = "0" * 16


@pytest.mark.parametrize(("rate", "expected"), [(0.0, 0), (1.0, 1_000)])
def test_choice_is_exact_when_rate_is_none_or_all(rate, expected):
    gate = Gate(rate)
    assert sum(gate.choose() for _ in range(1_000)) == expected
    assert gate.seen == 1_000


@pytest.mark.parametrize("rate", [0.01, 0.05, 0.5, 0.95])
def test_share_of_hits_is_the_rate(rate):
    gate, n = Gate(rate), 200_000
    hits = sum(gate.choose() for _ in range(n))
    assert abs(hits - n * rate) < 5 * sqrt(n * rate * (1 - rate))


def test_first_call_is_no_special_case():
    hits = sum(Gate(0.2).choose() for _ in range(5_000))
    assert abs(hits - 1_000) < 5 * sqrt(5_000 * 0.2 * 0.8)


def test_hits_are_independent_of_each_other():
    gate = Gate(0.3)
    flips = [gate.choose() for _ in range(100_000)]
    pairs = sum(a and b for a, b in itertools.pairwise(flips))
    assert abs(pairs - 100_000 * 0.09) < 5 * sqrt(100_000 * 0.09 * 0.91) * 1.3


def test_count_and_share_hold_when_eight_threads_choose():
    gate, each, hits = Gate(0.1), 20_000, []

    def work():
        hits.append(sum(gate.choose() for _ in range(each)))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    n = 8 * each
    assert gate.seen == n
    assert abs(sum(hits) - n * 0.1) < 5 * sqrt(n * 0.09)


def test_draw_is_fair_when_another_draw_is_under_way():
    gate = Gate(0.5)
    gate._turn.clear()  # as a signal handler sees it that interrupts a draw
    hits = sum(gate.choose() for _ in range(10_000))
    assert abs(hits - 5_000) < 5 * sqrt(2_500)


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
def test_low_half_of_the_trace_id_decides(low, rate, hit):
    assert Gate(rate).choose("a" * 16 + low) is hit


def test_smaller_sample_is_part_of_larger_one_when_chosen_by_trace():
    ids = [f"{random.Random(i).getrandbits(128):032x}" for i in range(2_000)]
    small, large = Gate(0.05), Gate(0.1)
    assert {i for i in ids if small.choose(i)} < {i for i in ids if large.choose(i)}
    assert small.seen == 2_000


@pytest.mark.parametrize("trace_id", ["", "abc", "z" * 32, "+" + "0" * 31, "٣" * 32, 7, object()])
def test_coin_decides_when_trace_id_is_no_trace_id(trace_id):
    gate = Gate(1.0)
    assert gate.choose(trace_id)
    assert gate.seen == 1


def test_hosts_random_stream_is_untouched():
    random.seed(1)
    expected = random.random()
    random.seed(1)
    gate = Gate(0.5)
    for _ in range(100):
        gate.choose()
    assert random.random() == expected


@pytest.mark.parametrize("rate", [5e-324, 1e-300, 1 - 1e-16])
def test_extreme_rate_works(rate):
    assert sum(Gate(rate).choose() for _ in range(100)) in {0, 100}
