"""
Measure how soon a live release is called worse, and how often wrongly.

Run: python benchmarks/releases.py [--runs 200]. Takes about two minutes.
"""

from collections import Counter
from itertools import product

import numpy as np
from common import print_head, print_row, script

from monitor.testsets.releases import PassCounts, ReleaseStatus, judge_release

EACH = 2  #: samples a minute and release
PAST = 2_000  #: minutes of the release before


def counts(random: np.random.Generator, rate: float, minutes: int, begins: int = 0) -> PassCounts:
    """Make the buckets of one release."""
    start_s = (begins + np.arange(minutes)) * 60
    passed = random.binomial(EACH, rate, minutes).astype(float)
    return PassCounts(start_s, passed, np.full(minutes, float(EACH)))


@script
def main(*, runs: int = 200) -> None:
    """Print how often each verdict stands after so many minutes, with a look at each."""
    random = np.random.default_rng(1)
    print_head("before", "after", "the old one has a past", "samples", *ReleaseStatus)
    for rate in (0.97, 0.95, 0.9, 0.85):
        for past, (after, minutes, n) in product(
            (False, True), ((rate - 0.1, 75, runs), (rate, 1_500, max(20, runs // 2)))
        ):
            found = Counter[ReleaseStatus]()
            for _ in range(n):
                old = counts(random, rate, PAST if past else minutes)
                new = counts(random, after, minutes, begins=PAST if past else 0)
                found[judge_release("m", old, new, max_drop=0.03).status] += 1
            shares = (f"{found[status] / n:.3f}" for status in ReleaseStatus)
            print_row(f"{rate:.0%}", f"{after:.0%}", past, EACH * minutes, *shares)
