"""Sizes of many sums at once are those of each alone."""

import numpy as np

from monitor.rolling.tallies import pass_counts
from monitor.stats.intervals import effective_size


def test_effective_sizes_of_many_buckets_equal_single_ones():
    rng = np.random.default_rng(4)
    rows = []
    for _ in range(300):
        n = int(rng.integers(1, 30))
        w = rng.choice([1.0, 4.0, 20.0], n) if rng.random() < 0.5 else np.full(n, 20.0)
        y = (rng.random(n) < rng.choice([0.0, 0.8, 1.0])).astype(float)
        y = y + rng.choice([0.0, 0.7]) * rng.standard_normal(n)
        squares = w * w
        sums = (w.sum(), squares.sum(), (w * y).sum(), (squares * y).sum(), (squares * y * y).sum())
        rows.append((len(rows), n, *sums))
    alone = [effective_size(n, w, w2, w2y, w2yy, wy / w) for _, n, w, w2, wy, w2y, w2yy in rows]
    np.testing.assert_allclose(pass_counts(rows).n, alone)


def test_buckets_without_scores_are_left_out():
    starts, passed, n = pass_counts([(0, 0, 0, 0, 0, 0, 0), (60, 4, 4, 4, 3, 3, 3)])
    assert (starts.tolist(), passed.tolist(), n.tolist()) == ([60], [3.0], [4.0])
    assert pass_counts([]).n.size == 0
