"""Named failure modes: planted ones are found, and chance invents none."""

import random
from datetime import UTC, datetime, timedelta

import pytest

from monitor.rolling.faults import ScoredText, failure_modes

START = datetime(2026, 11, 1, tzinfo=UTC)
WORDS = [f"w{i}" for i in range(2_000)]
WEIGHTS = [1 / (i + 3) for i in range(2_000)]


def traffic(seed, n, *, failing=0.15, modes=(), share=0.6, longer=0):
    """Failing and passing texts; *share* of the failures have the words of a planted mode."""
    rng = random.Random(seed)
    failed, passed = [], []
    for i in range(n):
        words = rng.choices(WORDS, WEIGHTS, k=rng.randint(6, 30))
        fails = rng.random() < failing
        if fails:
            words += rng.choices(WORDS, WEIGHTS, k=longer)
            if modes and rng.random() < share:
                words += rng.choice(modes).split()
        text = ScoredText(str(i), START + timedelta(minutes=i), " ".join(words))
        (failed if fails else passed).append(text)
    return failed, passed


def test_planted_modes_are_found_with_their_words_and_sizes():
    modes = ["gift card", "return label", "student discount"]
    failed, passed = traffic(1, 2_000, modes=modes)
    found = failure_modes(failed, passed)
    assert {tuple(sorted(each.name.split(" · ")[0].split())) for each in found} == {
        tuple(sorted(mode.split())) for mode in modes
    }
    assert sum(each.n for each in found) == pytest.approx(0.6 * len(failed), rel=0.15)


def test_false_modes_appear_in_at_most_one_of_twenty_runs():
    invented = sum(bool(failure_modes(*traffic(seed, 250))) for seed in range(60))
    assert invented <= 3


def test_longer_failing_answers_are_not_a_failure_mode():
    invented = sum(bool(failure_modes(*traffic(seed, 250, longer=15))) for seed in range(20))
    assert invented <= 1


def test_words_equally_common_in_passing_answers_are_not_a_mode():
    failed, passed = traffic(3, 1_000)
    both = [
        [each._replace(text=f"{each.text} gift card") for each in side] for side in (failed, passed)
    ]
    assert failure_modes(*both) == []


def test_mode_that_only_appears_late_grows_and_an_old_one_does_not():
    failed, passed = traffic(4, 1_200)
    texts = [
        each._replace(text=f"{each.text} {'late' if i % 4 == 0 and i > len(failed) / 2 else ''}"
                           f" {'steady' if i % 4 == 1 else ''}")
        for i, each in enumerate(failed)
    ]  # fmt: skip
    found = {each.name: each for each in failure_modes(texts, passed)}
    assert (found["late"].growing, found["steady"].growing) == (True, False)
    assert found["late"].first_seen > found["steady"].first_seen
    assert (
        found["late"].examples[0]
        == max((each for each in texts if " late" in each.text), key=lambda each: each.at).sample_id
    )


@pytest.mark.parametrize(("failed", "passed"), [(4, 100), (50, 0), (0, 0)])
def test_too_few_samples_have_no_modes(failed, passed):
    texts = [ScoredText(str(i), START, "gift card") for i in range(200)]
    assert failure_modes(texts[:failed], texts[100 : 100 + passed]) == []
