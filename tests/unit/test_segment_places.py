"""Places for frequent values: bounded, deterministic, given to whoever is certainly frequent."""

import random
from collections import Counter

from monitor.store.sample_index import PATIENCE_S, Census, Seen, admit


def test_first_values_get_slots_while_any_are_free():
    census = admit(Census(), {"a": 1, "b": 2}, {}, now_s=0, places=2)
    assert census.named.keys() == {"a", "b"}


def test_value_without_a_slot_waits():
    census = admit(Census({"a": 0}), {"b": 1}, {"a": Seen(5, 0)}, now_s=0, places=1)
    assert (set(census.named), census.waiting) == ({"a"}, {"b": (1, 0)})


def test_slot_goes_to_the_value_certainly_seen_more_often():
    census = Census({"a": 0}, {"b": (5, 0)})
    assert set(admit(census, {"b": 1}, {"a": Seen(5, 0)}, now_s=0, places=1).named) == {"b"}


def test_overestimated_count_does_not_take_a_slot():
    census = Census({"a": 0}, {"b": (9, 6)})
    assert set(admit(census, {"b": 1}, {"a": Seen(5, 0)}, now_s=0, places=1).named) == {"a"}


def test_slot_of_a_value_unseen_for_a_week_is_free():
    late_s = PATIENCE_S + 1
    census = admit(Census({"a": 0}), {"b": 1}, {"a": Seen(900, 0)}, now_s=late_s, places=1)
    assert set(census.named) == {"b"}


def test_memory_stays_bounded_and_true_heavy_hitters_are_found():
    rng = random.Random(5)
    census, counted = Census(), Counter()
    for step in range(400):
        batch = Counter(
            f"big-{rng.randrange(5)}" if rng.random() < 0.3 else f"once-{rng.random()}"
            for _ in range(50)
        )
        seen = {value: Seen(counted[value], step) for value in census.named}
        census = admit(census, batch, seen, now_s=step, places=10, waiting=20)
        counted.update({v: n for v, n in batch.items() if v in census.named})
        assert len(census.named) <= 10
        assert len(census.waiting) <= 20
    assert {f"big-{k}" for k in range(5)} <= census.named.keys()


def test_same_input_gives_the_same_decision():
    counts = {f"v{k}": k % 3 + 1 for k in range(50)}
    shuffled = dict(sorted(counts.items(), key=hash))
    assert admit(Census(), counts, {}, now_s=0, places=7) == admit(
        Census(), shuffled, {}, now_s=0, places=7
    )
