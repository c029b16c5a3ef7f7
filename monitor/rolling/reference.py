"""Which stretches of time a window is compared with: all was well, and the hours are alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtrc

from monitor.models import Status, Tally

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
    So a bad day is no course, and neither is noise of any size. Valid for hours that are
    independent of each other; a rate that wanders within the day makes it say yes more often,
    which costs a smaller reference and nothing else.

    Parameters
    ----------
    hours
        Sums of the hours, by their start in epoch seconds.

    Examples
    --------
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
    apart = mean - _means(day, n, mean)[day]
    course = _means(hour, n, apart)
    left = float(np.sum(n * (apart - course[hour]) ** 2)) / free
    between = float(np.sum(n * course[hour] ** 2)) / (names.size - 1)
    if left <= 0:
        return between > 0
    return float(fdtrc(names.size - 1, free, between / left)) < _P


def same_hours(spans: Iterable[Span], window: Span) -> list[Span]:
    """
    Keep of *spans* the hours of the day that *window* covers, and one on either side.

    Parameters
    ----------
    spans
        In order, without overlap.
    window
        The stretch that is compared; of 22 hours or more, all hours are kept.

    Examples
    --------
    >>> same_hours([Span(0, 2 * 86_400)], Span(180_000, 181_000))
    [Span(from_s=3600, to_s=14400), Span(from_s=90000, to_s=100800)]
    """
    from_s = window.from_s // _HOUR_S * _HOUR_S - _HOUR_S
    lasting_s = -(-window.to_s // _HOUR_S) * _HOUR_S + _HOUR_S - from_s
    if lasting_s >= _DAY_S:
        return list(spans)
    kept: list[Span] = []
    for span in spans:
        first_s = span.from_s - (span.from_s - from_s) % _DAY_S
        for start_s in range(first_s, span.to_s, _DAY_S):
            part = Span(max(span.from_s, start_s), min(span.to_s, start_s + lasting_s))
            kept += [part] if part.to_s > part.from_s else []
    return kept


def _means(
    group: NDArray[np.int64], n: NDArray[np.float64], values: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Average by group, weighted by n; groups are numbered from 0."""
    return np.asarray(np.bincount(group, n * values) / np.bincount(group, n))


_NOT_WELL = frozenset({Status.WARNING, Status.CRITICAL})


class Span(NamedTuple):
    """A stretch of time, in epoch seconds; the end is not part of it."""

    from_s: int
    to_s: int


class Began(NamedTuple):
    """A status that began at some moment; ``onset_s`` is when its trouble began, where known."""

    at_s: float
    status: Status
    onset_s: float | None = None


def well_spans(changes: Iterable[Began], *, from_s: int, to_s: int) -> list[Span]:
    """
    Cut the times at which the status was warning or critical out of [from_s, to_s).

    A reference that held an incident would make the next one look normal. A status turns
    a little after its trouble began: where the onset is known, the cut is made there;
    otherwise a remainder of the trouble stays in.

    Parameters
    ----------
    changes
        Status changes of one key, oldest first; they may begin before *from_s*.
    from_s, to_s
        The whole stretch, in epoch seconds.

    Returns
    -------
    list[Span]
        In order, without overlap; empty when nothing was well.

    Examples
    --------
    >>> well_spans([Began(40, Status.CRITICAL), Began(60, Status.HEALTHY)], from_s=0, to_s=100)
    [Span(from_s=0, to_s=40), Span(from_s=60, to_s=100)]
    >>> well_spans([Began(40, Status.CRITICAL, onset_s=30)], from_s=0, to_s=100)
    [Span(from_s=0, to_s=30)]
    """
    spans: list[Span] = []
    start: int | None = from_s
    for change in changes:
        at_s = min(max(int(change.at_s), from_s), to_s)
        if change.status in _NOT_WELL:
            if start is not None:
                spans.append(Span(start, at_s))
            start = None
            if change.onset_s is not None:
                spans = [
                    Span(span.from_s, min(span.to_s, int(change.onset_s)))
                    for span in spans
                    if span.from_s < change.onset_s
                ]
        elif start is None:
            start = at_s
    if start is not None:
        spans.append(Span(start, to_s))
    return [span for span in spans if span.to_s > span.from_s]
