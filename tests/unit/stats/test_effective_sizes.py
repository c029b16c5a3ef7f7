"""Sizes of many sums at once are those of each alone."""

import numpy as np

from monitor.rolling.tallies import pass_counts
from monitor.stats.design import effective_size, effective_sizes


def test_sizes_of_many_sums_are_those_of_each_alone():
    rng = np.random.default_rng(4)
    rows = []
    for _ in range(300):
        n = int(rng.integers(1, 30))
        w = rng.choice([1.0, 4.0, 20.0], n) if rng.random() < 0.5 else np.full(n, 20.0)
        y = (rng.random(n) < rng.choice([0.0, 0.8, 1.0])).astype(float)
        y = y + rng.choice([0.0, 0.7]) * rng.standard_normal(n)
        sums = (n, w.sum(), (w * w).sum(), (w * w * y).sum(), (w * w * y * y).sum())
        rows.append((*sums, (w * y).sum() / w.sum()))
    alone = [effective_size(*row) for row in rows]
    np.testing.assert_allclose(effective_sizes(*np.array(rows, dtype=float).T), alone)


def test_a_bucket_without_scores_counts_nothing():
    starts, passed, n = pass_counts([(0, 0, 0, 0, 0, 0, 0), (60, 4, 4, 4, 3, 3, 3)])
    assert (starts.tolist(), passed.tolist(), n.tolist()) == ([60], [3.0], [4.0])
    assert pass_counts([]).n.size == 0
