"""
Whether a pass rate means what people mean: streams made of labelled answers of known level.

    python benchmarks/level.py FOLDER [--streams 6]

FOLDER holds the labelled records. Answers are scored by the shipped local scorer, which was fitted
to half of these documents, and drawn with replacement at a level that is set, at two a minute.
Takes about ten minutes of one core.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, permutations, product
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from cascade import Cascade
from common import print_head, print_row, script
from drift import bins_of
from labelled import GROUNDEDNESS, MODERN, Row, by_source, contexts, document, read_rows
from numpy.typing import NDArray

from monitor.models import Status
from monitor.models.evaluation import OWN_LEARNT_AT, OWN_LEAST, own_line
from monitor.rolling import backtest
from monitor.rolling.anytime import advance
from monitor.rolling.evidence_state import EvidenceState, evidence_rises, learn_due_s, relearn
from monitor.rolling.looks import StreamSample, history_columns, looks_of
from monitor.rolling.policies import Rules
from monitor.scoring.calibration import JudgedSample
from monitor.scoring.local.scorer import LocalJudge
from monitor.stats import agreement
from monitor.stats.evidence import Floats
from monitor.testing import make_interaction

Bools = NDArray[np.bool_]
_STEP_S, _BEGIN_S = 30.0, 1.8e9
_DAY: Final = 2_880  # samples
_FOREIGN, _FOREIGN_STREAMS = 200, 40
#: Documents share a text where so much of the runs of so many words is the same.
_SAME, _RUN = 0.25, 8
_SHARE, _RISING_SHARE = 0.1, 0.5
_A_LOOK: Final = 4  # samples, two minutes
_LEAST_GOOD: Final = 0.9
_WARNING, _CRITICAL = 0.85, 0.70
_BAD = {Status.WARNING, Status.CRITICAL}


class Source(NamedTuple):
    """Scores of one source's good, bad and foreign answers; foreign ones have other contexts."""

    name: str
    good: Floats
    bad: Floats
    foreign: Floats

    def stream(self, rng: np.random.Generator, n: int, level: float) -> tuple[Floats, Floats]:
        """Draw scores with replacement, and whether each answer is good."""
        good = rng.random(n) < level
        return np.where(good, rng.choice(self.good, n), rng.choice(self.bad, n)), good


def main(folder: Path, *, streams: int = 6) -> None:
    """Print a table of each question."""
    judge, n, rng = LocalJudge(), streams, np.random.default_rng(1)
    sources = list(sources_of(read_rows(folder, GROUNDEDNESS), judge))
    print_head("on streams of the local scorer", "figure")
    healthy, alarms = lines(sources, rng)
    print_row("sources whose 95 %-good app reads healthy, two days", healthy)
    print_row("false alarms in a week of all", alarms)
    print_row("critical after n foreign answers: worst median", foreign(sources, rng))
    for level in (0.95, 0.90, 0.80, 0.60):
        error, covers, sick = labels(sources, rng, level, 4 * n)
        said = f"{error:.1f}; {covers:.3f}; {sick:.3f}"
        print_row(f"50 labels at {level:.0%}: r.m.s. error in points; covers; called sick", said)
        always = renewed(sources, rng, level, n)
        print_row(f"labels at {level:.0%}: renewed interval covers at every look", f"{always:.3f}")
    few = n // 2 or 1
    for born, now, each, days in (
        (0.95, 0.95, n, 7), (0.95, 0.70, few, 2), (0.95, 0.40, few, 2), (0.60, 0.60, 4 * n, 2),
    ):  # fmt: skip
        seen = later(sources, rng, now, each, days, born)
        print_row(f"50 labels at {born:.0%}, then {now:.0%}: alarm in {days} days; after n", seen)
    for (hit, miss), now in product(((1.0, 0.0), (0.93, 0.25)), (0.70, 0.40)):
        name = f"a tenth judged (passes {hit:.0%} of good, {miss:.0%} of bad), 95 -> {now:.0%}"
        print_row(f"{name}: alarm; after n", judged(sources, rng, (hit, miss), now, n))
    models = Models(read_rows(folder, MODERN), judge)
    for name, worse in (("within 2 points", (-0.02, 0.02)), ("20 points worse", (0.20, 1.0))):
        alarms = models.switches(rng, 30 * n, *worse)
        print_row(f"a tenth judged, model switched to one {name}: alarms", alarms)
    print_row("modern models >= 90 % faithful that read healthy", models.healthy(rng))


