"""Whether the scores moved: a window against its reference, and what that reference may be."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtrc

from monitor.models import Status, Tally
from monitor.rolling.baseline import ReferenceSpan
from monitor.rolling.score_drift import ScoreReference
from monitor.rolling.tallies import histogram, window_stats
from monitor.stats.distance import Moments, ks_test, mann_whitney

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
    Say whether the mean score depends on the hour of the day (UTC), beyond chance.

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

    >>> same_hours([Span(0, 2 * 86_400)], Span(180_000, 181_000))
    [Span(from_s=3600, to_s=14400), Span(from_s=90000, to_s=100800)]
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


class Began(NamedTuple):
    """A status that began at some moment; ``onset_s`` is when its trouble began, where known."""

    at_s: float
    status: Status
    onset_s: float | None = None


def well_spans(changes: Iterable[Began], *, from_s: int, to_s: int) -> list[ReferenceSpan]:
    """
    Cut the times at which the status was warning or critical out of [from_s, to_s).

    A reference that held an incident would make the next one look normal. A status turns
    a little after its trouble began: where the onset is known, the cut is made there;
    otherwise a remainder of the trouble stays in. *changes* are those of one key, oldest first;
    they may begin before *from_s*. The spans are in order, without overlap.

    >>> well_spans([Began(40, Status.CRITICAL), Began(60, Status.HEALTHY)], from_s=0, to_s=100)
    [Span(from_s=0, to_s=40), Span(from_s=60, to_s=100)]
    >>> well_spans([Began(40, Status.CRITICAL, onset_s=30)], from_s=0, to_s=100)
    [Span(from_s=0, to_s=30)]
    """
    spans: list[ReferenceSpan] = []
    start: int | None = from_s
    for change in changes:
        at_s = min(max(int(change.at_s), from_s), to_s)
        if change.status in {Status.WARNING, Status.CRITICAL}:
            if start is not None:
                spans.append(ReferenceSpan(start, at_s))
            start = None
            if change.onset_s is not None:
                spans = [
                    ReferenceSpan(span.from_s, min(span.to_s, int(change.onset_s)))
                    for span in spans
                    if span.from_s < change.onset_s
                ]
        elif start is None:
            start = at_s
    if start is not None:
        spans.append(ReferenceSpan(start, to_s))
    return [span for span in spans if span.to_s > span.from_s]
