"""
Measure the drift detectors: python benchmarks/drift.py [--runs 4] [--seed 1].

Streams of scores without a change tell the false findings in 30 days, at the budget of one
stream; with a change they tell the hours until it is found. In each row the sequential
detector of the mean and the two tests of closed hours look at the same buckets. The reference is
a week: ``trailing`` as it is by default, like hours where the day has a course; ``pooled``, all
hours whatever the day does; ``same_hour``, the hour a week before with one on either side.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
from common import make_parser, print_head, print_row
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

MINUTE, HOUR, WEEK = 60, 3600, 7 * 86_400
#: Of one stream in 30 days, over four tests.
BUDGET = 0.1
LEAST = 50
MOST_HOURS = 24
PASS_SCORE = 0.7

Scores = Callable[[np.random.Generator, int, float], NDArray[np.float64]]


def plain(rng: np.random.Generator, n: int, _hour: float) -> NDArray[np.float64]:
    """Draw independent scores of one distribution."""
    return rng.beta(8, 2, n)


def sessions(rng: np.random.Generator, n: int, _hour: float) -> NDArray[np.float64]:
    """Draw scores in sessions of three that are mostly alike."""
    shared = rng.beta(8, 2, n // 3 + 1).repeat(3)[:n]
    return np.where(rng.random(n) < 0.8, shared, rng.beta(8, 2, n))


def daily(rng: np.random.Generator, n: int, hour: float) -> NDArray[np.float64]:
    """Draw scores whose mean goes up and down by 0.02 with the hour."""
    return np.clip(rng.beta(8, 2, n) + 0.02 * np.sin(2 * np.pi * hour / 24), 0, 1)


def lower(rng: np.random.Generator, n: int, _hour: float) -> NDArray[np.float64]:
    """Draw scores that are 0.05 lower."""
    return np.clip(rng.beta(8, 2, n) - 0.05, 0, 1)


def wider(rng: np.random.Generator, n: int, _hour: float) -> NDArray[np.float64]:
    """Draw scores of the same mean and twice the spread."""
    return rng.beta(1.6, 0.4, n)


class Week:
    """A week of scores before the first hour, as a reference."""

    def __init__(
        self, rng: np.random.Generator, scores: Scores, per_minute: float, kind: str
    ) -> None:
        minutes = [
            scores(rng, int(n), k // 60) for k, n in enumerate(rng.poisson(per_minute, WEEK // 60))
        ]
        self._hours = {
            hour * HOUR: _tally([_bins(values) for values in minutes[60 * hour : 60 * hour + 60]])
            for hour in range(WEEK // HOUR)
        }
        full = [(k, (values >= PASS_SCORE).sum(), values.size)
                for k, values in enumerate(minutes) if values.size]  # fmt: skip
        self.effect = design_effect(*np.array(full, float).T).factor
        self._kind = "pooled" if kind == "trailing" and not has_course(self._hours) else kind

    def reference(self, hour: int) -> Tally:
        """Sum what an hour, counted from the end of the week, is compared with."""
        periods = {"same_hour": WEEK // HOUR, "trailing": 24, "pooled": 1}
        return self._sum_of(hour % periods[self._kind])

    @cache  # noqa: B019 - there are few weeks
    def _sum_of(self, place: int) -> Tally:
        spans = [ReferenceSpan(0, WEEK)]
        if self._kind == "same_hour":
            spans = [ReferenceSpan((place - 1) * HOUR, (place + 2) * HOUR)]
        elif self._kind == "trailing":
            hour = ReferenceSpan(WEEK + place * HOUR, WEEK + (place + 1) * HOUR)
            spans = same_hours(spans, hour)
        return Tally.total(self._hours[k % WEEK] for span in spans for k in range(*span, HOUR))


HEALTHY = (
    (plain, "trailing"),
    (sessions, "trailing"),
    (daily, "trailing"),
    (daily, "pooled"),
    (daily, "same_hour"),
    (plain, "same_hour"),
)


def run(
    rng: np.random.Generator,
    scores: Scores,
    per_minute: float,
    hours: int,
    before: Scores = plain,
    kind: str = "trailing",
) -> list[float]:
    """Run the detectors of one stream, after a week of *before*; return the hours of findings."""
    week = Week(rng, before, per_minute, kind)
    baseline = score_reference(week.reference(0))
    state = ScoreDriftState(
        at_s=0, began_s=0, baseline=baseline, baseline_at_s=0, chunk_from_s=0,
        design_effect=week.effect,
    )  # fmt: skip
    line, found = threshold(MINUTE, BUDGET / 4), list[float]()
    chunk: list[dict[int, int]] = []
    for hour in range(hours):
        reference = week.reference(hour)
        state = replace(state, baseline=score_reference(reference))
        buckets = {
            hour * HOUR + minute * MINUTE: _bins(scores(rng, int(rng.poisson(per_minute)), hour))
            for minute in range(60)
        }
        state, alarms = take_in(state, buckets, to_s=(hour + 1) * HOUR, bucket_s=MINUTE, line=line)
        found += [alarm.at_s / HOUR for alarm in alarms]
        chunk += buckets.values()
        tally, chunk_hours = _tally(chunk), len(chunk) // 60
        if tally.n >= LEAST or chunk_hours == MOST_HOURS:
            alpha = BUDGET / 4 * chunk_hours / 720
            if tally.n >= LEAST and reference.n >= LEAST_REFERENCE:
                tests = chunk_tests(reference, tally, alpha=alpha, design_effect=week.effect)
                found += [hour + 1.0 for t in tests if t.worth_it and t.p_value <= alpha]
            chunk = []
    return found


def _bins(values: NDArray[np.float64]) -> dict[int, int]:
    bins, counts = np.unique(np.floor(values * 100 + 0.5).astype(int), return_counts=True)
    return dict(zip(bins.tolist(), counts.tolist(), strict=True))


def _tally(buckets: Iterable[dict[int, int]]) -> Tally:
    counts: Counter[int] = Counter()
    for bucket in buckets:
        counts.update(bucket)
    n = counts.total()
    x, xx = (sum(c * (b / 100) ** power for b, c in counts.items()) for power in (1, 2))
    return Tally(n=n, sum_w=n, sum_w2=n, sum_x=x, sum_x2=xx, sum_wx=x, sum_wxx=xx, histogram=counts)


def main() -> None:
    """Run all of it and print two tables."""
    options = make_parser(__doc__, runs=4, seed=1).parse_args()
    rng = np.random.default_rng(options.seed)
    print_head("healthy scores", "reference", "a minute", "false findings in 30 days")
    for (scores, kind), per_minute in product(HEALTHY, (1.0, 10.0)):
        found = [run(rng, scores, per_minute, 720, scores, kind) for _ in range(options.runs)]
        false = np.mean([len(each) for each in found])
        print_row(scores.__name__, kind, f"{per_minute:g}", f"{false:.2f}")
    print()
    print_head("change", "a minute", "hours to a finding, median")
    for scores, per_minute in product((lower, wider), (1.0, 10.0)):
        found = [run(rng, scores, per_minute, 48) for _ in range(4 * options.runs)]
        median_h = np.median([min(each, default=np.inf) for each in found])
        print_row(scores.__name__, f"{per_minute:g}", f"{median_h:.1f}")


if __name__ == "__main__":
    main()
