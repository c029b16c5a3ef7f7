"""What evidence costs."""

import numpy as np
import pytest
from scipy.stats import entropy

from monitor.stats.evidence import bernoulli_kl, resolution, samples_to_decide


@pytest.mark.parametrize(("q", "m"), [(0.8, 0.85), (0.0, 0.5), (1.0, 0.9), (0.3, 0.3)])
def test_bernoulli_kl_equals_scipys_relative_entropy(q, m):
    assert bernoulli_kl(q, m) == pytest.approx(entropy([q, 1 - q], [m, 1 - m]))


def test_resolution_is_the_smallest_detectable_fall():
    q = resolution(200, 0.85, 13.0)
    assert 200 * bernoulli_kl(q, 0.85) == pytest.approx(13.0)


def test_too_few_samples_have_no_resolution():
    assert resolution(3, 0.85, 13.0) == 0.0


def test_more_samples_resolve_smaller_falls():
    found = [resolution(n, 0.85, 13.0) for n in (30, 300, 3000, 10**9)]
    assert found == sorted(found)
    assert found[-1] < 0.85


def test_samples_to_decide_follow_from_the_divergence():
    assert samples_to_decide(0.65, 0.85, 13.0) == np.ceil(13.0 / bernoulli_kl(0.65, 0.85))
    assert samples_to_decide(0.90, 0.85, 13.0) is None
    assert samples_to_decide(0.90, 0.85, -1.0) == 0
