"""
Measure how a silent change of the judge is found: python benchmarks/level_judge.py [--runs 60].

Old samples are judged again, once each. The first table has the pairs until a change is found,
drip by drip; the second whose a change is after a burst of 150 old and 150 new verdicts.
"""

from collections import Counter

import numpy as np
from common import print_head, print_row, script

from monitor.stats.judge_shift import Cause
from support.judge_swaps import burst, pairs_until_found

NOISES = (0.007, 0.06, 0.16)
TRUTHS = (
    ("judge -10", -0.10, 0.95),
    ("judge -20", -0.20, 0.95),
    ("app 95 to 70", 0.0, 0.70),
    ("app 95 to 40", 0.0, 0.40),
    ("both", -0.10, 0.70),
)


@script
def main(*, runs: int = 60, seed: int = 1) -> None:
    """Print both tables."""
    rng = np.random.default_rng(seed)
    print_head("judge moved by", "verdicts that differ when repeated", "found", "pairs, median")
    for shift in (-0.05, -0.10, -0.20, 0.0):
        for noise in NOISES:
            found = [pairs_until_found(rng, shift=shift, noise=noise) for _ in range(runs)]
            pairs = [item for item in found if item is not None]
            median = f"{np.median(pairs):.0f}" if pairs else "–"
            print_row(f"{100 * shift:+.0f} points", noise, f"{len(pairs)} of {runs}", median)
    print_head("truth", "noise", *(cause.value for cause in Cause))
    for name, shift, now in TRUTHS:
        for noise in NOISES[:2]:
            causes = Counter(
                burst(rng, shift=shift, noise=noise, now=now).cause for _ in range(10 * runs)
            )
            print_row(name, noise, *(f"{causes[cause] / (10 * runs):.3f}" for cause in Cause))
