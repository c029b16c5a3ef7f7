"""
How often a decision is right where the truth is known; tables of simulated runs.

    python benchmarks/decisions.py attribution | check | judge | releases [--runs 200]

`attribution`: fifty segments of unequal size and pass rate; in some incidents one is guilty, in
others all change alike. `check`: what pairs of labels find, exact sums over all ways in which they
can come. `judge`: old samples judged again, once each: the pairs until a silent change is found,
and whose a change is after a burst of 150. `releases`: how soon a live release is called worse.
"""

from collections import Counter
from itertools import product
from typing import Literal

import numpy as np
from common import print_head, print_row, script

from monitor.stats.judge_shift import Cause
from monitor.stats.two_rates import power
from monitor.testsets.releases import PassCounts, ReleaseStatus, judge_release
from support.incidents import Incident, explain
from support.judge_swaps import burst, pairs_until_found

EACH, PAST = 2, 2_000  #: samples a minute and release; minutes of the release before


def attribution(rng: np.random.Generator, runs: int) -> None:
    """Print how often the guilty segment is named first, and how often nobody is named."""
    print_head("shares", "scores since", "guilty rate", "all rates", "named first", "nobody named")
    changes = ((0.2, 1.0), (0.4, 1.0), (0.6, 1.0), (None, 1.0), (None, 0.8), (None, 0.6))
    for unequal, n_after, (rate, times) in product((False, True), (1000, 2000, 5000), changes):
        found = [explain(rng, Incident(rate, times, n_after, unequal)) for _ in range(runs)]
        first = np.mean([named[:1] == [guilty] for guilty, named in found])
        nobody = np.mean([not named for _, named in found])
        print_row(
            "unequal" if unequal else "equal", n_after, rate or "–", f"× {times:g}",
            "–" if rate is None else f"{first:.3f}", f"{nobody:.3f}",
        )  # fmt: skip


def check(_: np.random.Generator, __: int) -> None:
    """Print what `groundwatch check` says; the last line has its worst rate of false alarms."""
    print_head("before", "after", 'says "worse"', "labels on average")
    for before, after in (
        (0.95, 0.95), (0.85, 0.85), (0.95, 0.80), (0.93, 0.73), (0.95, 0.70), (0.95, 0.40)
    ):  # fmt: skip
        found = power(before, after)
        print_row(before, after, f"{found.worse:.3f}", f"{found.mean_labels:.0f}")
    worst = max(power(rate, rate).worse for rate in np.linspace(0.01, 0.99, 99))
    print_row("any", "the same", f"{worst:.3f} at most", "")


def judge(rng: np.random.Generator, runs: int) -> None:
    """Print how a silent change of the judge is found, and whether judge or app is blamed."""
    print_head("judge moved by", "verdicts that differ when repeated", "found", "pairs, median")
    for shift, noise in product((-0.05, -0.10, -0.20, 0.0), (0.007, 0.06, 0.16)):
        found = [pairs_until_found(rng, shift=shift, noise=noise) for _ in range(runs)]
        pairs = [item for item in found if item is not None]
        median = f"{np.median(pairs):.0f}" if pairs else "–"
        print_row(f"{100 * shift:+.0f} points", noise, f"{len(pairs)} of {runs}", median)
    print_head("judge moved by", "app from 0.95 to", "noise", *(cause.value for cause in Cause))
    for (shift, now), noise in product(
        ((-0.1, 0.95), (-0.2, 0.95), (0.0, 0.7), (0.0, 0.4), (-0.1, 0.7)), (0.007, 0.06)
    ):
        causes = Counter(burst(rng, shift=shift, noise=noise, now=now).cause
                         for _ in range(10 * runs))  # fmt: skip
        shares = (f"{causes[cause] / (10 * runs):.3f}" for cause in Cause)
        print_row(f"{100 * shift:+.0f} points", now, noise, *shares)


def releases(rng: np.random.Generator, runs: int) -> None:
    """Print how often each verdict stands after so many minutes, with a look at each."""

    def counts(rate: float, minutes: int, begins: int = 0) -> PassCounts:
        start_s = (begins + np.arange(minutes)) * 60
        passed = rng.binomial(EACH, rate, minutes).astype(float)
        return PassCounts(start_s, passed, np.full(minutes, float(EACH)))

    print_head("before", "after", "the old one has a past", "samples", *ReleaseStatus)
    for rate, past, falls in product((0.97, 0.95, 0.9, 0.85), (False, True), (True, False)):
        after, minutes, n = (rate - 0.1, 75, runs) if falls else (rate, 1_500, max(20, runs // 2))
        found = Counter[ReleaseStatus]()
        for _ in range(n):
            old = counts(rate, PAST if past else minutes)
            new = counts(after, minutes, begins=PAST if past else 0)
            found[judge_release("m", old, new, max_drop=0.03).status] += 1
        shares = (f"{found[status] / n:.3f}" for status in ReleaseStatus)
        print_row(f"{rate:.0%}", f"{after:.0%}", past, EACH * minutes, *shares)


PARTS = {"attribution": attribution, "check": check, "judge": judge, "releases": releases}


@script
def main(
    what: Literal["attribution", "check", "judge", "releases"], *, runs: int = 200, seed: int = 1
) -> None:
    """Print the tables of one decision."""
    PARTS[what](np.random.default_rng(seed), runs)
