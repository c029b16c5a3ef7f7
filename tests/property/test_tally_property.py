"""Tallies merge: any order, any grouping, the same sums."""

from hypothesis import given
from hypothesis import strategies as st

from monitor.models import Tally
from monitor.rolling.tallies import tally_of, window_stats
from monitor.testing import make_evaluation

# Scores and rates that floating point adds exactly, so that order cannot show.
scores = st.integers(0, 64).map(lambda k: k / 64)
rates = st.sampled_from([1.0, 0.5, 0.25, 0.125])
tallies = st.lists(
    st.builds(
        lambda score, rate: tally_of(
            make_evaluation(score=score), sample_rate=rate, pass_score=0.7
        ),
        scores,
        rates,
    ),
    max_size=30,
)


@given(tallies, st.randoms())
def test_tally_does_not_depend_on_order(items, random):
    shuffled = random.sample(items, len(items))
    assert Tally.total(shuffled) == Tally.total(items)


@given(tallies, tallies, tallies)
def test_tally_merge_is_associative(a, b, c):
    first, second, third = Tally.total(a), Tally.total(b), Tally.total(c)
    assert (first + second) + third == first + (second + third)


@given(tallies)
def test_adding_an_empty_tally_changes_nothing(items):
    assert Tally.total(items) + Tally() == Tally.total(items)


@given(tallies)
def test_window_figures_stay_within_their_range(items):
    window = window_stats(Tally.total(items))
    if items:
        assert 0 <= window.interval.low <= window.pass_rate <= window.interval.high <= 1
        assert 0 < window.n_effective <= window.n == len(items)
    else:
        assert window.pass_rate is None
