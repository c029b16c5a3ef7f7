"""
Whether the scores moved, or the questions: a window against its reference.

`chunk_tests` compares the shape of closed chunks. `take_in` is a sequential detector of the mean
with a false-alarm budget: its evidence is that of the status (`monitor.stats.evidence`), of scores
instead of passes, against the mean of the reference less an effect that is too small to matter.
`compare_inputs` tests what was asked.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any, Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtrc, ndtr

from monitor.format import percent
from monitor.models import Tally
from monitor.models.insight import InputDrift
from monitor.models.status import BINS
from monitor.rolling.baseline import ReferenceSpan
from monitor.rolling.tallies import (
    CONTEXTS,
    FEATURES,
    LANGUAGE,
    LANGUAGES,
    QUERIES,
    TOPIC,
    TOPIC_GROUPS,
    histogram,
    length_of_bin,
    window_stats,
)
from monitor.stats.distance import Moments, g_test, ks_test, mann_whitney
from monitor.stats.evidence import NOTHING, Floats, accumulate, log_mean

#: Over the root of mn/(m+n): the mean of the KS distance, 1.64 standard errors of the ranks.
_KS_NOISE, _RANK_NOISE = 0.87, 0.473
#: The smallest effects, of the KS distance and of the ranks, that are worth a finding.
_LEAST_GAP, _LEAST_LEAD = 0.10, 0.06


class ChunkTest(NamedTuple):
    """A test of one closed chunk: its p-value, and whether the effect is worth a finding."""

    test: str
    value: float
    p_value: float
    worth_it: bool


def chunk_tests(
    reference: Tally, chunk: Tally, *, alpha: float, design_effect: float = 1.0
) -> list[ChunkTest]:
    """
    Test the shape of a closed chunk against the reference, each test at level *alpha*.

    An effect is worth a finding when it is one without the noise of samples of these sizes:
    less the mean distance of two samples that agree, and at the lower end of the interval of
    the ranks.
    """
    before, now = histogram(reference), histogram(chunk)
    ks = ks_test(before, now, exact_below=20 * alpha, design_effect=design_effect)
    ranks = mann_whitney(before, now, design_effect=design_effect)
    size = reference.n * chunk.n / (reference.n + chunk.n) / design_effect
    gap = ks.distance - _KS_NOISE / math.sqrt(size) >= _LEAST_GAP
    lead = abs(ranks.superiority - 0.5) - _RANK_NOISE / math.sqrt(size)
    return [
        ChunkTest("ks", ks.distance, ks.p_value, gap),
        ChunkTest("mann_whitney", ranks.superiority, ranks.p_value, lead >= _LEAST_LEAD),
    ]


def moments(tally: Tally) -> Moments:
    """Return size, mean and variance of a tally's scores, weighted by the sample rates."""
    window = window_stats(tally)
    if tally.n == 0 or tally.sum_w <= 0:
        return Moments(0.0, 0.0, 0.0)
    mean = tally.sum_wx / tally.sum_w
    variance = max(0.0, tally.sum_wxx / tally.sum_w - mean * mean)
    size = window.n_effective
    return Moments(size, mean, variance * size / (size - 1) if size > 1 else variance)


def score_reference(tally: Tally) -> ScoreReference:
    """Return the reference of the sequential detector, from the scores as they were sampled."""
    if tally.n == 0:
        return ScoreReference(0.0, 0.0, 0)
    mean = tally.sum_x / tally.n
    variance = max(0.0, tally.sum_x2 / tally.n - mean * mean)
    return ScoreReference(mean, math.sqrt(variance), tally.n)


_HOUR_S: Final = 3600
_DAY_S: Final = 86_400
_HOURS: Final = 24
#: So many days and hours of the day at least, and as unlikely by chance.
_LEAST_DAYS, _LEAST_HOURS = 3, 6
_P: Final = 0.001