def sources_of(rows: Sequence[Row], judge: LocalJudge) -> Iterator[Source]:
    """Score the answers of each source, and some beside the contexts of another document."""
    rng = np.random.default_rng(0)
    for name, places in by_source(rows).items():
        mine = [rows[place] for place in places]
        good, bad = (_scores(judge, (r for r in mine if r["label"] == of)) for of in (0, 1))
        swapped: list[Row] = []
        for i, j in rng.permutation(list(permutations(range(len(mine)), 2))):
            if document(mine[i]) != document(mine[j]) and not _same_texts(mine[i], mine[j]):
                swapped.append(mine[i] | {"contexts": mine[j]["contexts"]})
            if len(swapped) == _FOREIGN:
                break
        yield Source(name, good, bad, _scores(judge, swapped))


def _same_texts(row: Row, other: Row) -> bool:
    """Return whether contexts of two documents are in part one text: a quarter of their runs."""
    runs = []
    for one in (row, other):
        words = re.findall(r"\w+", " ".join(contexts(one)).lower())
        runs.append({*zip(*(words[at:] for at in range(_RUN)), strict=False)})
    return len(runs[0] & runs[1]) > _SAME * min(map(len, runs))


def _scores(judge: LocalJudge, rows: Iterable[Row]) -> Floats:
    given = ({"query": r["query"] or None, "output": r["output"], "contexts": contexts(r)}
             for r in rows)  # fmt: skip
    said = (judge.judge(make_interaction(**each)) for each in given)
    found = [each.groundedness for each in said if not each.declined_rightly]
    return np.array([each for each in found if each is not None])


def by_own_line(scores: Floats) -> Bools:
    """Return which scores pass, as a worker decides: the line is learnt as they come."""
    line = np.full(scores.size, OWN_LEAST)
    for n in OWN_LEARNT_AT:
        line[n:] = own_line(bins_of(scores[:n])) if scores.size > n else OWN_LEAST
    return np.asarray(scores >= line)


def _changes(passed: Bools, **rules: float) -> list[tuple[float, Status]]:
    times = _BEGIN_S + _STEP_S * np.arange(passed.size)
    return backtest(times, passed.astype(float), passed, **rules)


def _reads_healthy(passed: Bools) -> bool:
    changes = _changes(passed)
    return changes[-1][1] is Status.HEALTHY and not _BAD & {status for _, status in changes}


def lines(sources: Sequence[Source], rng: np.random.Generator) -> tuple[str, int]:
    """Count sources that read healthy after two days without an alarm, and alarms in a week."""
    healthy = alarms = 0
    for source in sources:
        scores, _ = source.stream(rng, 7 * _DAY, 0.95)
        passed = by_own_line(scores)
        healthy += _reads_healthy(passed[: 2 * _DAY])
        alarms += sum(status in _BAD for _, status in _changes(passed))
    return f"{healthy} of {len(sources)}", alarms


def foreign(sources: Sequence[Source], rng: np.random.Generator) -> str:
    """Return with which foreign answer a healthy stream turns critical; the worst source."""
    worst, name = 0.0, ""
    for source in sources:
        if not source.foreign.size:
            continue
        found = []
        for _ in range(_FOREIGN_STREAMS):
            before, _ = source.stream(rng, _DAY, 0.95)
            passed = by_own_line(np.r_[before, rng.choice(source.foreign, 300)])
            begun = _BEGIN_S + _STEP_S * _DAY
            at = min((at for at, status in _changes(passed)
                      if status is Status.CRITICAL and at >= begun), default=np.inf)  # fmt: skip
            found.append((at - begun) / _STEP_S + 1)
        if np.median(found) > worst:
            worst, name = float(np.median(found)), source.name
    return f"{worst:.0f} ({name})"


