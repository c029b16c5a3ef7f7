"""A logistic curve drawn towards what is believed beforehand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import expit

from monitor.stats.summary import ridge_logistic

sizes = st.integers(0, 30)
numbers = st.floats(-5, 5)


@given(st.data(), sizes)
def test_ridge_logistic_finds_the_posterior_mode(data, n):
    design = data.draw(arrays(float, (n, 3), elements=numbers))
    targets = data.draw(arrays(float, n, elements=st.floats(0, 1)))
    centre = data.draw(arrays(float, 3, elements=numbers))
    precision = data.draw(arrays(float, 3, elements=st.floats(0.1, 10)))
    weights = ridge_logistic(design, targets, centre, precision)
    missing = targets - expit(design @ weights)
    assert design.T @ missing == pytest.approx(precision * (weights - centre), abs=1e-3)


def test_prior_fades_with_data():
    random = np.random.default_rng(3)
    design = np.column_stack([np.ones(20_000), random.normal(size=20_000)])
    targets = (random.random(20_000) < expit(design @ [-1.0, 2.0])).astype(float)
    found = ridge_logistic(design, targets, np.zeros(2), np.ones(2))
    assert found == pytest.approx([-1.0, 2.0], abs=0.1)


def test_separable_outcomes_leave_the_weights_finite():
    design = np.column_stack([np.ones(40), np.linspace(-1, 1, 40)])
    found = ridge_logistic(design, (design[:, 1] > 0).astype(float), np.zeros(2), np.ones(2))
    assert 1 < found[1] < 20


@given(st.lists(st.tuples(numbers, st.sampled_from([0.0, 1.0]), st.integers(0, 4)), max_size=20))
def test_row_with_weight_two_equals_two_rows(rows):
    x, targets, counts = np.array(rows, float).reshape(-1, 3).T
    design = np.column_stack([np.ones(len(x)), x])
    often, belief = counts.astype(int), (np.zeros(2), np.ones(2))
    repeated = ridge_logistic(design.repeat(often, axis=0), targets.repeat(often), *belief)
    assert ridge_logistic(design, targets, *belief, counts) == pytest.approx(repeated, abs=1e-4)
