"""Which stretches of time a window is compared with: those in which all was well."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from monitor.models import Status

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
                spans = _until(change.onset_s, spans)
        elif start is None:
            start = at_s
    if start is not None:
        spans.append(Span(start, to_s))
    return [span for span in spans if span.to_s > span.from_s]


def _until(end_s: float, spans: Iterable[Span]) -> list[Span]:
    """Keep of *spans* what lies before *end_s*."""
    return [Span(span.from_s, min(span.to_s, int(end_s))) for span in spans if span.from_s < end_s]
