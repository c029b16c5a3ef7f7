"""
Whether a pass rate means what people mean: streams made of labelled answers of known level.

    python benchmarks/level.py FOLDER [--streams 6]

FOLDER holds the labelled records. Answers are scored by the shipped local scorer, which was fitted
to half of these documents, and drawn with replacement at a level that is set, at two a minute.
Takes about ten minutes of one core.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import islice, permutations, product
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from cascade import Cascade
from common import print_head, print_row, script
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
from monitor.testing import make_interaction

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
_STEP_S, _BEGIN_S = 30.0, 1.8e9
_DAY: Final = 2_880  # samples
_FOREIGN, _FOREIGN_STREAMS = 200, 40
#: Documents share a text where so much of the runs of so many words is the same.
_SAME, _RUN = 0.25, 8
_SHARE, _RISING_SHARE = 0.1, 0.5
_A_LOOK: Final = 4  # samples, two minutes
_ALIKE, _WORSE = 0.02, 0.20
_SWITCHES: Final = 180
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
    judge, n = LocalJudge(), streams
    sources = list(sources_of(read_rows(folder, GROUNDEDNESS), judge))
    rng = np.random.default_rng(1)
    print_head("on streams of the local scorer", "figure", "goal")
    healthy, alarms = lines(sources, rng)
    print_row("sources whose 95 %-good app reads healthy, two days", healthy, ">= 16 of 17")
    print_row("false alarms in a week of all", alarms, "<= 1")
    print_row("critical after n foreign answers: worst median", foreign(sources, rng), "<= 10")
    for level, goal in ((0.95, "2.6"), (0.90, "3.5"), (0.80, "4.2"), (0.60, "6.2")):
        error, covers, sick = labels(sources, rng, level, 4 * n)
        what, always = f"50 labels at {level:.0%}", renewed(sources, rng, level, n)
        print_row(f"{what}: r.m.s. error in points", f"{error:.1f}", goal)
        print_row(f"{what}: interval covers", f"{covers:.3f}", ">= 0.94")
        print_row(f"{what}: called sick", f"{sick:.3f}", "0.95: 0, 0.60: 0.99")
        what = f"labels at {level:.0%}: renewed interval covers at every look"
        print_row(what, f"{always:.3f}", ">= 0.94")
    for now, each, days, goal in (
        (0.95, n, 7, "0"), (0.70, n // 2 or 1, 2, ">= 0.75"), (0.40, n // 2 or 1, 2, ">= 0.95"),
    ):  # fmt: skip
        seen, after = later(sources, rng, now, each, days)
        what = f"later level {now:.0%}, 50 labels"
        print_row(f"{what}: alarm within {days} days", f"{seen:.2f}", goal)
        print_row(f"{what}: median samples to it", after, "")
    for hit, miss, now, most in (
        (1.0, 0.0, 0.70, 350), (1.0, 0.0, 0.40, 140),
        (0.93, 0.25, 0.70, 1_100), (0.93, 0.25, 0.40, 330),
    ):  # fmt: skip
        seen, after = judged(sources, rng, (hit, miss), now, n)
        name = f"a tenth judged (passes {hit:.0%} of good, {miss:.0%} of bad), 95 -> {now:.0%}"
        print_row(f"{name}: seen, samples", f"{seen:.2f}, {after}", f"<= {most}")
    rows = read_rows(folder, MODERN)
    for row, (name, goal) in zip(
        switches(rows, judge, rng), (("equal", "0 of 180"), (">= 20 points worse", "180 of 180")),
        strict=True,
    ):  # fmt: skip
        print_row(f"a tenth judged, model switched, {name}: alarms", row, goal)
    good, of = modern(rows, judge, rng)
    print_row("modern models >= 90 % faithful that read healthy", f"{good} of {of}", ">= 95 %")
    seen, _ = later(sources, rng, 0.60, 4 * n, 2, labelled_at=0.60)
    print_row("born at 60%, 50 labels: warning within 2 days", f"{seen:.3f}", ">= 0.99")


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
        line[n:] = own_line(_bins(scores[:n])) if scores.size > n else OWN_LEAST
    return np.asarray(scores >= line)


def _bins(scores: Floats) -> Counter[int]:
    return Counter(np.rint(100 * scores).astype(int).tolist())


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
    lines_ = agreement.level_lines(_bins(scores[: OWN_LEARNT_AT[-1]]))
    bands = agreement.count_bands(lines_, _bins(scores))
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


def _seen(found: Iterable[float]) -> tuple[float, str]:
    """Return how often something was seen, and the median of after how many samples."""
    after = np.array([*found])
    middle = float(np.median(after))
    return float(np.mean(np.isfinite(after))), f"{middle:.0f}" if np.isfinite(middle) else "never"


def judged(
    sources: Sequence[Source], rng: np.random.Generator, rates: tuple[float, float], now: float,
    streams: int,
) -> tuple[float, str]:  # fmt: skip
    """Return how often a cascade sees a fall within a day, and the median of the samples."""
    found = []
    for source, _ in product(sources, range(max(1, streams // 3))):
        parts = [source.stream(rng, _DAY, level) for level in (0.95, now)]
        scores, good = (np.concatenate(both) for both in zip(*parts, strict=True))
        verdicts = rng.random(good.size) < np.where(good, *rates)
        found.append(_alarm_after(rng, scores, verdicts, rates))
    return _seen(found)


def _by_model(rows: Sequence[Row]) -> dict[tuple[str, str], list[Row]]:
    answers: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        answers[row["source"], row["model"]].append(row)
    return answers


def switches(rows: Sequence[Row], judge: LocalJudge, rng: np.random.Generator) -> tuple[str, str]:
    """
    Return in how many switches of the model of a healthy app, judged in part, an alarm follows.

    First switches to models within 2 points, then to those at least 20 points worse; a day each.
    """
    answers = _by_model(rows)
    good = {key: np.mean([row["label"] == 0 for row in mine]) for key, mine in answers.items()}
    scored = cache(lambda key: [(_scores(judge, [r]), r["label"] == 0) for r in answers[key]])
    pairs = [
        (a, b) for a in answers for b in answers
        if a != b and a[0] == b[0] and good[a] >= _LEAST_GOOD
    ]  # fmt: skip
    shown = []
    for wanted in (
        [p for p in pairs if abs(good[p[0]] - good[p[1]]) <= _ALIKE and good[p[1]] >= _LEAST_GOOD],
        [p for p in pairs if good[p[0]] - good[p[1]] >= _WORSE],
    ):
        seen = 0
        chosen = [wanted[i] for i in rng.permutation(len(wanted))[:_SWITCHES]]
        for pair in chosen:
            parts = []
            for key in pair:
                known = [(float(s[0]), label) for s, label in scored(key) if s.size]
                parts += [known[i] for i in rng.integers(0, len(known), _DAY)]
            scores, labels_ = np.array(parts).T
            seen += bool(np.isfinite(_alarm_after(rng, scores, labels_ > 0)))
        shown.append(f"{seen} of {len(chosen)}")
    return shown[0], shown[1]


def later(
    sources: Sequence[Source], rng: np.random.Generator, now: float, streams: int, days: int,
    labelled_at: float = 0.95,
) -> tuple[float, str]:  # fmt: skip
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


def modern(rows: Sequence[Row], judge: LocalJudge, rng: np.random.Generator) -> tuple[int, int]:
    """Count models that are at least 90 % faithful in a task, and those that read healthy."""
    answers = _by_model(rows)
    faithful = [
        m for m in answers.values() if np.mean([row["label"] == 0 for row in m]) >= _LEAST_GOOD
    ]
    drawn = (rng.choice(_scores(judge, mine), 2 * _DAY) for mine in faithful)
    return sum(_reads_healthy(by_own_line(scores)) for scores in drawn), len(faithful)


script(main)
