"""
Measure the drift detectors: python benchmarks/drift.py [--runs 4] [--seed 1].

Streams of scores without a change tell the false findings in 30 days, at the budget of one
stream; with a change they tell the hours until it is found. In each row the sequential
detector of the mean and the two tests of closed hours look at the same buckets. The reference is
a week: ``trailing`` as it is by default, like hours where the day has a course; ``pooled``, all
hours whatever the day does; ``same_hour``, the hour a week before with one on either side.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

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


class Found(NamedTuple):
    """How many findings there were, and after how many hours the first one came."""

    findings: int
    first_h: float


def plain(rng: np.random.Generator, n: int, _hour: float) -> NDArray[np.float64]:
    """Draw independent scores of one distribution."""
    return rng.beta(8, 2, n)


def sessions(rng: np.random.Generator, n: int, _hour: float) -> NDArray[np.float64]:
    """Draw scores in sessions of three that are mostly alike."""
    shared = rng.beta(8, 2, n // 3 + 1).repeat(3)[:n]
    return np.where(rng.random(n) < 0.8, shared, rng.beta(8, 2, n))  # noqa: PLR2004


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

    def __init__(self, rng: np.random.Generator, scores: Scores, per_minute: float) -> None:
        minutes = [
            scores(rng, int(n), k // 60) for k, n in enumerate(rng.poisson(per_minute, WEEK // 60))
        ]
        self._hours = {
            hour * HOUR: _tally({k: _bins(minutes[60 * hour + k]) for k in range(60)})
            for hour in range(WEEK // HOUR)
        }
        full = [(k, values) for k, values in enumerate(minutes) if len(values)]
        self.effect = design_effect(
            np.array([k for k, _ in full]),
            np.array([float((values >= PASS_SCORE).sum()) for _, values in full]),
            np.array([float(len(values)) for _, values in full]),
        ).factor
        self._has_course = has_course(self._hours)
        self._known: dict[int, Tally] = {}

    def reference(self, kind: str, hour: int) -> Tally:
        """Sum what an hour, counted from the end of the week, is compared with."""
        place = 0
        if kind == "same_hour":
            place = hour % (WEEK // HOUR)
        elif kind == "trailing" and self._has_course:
            place = hour % 24
        if place not in self._known:
            window = ReferenceSpan(WEEK + hour * HOUR, WEEK + (hour + 1) * HOUR)
            spans = [ReferenceSpan(0, WEEK)]
            if kind == "same_hour":
                first = place * HOUR
                spans = [ReferenceSpan(first - HOUR, first + 2 * HOUR)]
            elif kind == "trailing" and self._has_course:
                spans = same_hours(spans, window)
            self._known[place] = sum(
                (self._hours[k % WEEK] for span in spans for k in range(*span, HOUR)),
                start=Tally(),
            )
        return self._known[place]


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
    *,
    per_minute: float,
    hours: int,
    before: Scores = plain,
    kind: str = "trailing",
) -> Found:
    """Run the detectors of one stream, after a week of *before*."""
    week = Week(rng, before, per_minute)
    effect = week.effect
    state = ScoreDriftState(
        at_s=0,
        began_s=0,
        baseline=score_reference(week.reference(kind, 0)),
        baseline_at_s=0,
        chunk_from_s=0,
        design_effect=effect,
    )
    line, findings, first_h = threshold(MINUTE, BUDGET / 4), 0, float("inf")
    chunk, chunk_hours = Tally(), 0
    for hour in range(hours):
        reference = week.reference(kind, hour)
        state = replace(state, baseline=score_reference(reference))
        buckets = {
            hour * HOUR + minute * MINUTE: _bins(scores(rng, int(rng.poisson(per_minute)), hour))
            for minute in range(60)
        }
        state, alarms = take_in(state, buckets, to_s=(hour + 1) * HOUR, bucket_s=MINUTE, line=line)
        chunk += _tally(buckets)
        chunk_hours += 1
        found = [(alarm.at_s / HOUR) for alarm in alarms]
        if chunk.n >= LEAST or chunk_hours == MOST_HOURS:
            alpha = BUDGET / 4 * chunk_hours / 720
            if chunk.n >= LEAST and reference.n >= LEAST_REFERENCE:
                tests = chunk_tests(reference, chunk, alpha=alpha, design_effect=effect)
                found += [hour + 1.0 for t in tests if t.worth_it and t.p_value <= alpha]
            chunk, chunk_hours = Tally(), 0
        findings += len(found)
        first_h = min([first_h, *found])
    return Found(findings, first_h)


def _bins(values: NDArray[np.float64]) -> dict[int, int]:
    bins, counts = np.unique(np.floor(values * 100 + 0.5).astype(int), return_counts=True)
    return dict(zip(bins.tolist(), counts.tolist(), strict=True))


def _tally(buckets: dict[int, dict[int, int]]) -> Tally:
    counts: Counter[int] = Counter()
    for bucket in buckets.values():
        counts.update(bucket)
    n = counts.total()
    x, xx = (sum(c * (b / 100) ** power for b, c in counts.items()) for power in (1, 2))
    return Tally(n=n, sum_w=n, sum_w2=n, sum_x=x, sum_x2=xx, sum_wx=x, sum_wxx=xx, histogram=counts)


def main() -> None:
    """Run all of it and print two tables."""
    parser = make_parser(__doc__)
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    print_head("healthy scores", "reference", "a minute", "false findings in 30 days")
    for scores, kind in HEALTHY:
        for per_minute in (1.0, 10.0):
            found = [
                run(rng, scores, per_minute=per_minute, hours=720, before=scores, kind=kind)
                for _ in range(options.runs)
            ]
            false = np.mean([item.findings for item in found])
            print_row(scores.__name__, kind, f"{per_minute:g}", f"{false:.2f}")
    print()
    print_head("change", "a minute", "hours to a finding, median")
    for scores in (lower, wider):
        for per_minute in (1.0, 10.0):
            found = [
                run(rng, scores, per_minute=per_minute, hours=48) for _ in range(4 * options.runs)
            ]
            median_h = np.median([item.first_h for item in found])
            print_row(scores.__name__, f"{per_minute:g}", f"{median_h:.1f}")


if __name__ == "__main__":
    main()
