"""
Measure what a cascade saves: python benchmarks/cascade.py FOLDER.

The labels play the judge. Local scores come from models fitted without the record's
document. Each repetition draws earlier traffic from one half of a data set's documents,
from which the cascade learns as it would in production, and then a window of samples
from the other half; the rate of that half is what the window's interval should hold.

Beside it: asking the judge about all samples, and about a plain random share of them.
"calls" says how many calls a plain share would need for the same half-width: 60 %
means that the cascade made 60 % of those. "in segments" tells the cascade from which data
set a sample comes, as the tag of a route or a prompt's version would.
"""

from __future__ import annotations

import argparse
import time
import zlib
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import train_local as training
from labelled import GROUNDEDNESS, RELEVANCE, Row, by_source, document, fold, read_rows
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from scoring import held_out_groundedness, held_out_relevance

from monitor.models import Tally
from monitor.models.evaluation import PassRule
from monitor.rolling.tallies import WindowStats, window_stats
from monitor.scoring.calibration import KEPT, Expected, JudgedSample, fit_curve
from monitor.scoring.cascade import JudgeSampling
from monitor.stats.intervals import difference_estimate, wilson_interval

Array = NDArray[np.float64]
SHARES = (0.1, 0.25, 0.5)
RULE = PassRule(0.7)
LEARN_AT = 5  # fitted when one verdict in so many is new; production does it more often
TOGETHER, TAGGED = "all together", "in segments"
FEWEST = 60  # records of a data set, in the smaller half
Z = 1.959963984540054


class Half(NamedTuple):
    """Records of one half: local scores, and the judge's verdicts as 0 or 1."""

    scores: Array
    passed: Array
    verdicts: Sequence[JudgedSample]  #: what the judge says of each; the score is its pass


class Run(NamedTuple):
    """One repetition: the estimate and its bounds, and the calls that it took."""

    rate: float
    low: float
    high: float
    calls: int


class Simulation:
    """The parts of a cascade that are not input and output, fed with labels."""

    def __init__(self, share: float) -> None:
        self._asking = JudgeSampling(share)
        self._verdicts: deque[JudgedSample] = deque(maxlen=KEPT)
        self._curve = fit_curve((), RULE)
        self._new = 0

    def window(self, random: np.random.Generator, half: Half, size: int) -> tuple[WindowStats, int]:
        """Score *size* samples drawn from *half*; return the window's figures and the calls."""
        drawn = random.integers(0, len(half.scores), size).tolist()
        draws = random.random(size).tolist()
        estimates, calls = np.empty(size), 0
        known: dict[int, Expected] = {}
        for place, (record, draw) in enumerate(zip(drawn, draws, strict=True)):
            sample = half.verdicts[record]
            if (expected := known.get(record)) is None:
                expected = self._curve.expect(sample.local_score, sample.places)
                known[record] = expected
            probability = self._asking.probability(expected.spread)
            truth = sample.score if draw < probability else None
            estimates[place] = difference_estimate(expected.passes, truth, probability)
            if truth is not None:
                calls += 1
                if self._learn(sample):
                    known.clear()
        return window_stats(_tally(estimates)), calls

    def _learn(self, verdict: JudgedSample) -> bool:
        """Learn a verdict; return whether expectations are new."""
        self._verdicts.append(verdict)
        self._new += 1
        due = self._new * LEARN_AT >= len(self._verdicts)
        if due:
            self._curve, self._new = fit_curve(self._verdicts, RULE), 0
        return due


def _tally(y: Array) -> Tally:
    total, squares = float(y.sum()), float((y * y).sum())
    n = len(y)
    return Tally(
        n=n, sum_w=n, sum_w2=n, sum_wy=total, sum_w2y=total, sum_w2yy=squares, sum_wx=total
    )


def cascaded(
    random: np.random.Generator, earlier: Half, half: Half, share: float, sizes: tuple[int, int]
) -> Run:
    """Let a cascade see earlier traffic, and then a window."""
    simulation = Simulation(share)
    if sizes[0]:
        simulation.window(random, earlier, sizes[0])
    stats, calls = simulation.window(random, half, sizes[1])
    assert stats.pass_rate is not None
    return Run(stats.pass_rate, *wilson_interval(*stats.counts()), calls)


def plain(random: np.random.Generator, half: Half, share: float, size: int) -> Run:
    """Ask about a plain random share of a window."""
    calls = max(1, round(share * size))
    passed = float(half.passed[random.integers(0, len(half.passed), calls)].sum())
    return Run(passed / calls, *wilson_interval(passed, calls), calls)