def _labelled(
    rng: np.random.Generator, scores: Floats, good: Floats
) -> Iterator[tuple[list[agreement.ScoreBand], tuple[int, ...]]]:
    """Label answers as the queue draws them; yield the bands after each label, and their lines."""
    at = np.rint(100 * scores).astype(int)
    lines_ = agreement.level_lines(bins_of(scores[: OWN_LEARNT_AT[-1]]))
    bands = agreement.count_bands(lines_, bins_of(scores))
    band = np.searchsorted(lines_, at, side="right")
    left = [rng.permutation(np.flatnonzero(band == i)).tolist() for i in range(len(bands))]
    while any(left):
        i = next(i for i in agreement.bands_to_label(bands) if left[i])
        is_good = good[left[i].pop()]
        good_now, bad_now = bands[i].good + is_good, bands[i].bad + (not is_good)
        bands[i] = bands[i]._replace(good=good_now, bad=bad_now)
        yield list(bands), lines_


def _after_50(
    source: Source, rng: np.random.Generator, level: float
) -> tuple[list[agreement.ErrorRates], float, tuple[int, ...]]:
    """Return what 50 labels of 2,000 answers teach at each line, the level, and the lines."""
    scores, good = source.stream(rng, 2_000, level)
    bands, lines_ = next(islice(_labelled(rng, scores, good), 49, None))
    return agreement.learn_lines(bands), float(good.mean()), lines_


def labels(
    sources: Sequence[Source], rng: np.random.Generator, level: float, streams: int
) -> tuple[float, float, float]:
    """Return error in points, coverage, and share called sick by the interval of the labels."""
    found = []
    for source, _ in product(sources, range(streams)):
        rates, truth, _ = _after_50(source, rng, level)
        said, (low, high) = rates[0].labelled_level()
        found.append(((100 * (said - truth)) ** 2, low <= truth <= high, high < _WARNING))
    squares, covers, sick = np.mean(found, axis=0).tolist()
    return squares**0.5, covers, sick


def renewed(
    sources: Sequence[Source], rng: np.random.Generator, level: float, streams: int
) -> float:
    """Return the share of streams whose interval, renewed at set numbers, never misses."""
    held = []
    for source, _ in product(sources, range(streams)):
        scores, good = source.stream(rng, 4_000, level)
        inside = True
        for n, (bands, _) in enumerate(_labelled(rng, scores, good), 1):
            if n in agreement.SPENT:
                low, high = agreement.learn_lines(bands)[0].labelled_level()[1]
                inside &= low <= good.mean() <= high
        held.append(inside)
    return float(np.mean(held))


def _alarm_after(
    rng: np.random.Generator, scores: Floats, verdicts: Bools, rates: tuple[float, float] = (1, 0)
) -> float:
    """
    Return after how many samples of the second day a cascade's status is bad.

    As live: a tenth is judged, more often where the local score is undecided, and half while
    evidence builds up; the curve and the reference are learnt as verdicts come; thresholds are in
    the judge's own units.
    """
    hit, miss = rates
    warning, critical = (miss + level * (hit - miss) for level in (_WARNING, _CRITICAL))
    rules = Rules(warning_rate=warning, critical_rate=critical, false_alarms_per_month=1.0)
    cascade, past = Cascade(_SHARE), list[StreamSample]()
    draws, state = rng.random(scores.size), EvidenceState.fresh(_BEGIN_S)
    for start in range(0, scores.size, _A_LOOK):
        now_s = _BEGIN_S + _STEP_S * (start + _A_LOOK)
        if now_s >= learn_due_s(state, rules) and past:
            state = relearn(state, history_columns(past, rules.bucket_s), now_s, rules)
        share = _RISING_SHARE if evidence_rises(state, bucket_s=rules.bucket_s) else _SHARE
        for i in range(start, min(start + _A_LOOK, scores.size)):
            score, passed, at_s = float(scores[i]), bool(verdicts[i]), _BEGIN_S + _STEP_S * i
            expected = cascade.curve.expect(score)
            pi = cascade.asking.probability(expected.spread, share=share)
            asked = bool(draws[i] < pi)
            odds = (expected.passes, pi, asked, passed, 1.0, share, _SHARE)
            past.append(StreamSample(at_s, at_s, *odds))
            if asked:
                cascade.learn(JudgedSample(score, passed, float(passed)))
        cascade.refit()
        news = past[start:]
        state, _ = advance(state, looks_of(news, [now_s] * len(news), state.baseline), rules)
        if state.alarmed and start >= _DAY:
            return start + len(news) - _DAY
    return np.inf


