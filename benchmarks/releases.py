"""
Measure how soon a live release is called worse, and how often wrongly.

Run: python benchmarks/releases.py [--runs 200]. Takes about two minutes.
"""

import numpy as np
from common import make_parser

from monitor.testsets.releases import PassCounts, ReleaseStatus, judge_release

EACH = 2  #: samples a minute and release
PAST = 2_000  #: minutes of the release before


def counts(random: np.random.Generator, rate: float, minutes: int, begins: int = 0) -> PassCounts:
    """Make the buckets of one release."""
    n = np.full(minutes, float(EACH))
    start_s = (begins + np.arange(minutes)) * 60
    return PassCounts(start_s, random.binomial(EACH, rate, minutes).astype(float), n)


def shares(
    random: np.random.Generator, before: float, after: float, minutes: int, runs: int, *, past: bool
) -> dict[str, float]:
    """Return how often each verdict stands after so many minutes, with a look at each."""
    found = dict.fromkeys(ReleaseStatus, 0)
    for _ in range(runs):
        old = counts(random, before, PAST if past else minutes)
        new = counts(random, after, minutes, begins=PAST if past else 0)
        found[judge_release("m", old, new, max_drop=0.03).status] += 1
    return {status.value: n / runs for status, n in found.items() if n}


def main() -> None:
    """Print how releases compare."""
    runs = make_parser(__doc__, runs=200).parse_args().runs
    random = np.random.default_rng(1)
    print("release: verdicts after 150 samples of a fall of 10 points; after 3,000 without a fall")
    for rate in (0.97, 0.95, 0.9, 0.85):
        for past in (False, True):
            fell = shares(random, rate, rate - 0.1, 75, runs, past=past)
            same = shares(random, rate, rate, 1_500, max(20, runs // 2), past=past)
            when = "the old one has a past" if past else "side by side"
            print(f"  {rate:.0%}, {when}: {fell}; {same}")


if __name__ == "__main__":
    main()