def halves(
    rows: Sequence[Row], members: Sequence[int], passed: Array, scores: Array, *, tagged: bool
) -> list[Half]:
    """Cut the records of a data set in two by document."""
    keys = sorted({document(rows[i]) for i in members}, key=fold_key)
    first = set(keys[: len(keys) // 2])
    chosen = [
        [i for i in members if (document(rows[i]) in first) is wanted] for wanted in (True, False)
    ]
    verdicts = [
        JudgedSample(score, good > 0, good, (zlib.crc32(row["source"].encode()),) if tagged else ())
        for row, score, good in zip(rows, scores.tolist(), passed.tolist(), strict=True)
    ]
    return [Half(scores[part], passed[part], [verdicts[i] for i in part]) for part in chosen]


def fold_key(key: str) -> tuple[int, str]:
    """Order documents in a way that has nothing to do with their text."""
    return fold({"doc": key, "query": key}), key[::-1]


def measure(
    parts: Sequence[Half], share: float, repetitions: int, sizes: tuple[int, int]
) -> list[str]:
    """Repeat both ways of asking on both halves; return the cells of a row."""
    size = sizes[1]
    random = np.random.default_rng(17)
    ours: list[tuple[Run, float]] = []
    theirs: list[tuple[Run, float]] = []
    for turn in range(repetitions):
        earlier, half = parts[turn % 2], parts[1 - turn % 2]
        truth = float(half.passed.mean())
        ours.append((cascaded(random, earlier, half, share, sizes), truth))
        theirs.append((plain(random, half, share, size), truth))
    calls = float(np.mean([run.calls for run, _ in ours]))
    needed = _calls_for(_half_width(ours), theirs)
    bias = np.array([run.rate - truth for run, truth in ours])
    error = 2 * bias.std() / np.sqrt(len(bias))
    return [
        f"{share:.0%}",
        f"{calls / size:.1%}",
        f"{_half_width(ours):.3f}",
        f"{_half_width(theirs):.3f}",
        f"{calls / needed:.0%}",
        f"{bias.mean():+.4f} ± {error:.4f}",
        f"{_coverage(ours):.1%}",
        f"{_coverage(theirs):.1%}",
    ]


def _half_width(runs: Sequence[tuple[Run, float]]) -> float:
    return float(np.mean([(run.high - run.low) / 2 for run, _ in runs]))


def _coverage(runs: Sequence[tuple[Run, float]]) -> float:
    return float(np.mean([run.low <= truth <= run.high for run, truth in runs]))


def _calls_for(width: float, plain_runs: Sequence[tuple[Run, float]]) -> float:
    """How many plain calls give intervals of that half-width, by the size of Wilson's."""
    rates = np.array([truth for _, truth in plain_runs])

    def half_width(n: float) -> float:
        centre = np.sqrt(rates * (1 - rates) / n + Z * Z / (4 * n * n))
        return float(np.mean(Z / (1 + Z * Z / n) * centre))

    low, high = 1.0, 1e7
    while high / low > 1 + 1e-6:
        middle = np.sqrt(low * high)
        low, high = (middle, high) if half_width(middle) > width else (low, middle)
    return high


def by_fold(row: Row) -> str:
    """Name the part of the documents that a record belongs to."""
    return str(fold(row))


def table(
    title: str, rows: Sequence[Row], good: Sequence[int], scores: Sequence[float],
    repetitions: int, size: int,
) -> Table:  # fmt: skip
    """Lay out one row a data set and share, and all data sets together."""
    made = Table(title=f"{title}: windows of {size} samples, {repetitions} repetitions")
    for heading in ("source", "share", "asked", "half-width", "of plain", "calls", "bias ± 2 se",
                    "covers", "plain covers"):  # fmt: skip
        made.add_column(heading, justify="left" if heading == "source" else "right")
    passed, local = np.array(good, float), np.array(scores, float)
    every = list(range(len(rows)))
    groups = {**by_source(rows), TOGETHER: every, TAGGED: every}
    for source, members in groups.items():
        parts = halves(rows, members, passed, local, tagged=source == TAGGED)
        if min(len(part.scores) for part in parts) < FEWEST or len(set(passed[members])) < 2:
            continue
        for share in SHARES:
            name = source if share == SHARES[0] else ""
            made.add_row(name, *measure(parts, share, repetitions, (4 * size, size)))
        made.add_section()
    return made


def main() -> None:
    """Print a table for each metric."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n", maxsplit=1)[0])
    parser.add_argument("folder", type=Path, help="folder with the labelled records")
    parser.add_argument("--repetitions", type=int, default=400)
    parser.add_argument("--size", type=int, default=1_000, help="samples in a window")
    parser.add_argument("--metric", choices=("groundedness", "relevance"), help="only this one")
    asked = parser.parse_args()
    console, started = Console(width=150), time.perf_counter()
    sizes = (asked.repetitions, asked.size)
    if asked.metric != "relevance":
        measured = training.measure(read_rows(asked.folder, GROUNDEDNESS))
        scores = held_out_groundedness(measured, by_fold)
        good = [1 - row["label"] for row in measured.rows]
        local = [scores[row["id"]] for row in measured.rows]
        console.print(table("Groundedness", measured.rows, good, local, *sizes))
    if asked.metric != "groundedness":
        rows = read_rows(asked.folder, RELEVANCE)
        good = [row["label"] for row in rows]
        console.print(table("Relevance", rows, good, held_out_relevance(rows, by_fold), *sizes))
    console.print(f"measured in {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
