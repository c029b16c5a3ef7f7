"""The questions changed, or they did not."""

from collections import Counter

import numpy as np
import pytest

from monitor.models import Interaction
from monitor.rolling.drift import compare_inputs
from monitor.rolling.tallies import fingerprint

TOPICS = {
    "orders": ["Where is my order now?", "When will the order arrive?", "Track my order please"],
    "taxes": ["How is the invoice taxed?", "Which tax is on the invoice?", "Invoice without tax?"],
    "german": ["Wo ist meine Bestellung?", "Wann kommt die Bestellung an?"],
}


def asked(rng, n, mix, times=1):
    found = {}
    names, weights = list(mix), list(mix.values())
    for _ in range(n):
        texts = TOPICS[str(rng.choice(names, p=weights))]
        query = " ".join([str(rng.choice(texts))] * times)
        for feature, bins in fingerprint(Interaction(id="1", query=query, output="Ok.")).items():
            found.setdefault(feature, Counter()).update(bins)
    return found


def moved(before, after, alpha=1e-4):
    return {item.feature for item in compare_inputs(before, after, alpha=alpha) if item.moved}


@pytest.fixture
def rng():
    return np.random.default_rng(4)


def test_new_topic_is_found(rng):
    before = asked(rng, 400, {"orders": 0.9, "taxes": 0.1})
    assert "topic" in moved(before, asked(rng, 150, {"orders": 0.5, "taxes": 0.5}))


def test_new_language_is_found(rng):
    before = asked(rng, 400, {"orders": 1.0})
    assert {"language", "topic"} <= moved(before, asked(rng, 100, {"orders": 0.5, "german": 0.5}))


def test_longer_questions_are_found_and_are_not_a_new_topic(rng):
    before = asked(rng, 400, {"orders": 1.0})
    assert moved(before, asked(rng, 100, {"orders": 1.0}, times=4)) == {"query_chars"}


def test_same_questions_show_no_drift(rng):
    mix = {"orders": 0.6, "taxes": 0.3, "german": 0.1}
    before = asked(rng, 1000, mix)
    false = sum(bool(moved(before, asked(rng, 100, mix), alpha=0.01)) for _ in range(40))
    assert false <= 3


def test_drift_finding_names_the_number_of_questions(rng):
    found = compare_inputs(
        asked(rng, 400, {"orders": 1.0}), asked(rng, 150, {"taxes": 1.0}), alpha=1e-4
    )
    assert {(item.n_before, item.n_after) for item in found} == {(400, 150)}


def test_too_few_questions_show_no_drift(rng):
    assert (
        compare_inputs(asked(rng, 400, {"orders": 1}), asked(rng, 20, {"taxes": 1}), alpha=1) == []
    )
