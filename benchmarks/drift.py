"""
Measure the drift detectors: python benchmarks/drift.py [--runs 4] [--seed 1].

Streams of scores without a change tell the false findings in 30 days, at the budget of one
stream; with a change they tell the hours until it is found. In each row the sequential
detector of the mean and the two tests of closed hours look at the same buckets. The reference is
a week: ``trailing`` as it is by default, like hours where the day has a course; ``pooled``, all
hours whatever the day does.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import product

import numpy as np
from common import print_head, print_row, script
from numpy.typing import NDArray

from monitor.models import Tally
from monitor.rolling.baseline import ReferenceSpan
from monitor.rolling.drift import (
    LEAST_REFERENCE,
    ScoreDriftState,
    chunk_tests,
    has_course,
    same_hours,
    score_reference,
    take_in,
    threshold,
)
from monitor.stats.intervals import design_effect

HOUR, WEEK = 3600, 7 * 86_400
#: Of one stream in 30 days, over four tests.
BUDGET = 0.1
LEAST, MOST_HOURS, PASS_SCORE = 50, 24, 0.7

Scores = Callable[[np.random.Generator, int, float], NDArray[np.float64]]


def sessions(rng: np.random.Generator, n: int, _hour: float) -> NDArray[np.float64]:
    """Draw scores in sessions of three that are mostly alike."""
    shared = rng.beta(8, 2, n // 3 + 1).repeat(3)[:n]
    return np.where(rng.random(n) < 0.8, shared, rng.beta(8, 2, n))


#: Healthy ones; ``lower`` by 0.05; ``wider`` have the same mean and twice the spread.
SCORES: dict[str, Scores] = {
    "plain": lambda rng, n, _: rng.beta(8, 2, n), "sessions": sessions,
    "daily": lambda rng, n, hour:
        np.clip(rng.beta(8, 2, n) + 0.02 * np.sin(2 * np.pi * hour / 24), 0, 1),
    "lower": lambda rng, n, _: np.clip(rng.beta(8, 2, n) - 0.05, 0, 1),
    "wider": lambda rng, n, _: rng.beta(1.6, 0.4, n),
}  # fmt: skip


def week_of(
    rng: np.random.Generator, scores: Scores, per_minute: float, *, pooled: bool
) -> tuple[list[Tally], float]:
    """Draw a week; return what each hour of a day is compared with, and the design effect."""
    drawn = rng.poisson(per_minute, WEEK // 60).tolist()
    minutes = [scores(rng, n, minute // 60) for minute, n in enumerate(drawn)]
    hours = {
        hour * HOUR: _tally(bins_of(np.concatenate(minutes[60 * hour : 60 * hour + 60])))
        for hour in range(WEEK // HOUR)
    }
    full = [(minute, (values >= PASS_SCORE).sum(), values.size)
            for minute, values in enumerate(minutes) if values.size]  # fmt: skip
    whole, references = [ReferenceSpan(0, WEEK)], []
    for hour in range(24):
        spans = whole
        if has_course(hours) and not pooled:
            here = ReferenceSpan(WEEK + hour * HOUR, WEEK + (hour + 1) * HOUR)
            spans = same_hours(whole, here)
        references.append(
            Tally.total(hours[k % WEEK] for span in spans for k in range(*span, HOUR))
        )
    return references, design_effect(*np.array(full, float).T).factor


def findings(
    rng: np.random.Generator, scores: str, per_minute: float, hours: int,
    before: str = "plain", *, pooled: bool = False,
) -> list[float]:  # fmt: skip
    """Run the detectors of one stream, after a week of *before*; return the hours of findings."""
    references, effect = week_of(rng, SCORES[before], per_minute, pooled=pooled)
    state = ScoreDriftState(
        at_s=0, began_s=0, baseline=score_reference(references[0]), baseline_at_s=0, chunk_from_s=0,
        design_effect=effect,
    )  # fmt: skip
    draw, line, found = SCORES[scores], threshold(60, BUDGET / 4), list[float]()
    chunk, chunk_hours = Counter[int](), 0
    for hour in range(hours):
        reference = references[hour % 24]
        state = replace(state, baseline=score_reference(reference))
        buckets = {
            hour * HOUR + minute * 60: bins_of(draw(rng, int(rng.poisson(per_minute)), hour))
            for minute in range(60)
        }
        state, alarms = take_in(state, buckets, to_s=(hour + 1) * HOUR, bucket_s=60, line=line)
        found += [alarm.at_s / HOUR for alarm in alarms]
        for bins in buckets.values():
            chunk.update(bins)
        chunk_hours += 1
        if chunk.total() >= LEAST or chunk_hours == MOST_HOURS:
            alpha = BUDGET / 4 * chunk_hours / 720
            if chunk.total() >= LEAST and reference.n >= LEAST_REFERENCE:
                tests = chunk_tests(reference, _tally(chunk), alpha=alpha, design_effect=effect)
                found += [hour + 1.0 for t in tests if t.worth_it and t.p_value <= alpha]
            chunk, chunk_hours = Counter(), 0
    return found


def bins_of(values: NDArray[np.float64]) -> Counter[int]:
    """Count scores by hundredths."""
    return Counter(np.floor(values * 100 + 0.5).astype(int).tolist())


def _tally(counts: Counter[int]) -> Tally:
    n = counts.total()
    x, xx = (sum(c * (b / 100) ** power for b, c in counts.items()) for power in (1, 2))
    return Tally(n=n, sum_w=n, sum_w2=n, sum_x=x, sum_x2=xx, sum_wx=x, sum_wxx=xx, histogram=counts)


@script
def main(*, runs: int = 4, seed: int = 1) -> None:
    """Run every comparison and print two tables."""
    rng = np.random.default_rng(seed)
    print_head("healthy scores", "reference", "a minute", "false findings in 30 days")
    for (scores, pooled), per_minute in product(
        (("plain", False), ("sessions", False), ("daily", False), ("daily", True)), (1.0, 10.0)
    ):
        found = [findings(rng, scores, per_minute, 720, scores, pooled=pooled) for _ in range(runs)]
        false = np.mean([len(each) for each in found])
        reference = "pooled" if pooled else "trailing"
        print_row(scores, reference, f"{per_minute:g}", f"{false:.2f}")
    print()
    print_head("change", "a minute", "hours to a finding, median")
    for change, per_minute in product(("lower", "wider"), (1.0, 10.0)):
        hours = [min(findings(rng, change, per_minute, 48), default=np.inf)
                 for _ in range(4 * runs)]  # fmt: skip
        print_row(change, f"{per_minute:g}", f"{np.median(hours):.1f}")