def _seen(after: Sequence[float]) -> str:
    """Write how often something was seen, and the median of after how many samples."""
    return f"{np.mean(np.isfinite(after)):.3f}; {np.median(after):.0f}"


def judged(
    sources: Sequence[Source], rng: np.random.Generator, rates: tuple[float, float], now: float,
    streams: int,
) -> str:  # fmt: skip
    """Return how often a cascade sees a fall within a day, and the median of the samples."""
    found = []
    for source, _ in product(sources, range(max(1, streams // 3))):
        parts = [source.stream(rng, _DAY, level) for level in (0.95, now)]
        scores, good = (np.concatenate(both) for both in zip(*parts, strict=True))
        verdicts = rng.random(good.size) < np.where(good, *rates)
        found.append(_alarm_after(rng, scores, verdicts, rates))
    return _seen(found)


def later(
    sources: Sequence[Source], rng: np.random.Generator, now: float, streams: int, days: int,
    labelled_at: float,
) -> str:  # fmt: skip
    """Return how often 50 labels, or bets against thresholds that they translate, see a level."""
    found = []
    for source, _ in product(sources, range(streams)):
        rates, _, lines_ = _after_50(source, rng, labelled_at)
        if rates[0].labelled_level()[1].high < _WARNING:
            found.append(0.0)
            continue
        scores, _ = source.stream(rng, days * _DAY, now)
        at = np.inf
        for line, of_line in zip(lines_, rates, strict=True):
            changes = _changes(
                np.asarray(np.rint(100 * scores) >= line),
                warning_rate=of_line.threshold(_WARNING),
                critical_rate=of_line.threshold(_CRITICAL),
                false_alarms_per_month=0.1 / len(lines_),
            )
            at = min(at, *(t for t, status in changes if status in _BAD), np.inf)
        found.append((at - _BEGIN_S) / _STEP_S)
    return _seen(found)


class Models:
    """Answers of modern models to the documents of a source: scores, and which are good."""

    def __init__(self, rows: Sequence[Row], judge: LocalJudge) -> None:
        answers: dict[tuple[str, str], list[Row]] = defaultdict(list)
        for row in rows:
            answers[row["source"], row["model"]].append(row)
        self._level = {
            key: np.mean([row["label"] == 0 for row in mine]) for key, mine in answers.items()
        }
        self._known = {}
        for key, mine in answers.items():
            scored = [(_scores(judge, [row]), row["label"] == 0) for row in mine]
            self._known[key] = np.array([(score[0], good) for score, good in scored if score.size])
        self._faithful = [key for key, level in self._level.items() if level >= _LEAST_GOOD]

    def switches(self, rng: np.random.Generator, n: int, least: float, most: float) -> str:
        """Count the alarms of *n* days after a faithful model gave way to one that much worse."""
        pairs = [
            (a, b) for a, b in product(self._faithful, self._known)
            if a != b and a[0] == b[0] and least <= self._level[a] - self._level[b] <= most
            and (least > 0 or b in self._faithful)
        ]  # fmt: skip
        seen, chosen = 0, [pairs[i] for i in rng.permutation(len(pairs))[:n]]
        for pair in chosen:
            parts = [rng.choice(self._known[key], _DAY) for key in pair]
            scores, good = np.concatenate(parts).T
            seen += bool(np.isfinite(_alarm_after(rng, scores, good > 0)))
        return f"{seen} of {len(chosen)}"

    def healthy(self, rng: np.random.Generator) -> str:
        """Count the faithful models whose two days read healthy."""
        drawn = (rng.choice(self._known[key][:, 0], 2 * _DAY) for key in self._faithful)
        good = sum(_reads_healthy(by_own_line(scores)) for scores in drawn)
        return f"{good} of {len(self._faithful)}"


script(main)
