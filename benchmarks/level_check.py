"""
Print what a check on demand finds, and with how many labels: python benchmarks/level_check.py.

The figures are exact: sums over all ways in which labels can come, for pass rates before and
after. The last line has the most that it says "worse" at any rate that did not change.
"""

import numpy as np
from common import print_head, print_row, script

from monitor.stats.two_rates import power

RATES = ((0.95, 0.95), (0.85, 0.85), (0.95, 0.80), (0.93, 0.73), (0.95, 0.70), (0.95, 0.40))


@script
def main() -> None:
    """Print a row for each pair of pass rates."""
    print_head("before", "after", 'says "worse"', "labels on average")
    for before, after in RATES:
        found = power(before, after)
        print_row(before, after, f"{found.worse:.3f}", f"{found.mean_labels:.0f}")
    worst = max(power(rate, rate).worse for rate in np.linspace(0.01, 0.99, 99))
    print_row("any", "the same", f"{worst:.3f} at most", "")
