"""Whose fault a fall is: planted faults are named, and none is invented."""

import random
from collections import Counter

import pytest

from monitor.rolling.faults import Exchange, blame

SUBJECTS = [f"product{i}" for i in range(60)]
ASPECTS = ["refund", "warranty", "delivery", "battery", "colour", "manual", "price", "weight"]
NEW_ASPECTS = ["lawsuit", "merger", "dividend", "auditor", "shareholder", "bond"]


def exchange(rng, *, passes=0.94, aspects=ASPECTS, other_context=False):
    """A question about a product, with a context about it, or about another one."""
    subject, aspect = rng.choice(SUBJECTS), rng.choice(aspects)
    held = (rng.choice(SUBJECTS), rng.choice(ASPECTS)) if other_context else (subject, aspect)
    context = f"The {held[1]} of {held[0]} is described here in some detail."
    filler = rng.choice(["please", "exactly", "nowadays", "really"])
    return Exchange(
        f"What is the {aspect} of {subject} {filler}?", [context], rng.random() < passes
    )


def mixed(seed, share=0.0, **fault):
    """250 exchanges, a share of which has the fault."""
    rng = random.Random(seed)
    return [exchange(rng, **(fault if rng.random() < share else {})) for _ in range(250)]


FAULTS = {
    "retrieval": {"passes": 0.2, "other_context": True},
    "generation": {"passes": 0.2},
    "traffic": {"passes": 0.2, "aspects": [f"{a} {b}" for a in NEW_ASPECTS for b in NEW_ASPECTS]},
}


@pytest.mark.parametrize("cause", FAULTS)
def test_planted_fault_is_named_in_at_least_nine_of_ten_cases(cause):
    named = Counter(
        blame(mixed(seed), mixed(seed + 1_000, 0.4, **FAULTS[cause])).cause for seed in range(30)
    )
    assert named[cause] >= 27
    assert set(named) <= {cause, "unclear"}


def test_false_fault_is_named_in_at_most_one_of_twenty_calm_runs():
    named = Counter(blame(mixed(seed), mixed(seed + 1_000)).cause for seed in range(60))
    assert named["no fall"] + named["unclear"] >= 57


def test_parts_add_up_to_the_fall():
    before, after = mixed(1), mixed(2, 0.4, **FAULTS["retrieval"])
    found = blame(before, after)
    fail = [sum(not each.passed for each in side) / len(side) for side in (before, after)]
    assert sum(each.before for each in found.shares) == pytest.approx(fail[0])
    assert sum(each.after for each in found.shares) == pytest.approx(fail[1])
    assert all(each.low <= each.after - each.before <= each.high for each in found.shares)


def test_shares_of_zero_and_one_have_an_interval_with_a_width():
    passing, failing = ([exchange(random.Random(1), passes=p)] * 40 for p in (1.0, 0.0))
    shares = blame(passing, failing).shares
    assert {each.after for each in shares} == {0.0, 1.0}
    assert all(each.high - each.low > 0.05 for each in shares)


def test_uninformative_questions_leave_the_cause_unclear():
    def vague(seed, passes):
        rng = random.Random(seed)
        return [
            each._replace(question="Summarize this.", passed=rng.random() < passes)
            for each in mixed(seed)
        ]

    found = blame(vague(1, 0.95), vague(2, 0.6))
    assert (found.cause, bool(found.reason)) == ("unclear", True)


def test_failure_with_contexts_that_passed_before_is_blamed_on_generation():
    asked = [Exchange(f"Which is {word}?", ["Red is warm.", "Blue is cold."], passed=True)
             for word in ("warm", "cold")] * 50  # fmt: skip
    failing = [each._replace(passed=False) for each in asked]
    assert blame(asked, failing).cause == "generation"


@pytest.mark.parametrize(("before", "after"), [(29, 250), (250, 29), (0, 0)])
def test_too_few_samples_give_no_blame(before, after):
    assert blame(mixed(1)[:before], mixed(2)[:after]) is None