def has_course(hours: Mapping[int, Tally]) -> bool:
    """
    Return whether the mean score depends on the hour of the day (UTC), beyond chance.

    Analysis of variance over hours and days, weighted by the number of scores: the hours of
    the day against what is left when each day has its own mean and each hour of the day its own.
    So a bad day is not a course, and neither is noise of any size. Valid for hours that are
    independent of each other; a rate that wanders within the day makes it say yes more often,
    which costs a smaller reference and nothing else. *hours* are sums by their start in epoch
    seconds.

    >>> has_course({})
    False
    """
    starts = np.array([start_s for start_s, tally in hours.items() if tally.n > 0])
    if not starts.size:
        return False
    tallies = [hours[int(start_s)] for start_s in starts]
    n = np.array([tally.n for tally in tallies], dtype=float)
    mean = np.array([tally.sum_x for tally in tallies]) / n
    _, day = np.unique(starts // _DAY_S, return_inverse=True)
    names, hour = np.unique(starts % _DAY_S // _HOUR_S, return_inverse=True)
    free = starts.size - names.size - int(day.max())
    if day.max() + 1 < _LEAST_DAYS or names.size < _LEAST_HOURS or free < _HOURS:
        return False

    def means(group: NDArray[np.int64], values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Average by group, weighted by n; groups are numbered from 0."""
        return np.asarray(np.bincount(group, n * values) / np.bincount(group, n))

    apart = mean - means(day, mean)[day]
    course = means(hour, apart)
    left = float(np.sum(n * (apart - course[hour]) ** 2)) / free
    between = float(np.sum(n * course[hour] ** 2)) / (names.size - 1)
    if left <= 0:
        return between > 0
    return float(fdtrc(names.size - 1, free, between / left)) < _P


def same_hours(spans: Iterable[ReferenceSpan], window: ReferenceSpan) -> list[ReferenceSpan]:
    """
    Keep of *spans* the hours of the day that *window* covers, and one on either side.

    Of a window of 22 hours or more, all hours are kept.

    >>> same_hours([ReferenceSpan(0, 2 * 86_400)], ReferenceSpan(180_000, 181_000))
    [ReferenceSpan(from_s=3600, to_s=14400), ReferenceSpan(from_s=90000, to_s=100800)]
    """
    from_s = window.from_s // _HOUR_S * _HOUR_S - _HOUR_S
    lasting_s = -(-window.to_s // _HOUR_S) * _HOUR_S + _HOUR_S - from_s
    if lasting_s >= _DAY_S:
        return list(spans)
    kept: list[ReferenceSpan] = []
    for span in spans:
        first_s = span.from_s - (span.from_s - from_s) % _DAY_S
        for start_s in range(first_s, span.to_s, _DAY_S):
            part = ReferenceSpan(max(span.from_s, start_s), min(span.to_s, start_s + lasting_s))
            kept += [part] if part.to_s > part.from_s else []
    return kept


DOWN, UP = "score_down", "score_up"
#: The reference is taken again this often, in buckets; never for buckets that were seen.
REFRESH_BUCKETS: Final = 360
HOUR_BUCKETS: Final = 60
#: With fewer scores in the reference nothing is called a change.
LEAST_REFERENCE: Final = 200
#: After a finding the same direction is quiet for so many buckets.
QUIET_BUCKETS: Final = 1440
#: Bets as shares of the largest that cannot ruin: small ones for small changes.
_FRACTIONS: Final = np.array([0.03, 0.08, 0.2, 0.45, 0.9])
#: In standard deviations; the same effect that is asked of Cohen's d.
_TOLERATED: Final = 0.2
_HALF_BIN: Final = 0.005
_MOST_LOG: Final = math.log(1e250)

Bins = Mapping[int, float]


class ScoreReference(NamedTuple):
    """The scores of the reference: mean and standard deviation, and how many there were."""

    mean: float
    deviation: float
    n: float


class ScoreDetector(NamedTuple):
    """The log of the sum of each bet over its starts."""

    log_r: tuple[float, ...] = (NOTHING,) * len(_FRACTIONS)

    @property
    def level(self) -> float:
        """Mean over the bets: what the alarm threshold is compared with."""
        return math.exp(float(log_mean(np.array(self.log_r))))


_RESET: Final = ScoreDetector()


def null_mean(baseline: ScoreReference) -> float:
    """
    Return the mean that scores may fall to before it is called a change, in (0, 1).

    The lower 98 % bound of the reference's mean, less a fifth of a standard deviation: by
    convention a smaller effect is not even a small one, and the hours of a day differ as much.
    """
    error = baseline.deviation / math.sqrt(max(1.0, baseline.n))
    bound = baseline.mean - 2.33 * error - _TOLERATED * baseline.deviation
    return min(1 - 1e-3, max(1e-3, bound))


def advance(
    detector: ScoreDetector, counts: Floats, *, null: float, design_effect: float = 1.0
) -> Floats:
    """
    Return the log sums after each of t buckets of scores, shape (t, bets).

    The sums of `monitor.stats.evidence`, one new start a bucket, with the payoff
    1 + s (null - score) of a score in [0, 1]. As long as the mean of the scores is at least
    *null* given the past, an alarm at level A comes on average not before A buckets, whatever the
    traffic and however often one looks. Scores are taken at the upper end of their bin, which keeps
    that true. For rises, turn scores and reference around.

    *detector*: where it stood. *counts*: scores by bin, shape (t, 101); a bucket may be empty.
    *null*: in (0, 1); may change between calls as long as it is fixed before its buckets.
    *design_effect*: at least 1; by how much correlation within sessions inflates the variance.

    Source: I. Waudby-Smith, A. Ramdas, "Estimating means of bounded random variables by
    betting", JRSS B 86 (2024), 1-27.
    """
    gains = counts @ _gains(null).T / design_effect
    log_r, _ = accumulate(np.array(detector.log_r)[None], gains[None], np.ones((1, len(counts))))
    return np.asarray(np.minimum(log_r[0], _MOST_LOG))


@lru_cache(maxsize=512)
def _gains(null: float) -> NDArray[np.float64]:
    """Return the logarithm of what each bet gains by a score in each bin, shape (bets, bins)."""
    upper_ends = np.minimum(1.0, np.arange(BINS) / (BINS - 1) + _HALF_BIN)
    return np.asarray(np.log1p(np.outer(_FRACTIONS / (1 - null), null - upper_ends)))


def threshold(bucket_s: float, budget: float) -> float:
    """Return the level at which *budget* false alarms are expected in 30 days of good traffic."""
    return 30 * 86_400 / bucket_s / budget


class Alarm(NamedTuple):
    """A detector that passed its line: which, at the end of which bucket, and how far."""

    test: str
    at_s: int
    from_s: int
    level: float
    baseline: ScoreReference


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreDriftState:
    """All that has to be remembered of a stream between two looks."""

    at_s: int  #: buckets before this are taken in
    began_s: int  #: since when the detectors run
    baseline: ScoreReference
    baseline_at_s: int
    chunk_from_s: int
    down: ScoreDetector = _RESET
    up: ScoreDetector = _RESET
    quiet_to_s: tuple[int, int] = (0, 0)  #: of falls, of rises
    design_effect: float = 1.0
    by_hour: bool = False  #: scores have a pattern of the day: like hours are compared

    @property
    def refresh_buckets(self) -> int:
        """Return after how many buckets the reference is taken again."""
        if self.baseline.n < LEAST_REFERENCE:
            return REFRESH_BUCKETS // 12
        return HOUR_BUCKETS if self.by_hour else REFRESH_BUCKETS

    def stored(self) -> dict[str, Any]:
        """Return what a JSON column keeps: the sums themselves, not their logarithms."""
        sums = {name: np.exp(getattr(self, name).log_r).tolist() for name in ("down", "up")}
        lists = {name: list(getattr(self, name)) for name in ("baseline", "quiet_to_s")}
        return {item.name: getattr(self, item.name) for item in fields(self)} | sums | lists

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> Self:
        """Read what `stored` returned."""
        read: dict[str, Any] = {
            name: ScoreDetector(tuple(math.log(r) if r > 0 else NOTHING for r in stored[name]))
            for name in ("down", "up")
        }
        read |= {"baseline": ScoreReference(*stored["baseline"])}
        return cls(**{**stored, **read, "quiet_to_s": tuple(stored["quiet_to_s"])})


def take_in(
    state: ScoreDriftState, buckets: Mapping[int, Bins], *, to_s: int, bucket_s: int, line: float
) -> tuple[ScoreDriftState, list[Alarm]]:
    """
    Take in the buckets in [state.at_s, to_s); a pure function of the state and the buckets.

    A detector that reaches the level *line* is reset, and alarms unless it just did. *buckets* are
    histograms by the start of their bucket, of width *bucket_s*; an empty one may be missing, and
    those before *to_s* are settled.
    """
    from_s = state.at_s
    n = -(-(to_s - from_s) // bucket_s)
    if n <= 0:
        return state, []
    state = replace(state, at_s=from_s + n * bucket_s)
    if state.baseline.n < LEAST_REFERENCE:
        return state, []
    counts = np.zeros((n, BINS))
    for start_s, bins in buckets.items():
        if bins and 0 <= start_s - from_s < n * bucket_s:
            counts[(start_s - from_s) // bucket_s, list(bins)] = list(bins.values())
    base = state.baseline._replace(n=state.baseline.n / state.design_effect)
    alarms, quiet_to_s, detectors = [], [*state.quiet_to_s], [state.down, state.up]
    for way, (test, scores, mean) in enumerate(
        ((DOWN, counts, base.mean), (UP, counts[:, ::-1], 1 - base.mean))
    ):
        null, done = null_mean(base._replace(mean=mean)), 0
        while done < n:
            path = advance(
                detectors[way], scores[done:], null=null, design_effect=state.design_effect
            )
            over = np.flatnonzero(log_mean(path) >= math.log(line))
            if not over.size:
                detectors[way] = ScoreDetector(tuple(path[-1].tolist()))
                break
            level = ScoreDetector(tuple(path[over[0]].tolist())).level
            detectors[way], done = _RESET, done + int(over[0]) + 1
            at_s = from_s + done * bucket_s
            if at_s >= quiet_to_s[way]:
                alarms.append(Alarm(test, at_s, state.began_s, level, state.baseline))
            quiet_to_s[way] = at_s + QUIET_BUCKETS * bucket_s
    down, up = detectors
    state = replace(state, down=down, up=up, quiet_to_s=(quiet_to_s[0], quiet_to_s[1]))
    return state, sorted(alarms, key=lambda alarm: alarm.at_s)


# --- whether the questions changed: the fingerprints of a window against the reference ---

Asked = Mapping[int, int]

_LEAST_ASKED: Final = 30
#: A distance, between 0 and 1, that is worth a finding.
_LEAST_DISTANCE: Final = 0.10
_LEAST_EXPECTED: Final = 5.0


class _Shift(NamedTuple):
    distance: float
    p_value: float
    before: str = ""
    after: str = ""


def compare_inputs(
    before: Mapping[str, Asked], after: Mapping[str, Asked], *, alpha: float
) -> list[InputDrift]:
    """
    Compare what was asked in a window with what was asked before.

    Lengths and numbers of passages are compared by the Kolmogorov-Smirnov test, languages
    by the G test, and topics group by group: the share of the questions in which a group
    of words occurs, with the p-values of all groups put together by Bonferroni.

    *before* and *after* are histograms by feature, as `fingerprint` counts them. At the level
    *alpha*, in (0, 1), a feature counts as moved; it should be small where the comparison is
    repeated. What has fewer than 30 on either side is left out.
    """
    found = []
    for feature in FEATURES:
        counted = QUERIES if feature == TOPIC else feature
        n = [sum(bins.get(counted, {}).values()) for bins in (before, after)]
        if min(n) < _LEAST_ASKED:
            continue
        first, second = before[feature], after[feature]
        if feature == TOPIC:
            result = _topics(first, n[0], second, n[1])
        elif feature == LANGUAGE:
            result = _languages(first, second)
        else:
            counts = _array(first, 64), _array(second, 64)
            ks = ks_test(*counts, exact_below=0.05)
            middles = [int(np.searchsorted(np.cumsum(c), c.sum() / 2)) for c in counts]
            in_words = "median {}" if feature == CONTEXTS else "median about {} characters"
            shown = middles if feature == CONTEXTS else [length_of_bin(m) for m in middles]
            result = _Shift(ks.distance, ks.p_value, *(in_words.format(m) for m in shown))
        moved = result.p_value <= alpha and result.distance >= _LEAST_DISTANCE
        found.append(
            InputDrift(
                feature=feature, n_before=n[0], n_after=n[1], moved=moved, **result._asdict()
            )
        )
    return found


def _languages(first: Asked, second: Asked) -> _Shift:
    counts = _array(first, len(LANGUAGES)), _array(second, len(LANGUAGES))
    shares = [c / c.sum() for c in counts]
    pooled = counts[0] + counts[1]
    least = min(c.sum() for c in counts) / pooled.sum()
    common = pooled * least >= _LEAST_EXPECTED
    # What is rare is joined, so that the chi-square distribution holds.
    joined = [np.append(c[common], c[~common].sum()) for c in counts]
    p_value = g_test(joined[0], joined[1]).p_value
    moved = int(np.argmax(np.abs(shares[1] - shares[0])))
    old, new = (f"{LANGUAGES[moved]} {percent(share[moved], 0)}" for share in shares)
    distance = float(np.abs(shares[1] - shares[0]).sum() / 2)
    return _Shift(distance, p_value, old, new)


def _topics(first: Asked, n_first: int, second: Asked, n_second: int) -> _Shift:
    """Compare the share of the questions in which each group of words occurs."""
    p, q = _array(first, TOPIC_GROUPS) / n_first, _array(second, TOPIC_GROUPS) / n_second
    pooled = (p * n_first + q * n_second) / (n_first + n_second)
    worth = 1 / n_first + 1 / n_second
    error = np.sqrt(np.clip(pooled * (1 - pooled), 1e-12, None) * worth)
    # Yates: half a question towards no difference.
    z = np.clip(np.abs(q - p) - worth / 2, 0, None) / error
    expected = pooled * min(n_first, n_second)
    tested = (expected >= _LEAST_EXPECTED) & ((1 - pooled) * min(n_first, n_second) >= 1)
    if not tested.any():
        return _Shift(0.0, 1.0)
    p_value = min(1.0, float(2 * ndtr(-z[tested].max())) * int(tested.sum()))
    moved = int(np.argmax(np.where(tested, np.abs(q - p), -1.0)))
    old, new = (f"a group of words in {percent(share[moved], 0)}" for share in (p, q))
    distance = float(abs(q[moved] - p[moved]))
    return _Shift(distance if math.isfinite(distance) else 0.0, p_value, old, new)


def _array(bins: Asked, size: int) -> NDArray[np.float64]:
    counts = np.zeros(size)
    for position, count in bins.items():
        counts[min(position, size - 1)] += count
    return counts
