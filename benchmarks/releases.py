"""
Measure the comparisons: how soon a live release is called worse, how often wrongly; A/A; Thompson.

Run: python benchmarks/releases.py [--runs 200]. Takes about three minutes on two cores.
"""

from __future__ import annotations

import argparse

import numpy as np

from monitor.stats.multiplicity import thompson_shares
from monitor.testsets.compare import arms_of_scores, compare, decide, decision
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
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    runs = parser.parse_args().runs
    random = np.random.default_rng(1)
    print("release: verdicts after 150 samples of a fall of 10 points; after 3,000 without a fall")
    for rate in (0.97, 0.95, 0.9, 0.85):
        for past in (False, True):
            fell = shares(random, rate, rate - 0.1, 75, runs, past=past)
            same = shares(random, rate, rate, 1_500, max(20, runs // 2), past=past)
            when = "the old one has a past" if past else "side by side"
            print(f"  {rate:.0%}, {when}: {fell}; {same}")
    deployed = 0
    for _ in range(1_000):
        arms = arms_of_scores({"A": random.beta(5, 2, 300), "B": random.beta(5, 2, 300)})
        deployed += decision(decide([compare("m", *arms)])).startswith("deploy")
    print(f"A/A of 300 scores, 1,000 times: {deployed} deployed")
    got = []
    for seed in range(60):
        draw, passed, n = np.random.default_rng(seed), np.zeros(2), np.zeros(2)
        for _ in range(200):
            chosen = draw.random(10) >= thompson_shares(passed, n)[0]
            for k, rate in enumerate((0.9, 0.8)):
                n[k] += (count := int((chosen == k).sum()))
                passed[k] += draw.binomial(count, rate)
        got.append(n[0] / 2_000)
    print(f"Thompson, .9 against .8, 2,000 requests, 60 seeds: median share {np.median(got):.3f}")


if __name__ == "__main__":
    main()
