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

import zlib
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from common import print_head, print_row, script
from labelled import GROUNDEDNESS, RELEVANCE, Row, by_source, document, fold, read_rows
from numpy.typing import NDArray
from scipy.optimize import brentq
from scoring import held_out_groundedness, held_out_relevance
from train_local import Measured, with_foreign

from monitor.models import Tally
from monitor.models.evaluation import PassRule
from monitor.rolling.tallies import window_stats
from monitor.scoring.calibration import KEPT, Expected, JudgedSample, fit_curve
from monitor.scoring.cascade import JudgeSampling
from monitor.stats.intervals import difference_estimate, wilson_interval

Array = NDArray[np.float64]
SHARES = (0.1, 0.25, 0.5)
LEARN_AT = 5  # fitted when one verdict in so many is new; production does it more often
TOGETHER, TAGGED = "all together", "in segments"
FEWEST = 60  # records of a data set, in the smaller half


Half = Sequence[JudgedSample]  #: records of one half; the score of each is 1 where it passes


class Cascade:
    """The parts of a cascade that are not input and output, fed with labels."""

    def __init__(self, share: float) -> None:
        self.asking, self.rule = JudgeSampling(share), PassRule(0.7)
        self._verdicts: deque[JudgedSample] = deque(maxlen=KEPT)
        self.curve, self._new = fit_curve((), self.rule), 0

    def learn(self, verdict: JudgedSample) -> None:
        """Take a verdict."""
        self._verdicts.append(verdict)
        self._new += 1

    def refit(self) -> bool:
        """Fit the curve where enough is new; return whether it was."""
        due = self._new * LEARN_AT >= len(self._verdicts) > 0
        if due:
            self.curve, self._new = fit_curve(self._verdicts, self.rule), 0
        return due

    def window(
        self, random: np.random.Generator, half: Half, size: int
    ) -> tuple[float, float, float, int]:
        """Score *size* samples drawn from *half*; return rate, its bounds, and the calls."""
        drawn = random.integers(0, len(half), size).tolist()
        estimates, calls = np.empty(size), 0
        known: dict[int, Expected] = {}
        for place, (record, draw) in enumerate(
            zip(drawn, random.random(size).tolist(), strict=True)
        ):
            sample = half[record]
            if (expected := known.get(record)) is None:
                expected = self.curve.expect(sample.local_score, sample.places)
                known[record] = expected
            probability = self.asking.probability(expected.spread)
            asked = draw < probability
            truth = sample.score if asked else None
            estimates[place] = difference_estimate(expected.passes, truth, probability)
            if asked:
                calls += 1
                self.learn(sample)
                if self.refit():
                    known.clear()
        total, squares = float(estimates.sum()), float((estimates**2).sum())
        stats = window_stats(Tally(
            n=size, sum_w=size, sum_w2=size, sum_wy=total, sum_w2y=total, sum_w2yy=squares,
            sum_wx=total,
        ))  # fmt: skip
        assert stats.pass_rate is not None
        return stats.pass_rate, *wilson_interval(*stats.counts()), calls


def halves(
    rows: Sequence[Row], members: Sequence[int], passed: Array, scores: Array, *, tagged: bool
) -> list[Half]:
    """Cut the records of a data set in two by document, whatever their text."""
    keys = {document(rows[i]) for i in members}
    ordered = sorted(keys, key=lambda key: (fold({"doc": key, "query": key}), key[::-1]))
    found = []
    for chosen in ({*ordered[: len(ordered) // 2]}, {*ordered[len(ordered) // 2 :]}):
        part = [i for i in members if document(rows[i]) in chosen]
        places = [(zlib.crc32(rows[i]["source"].encode()),) if tagged else () for i in part]
        found.append([
            JudgedSample(float(scores[i]), passed[i] > 0, float(passed[i]), place)
            for i, place in zip(part, places, strict=True)
        ])  # fmt: skip
    return found


def measure(parts: Sequence[Half], share: float, repetitions: int, size: int) -> list[str]:
    """Repeat both ways of asking on both halves; return the cells of a row."""
    random = np.random.default_rng(17)
    ours, theirs, truths = [], [], []
    for turn in range(repetitions):
        earlier, half = parts[turn % 2], parts[1 - turn % 2]
        cascade = Cascade(share)
        cascade.window(random, earlier, 4 * size)
        ours.append(cascade.window(random, half, size))
        n = max(1, round(share * size))
        passed = np.array([sample.score for sample in half])
        theirs.append(wilson_interval(float(random.choice(passed, n).sum()), n))
        truths.append(passed.mean())
    truth, (rate, low, high, calls) = np.array(truths), np.array(ours).T
    plain_low, plain_high = np.array(theirs).T
    width = float(np.mean(high - low) / 2)

    def excess(log_n: float) -> float:
        """Return by how much Wilson's intervals of so many plain calls are wider."""
        n = float(np.exp(log_n))
        bounds = np.array([wilson_interval(p * n, n) for p in truth])
        return float(np.mean(bounds[:, 1] - bounds[:, 0]) / 2) - width

    needed = np.exp(brentq(excess, 0.0, np.log(1e7)))
    bias = rate - truth
    return [
        f"{share:.0%}", f"{width:.3f}",
        f"{np.mean(plain_high - plain_low) / 2:.3f}", f"{calls.mean() / needed:.0%}",
        f"{bias.mean():+.4f} ± {2 * bias.std() / np.sqrt(len(bias)):.4f}",
        f"{np.mean((low <= truth) & (truth <= high)):.1%}",
    ]  # fmt: skip


def print_table(
    title: str, rows: Sequence[Row], good: Sequence[int], scores: Sequence[float],
    repetitions: int, size: int,
) -> None:  # fmt: skip
    """Print one row a data set and share, and all data sets together."""
    print(f"{title}: windows of {size} samples, {repetitions} repetitions\n")
    print_head("source", "share", "half-width", "of plain", "calls", "bias ± 2 se", "covers")
    passed, local = np.array(good, float), np.array(scores, float)
    every = list(range(len(rows)))
    for source, members in {**by_source(rows), TOGETHER: every, TAGGED: every}.items():
        parts = halves(rows, members, passed, local, tagged=source == TAGGED)
        if min(map(len, parts)) < FEWEST or len(set(passed[members])) < 2:
            continue
        for share in SHARES:
            name = source if share == SHARES[0] else ""
            print_row(name, *measure(parts, share, repetitions, size))


@script
def main(
    folder: Path, *, repetitions: int = 400, size: int = 1_000,
    metric: Literal["groundedness", "relevance", "both"] = "both",
) -> None:  # fmt: skip
    """Print a table for each metric, from FOLDER with the labelled records."""
    if metric != "relevance":
        rows = read_rows(folder, GROUNDEDNESS)
        measured = Measured.of(with_foreign(rows))
        scores = held_out_groundedness(rows, measured, lambda row: str(fold(row)))
        good = [1 - row["label"] for row in rows]
        print_table("Groundedness", rows, good, scores, repetitions, size)
    if metric != "groundedness":
        rows = read_rows(folder, RELEVANCE)
        scores = held_out_relevance(rows, lambda row: str(fold(row)))
        good = [row["label"] for row in rows]
        print_table("Relevance", rows, good, scores, repetitions, size)
