"""
What the judge is expected to say of a sample, learnt from what it said of others.

A curve through the local score (`fit_curve`) is fitted again, by app and metric, as verdicts
come in (`Calibration`).
"""

from __future__ import annotations

import math
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import redis
from numpy.typing import NDArray

from monitor.errors import QueueUnavailableError
from monitor.models.evaluation import Direction, PassRule
from monitor.queue import names
from monitor.queue.consumer import translated
from monitor.stats.summary import ridge_logistic

KEPT = 2_000  #: verdicts an app and metric; older ones are forgotten
_REFIT = 20  # fitted again when one verdict in so many is new
_FRESH_S = 2.0
_KEPT_S = 90 * 86_400
_EDGE = 0.02  # never quite certain: what is expected stays this far from 0 and 1
_EVEN = 0.5
_WIDEST = 5.0  # log odds of a local score beyond which more says nothing
_FIRM = (0.5, 4.0)  # how firmly level and slope are believed in before a verdict, as 1 / variance
_FIRM_PLACE = 2.0  # and that places are alike
_FEWEST_HERE = 5  # verdicts; fewer say nothing of a place
_MOST_PLACES = 32


class JudgedSample(NamedTuple):
    """One verdict of the judge, what the local score was and in which places the sample lay."""

    local_score: float
    passed: bool
    score: float
    places: tuple[int, ...] = ()


class Expected(NamedTuple):
    """The judge's expected pass, as a probability, and its expected score, both in [0, 1]."""

    passes: float
    score: float

    @property
    def spread(self) -> float:
        """
        How much asking tells, in [0, 0.5].

        The standard deviation of a pass that happens so often, and never less for a likely
        failure than for an even chance: what the evidence gains from an unexpected pass is
        bounded by its weight, and such passes decide how fast a fall is seen.
        """
        return math.sqrt(self.passes * (1 - self.passes)) if self.passes > _EVEN else _EVEN


class Weights(NamedTuple):
    """Log odds: a level, a slope on the local score's own log odds, and steps by place."""

    level: float
    slope: float
    steps: Mapping[int, float]

    def at(self, log_odds: float, places: Sequence[int]) -> float:
        """Return the probability, kept away from 0 and 1."""
        found = self.level + self.slope * log_odds
        found += sum(self.steps.get(place, 0.0) for place in places)
        return min(1 - _EDGE, max(_EDGE, 1 / (1 + math.exp(-found))))


@dataclass(frozen=True, slots=True)
class Curve:
    """
    The judge's expected pass and score, logistic in the local score.

    Estimates that are based on it stay unbiased whatever it says, as long as it was learnt from
    other samples.
    """

    passes: Weights
    score: Weights = field(default_factory=lambda: Weights(0.0, 1.0, {}))

    def expect(self, local_score: float, places: Sequence[int] = ()) -> Expected:
        """Return what the judge is expected to say at *local_score* in *places*."""
        x = _log_odds(local_score)
        return Expected(self.passes.at(x, places), self.score.at(x, places))


def fit_curve(verdicts: Sequence[JudgedSample], rule: PassRule) -> Curve:
    """
    Fit what the judge says to the local score and to where a sample belongs.

    Without verdicts the score is expected to be the local score, and a pass to be even
    at the pass line. Each verdict draws level and slope away from that, and each place's
    step away from 0, by penalised likelihood: one curve for all where there are few.

    References
    ----------
    .. [1] J. Platt, "Probabilistic outputs for support vector machines", in "Advances in
       Large Margin Classifiers", MIT Press (1999): a logistic curve through scores.
    """
    # Places that many verdicts, but not all, come from.
    seen = Counter(place for verdict in verdicts for place in verdict.places)
    known = [p for p, count in seen.items() if _FEWEST_HERE <= count < len(verdicts)]
    places = sorted(known, key=lambda place: (-seen[place], place))[:_MOST_PLACES]
    columns = {place: column for column, place in enumerate(places, start=2)}
    design = np.zeros((len(verdicts), 2 + len(places)))
    design[:, 0] = 1.0
    for row, verdict in enumerate(verdicts):
        design[row, 1] = _log_odds(verdict.local_score)
        design[row, [columns[place] for place in verdict.places if place in columns]] = 1.0
    sign = -1.0 if rule.direction is Direction.LOWER else 1.0
    passed = np.array([verdict.passed for verdict in verdicts], float)
    score = np.array([verdict.score for verdict in verdicts], float)
    return Curve(
        passes=_fitted(design, passed, (-sign * _log_odds(rule.line), sign), places),
        score=_fitted(design, score, (0.0, 1.0), places),
    )


def _fitted(
    design: NDArray[np.float64],
    targets: NDArray[np.float64],
    start: tuple[float, float],
    places: Sequence[int],
) -> Weights:
    centre = np.array([*start, *(0.0 for _ in places)])
    precision = np.array([*_FIRM, *(_FIRM_PLACE for _ in places)])
    level, slope, *steps = ridge_logistic(design, targets, centre, precision).tolist()
    return Weights(level, slope, dict(zip(places, steps, strict=True)))


def _log_odds(score: float) -> float:
    if not 0 < score < 1:
        return _WIDEST if score >= 1 else -_WIDEST
    return min(_WIDEST, max(-_WIDEST, math.log(score / (1 - score))))


@dataclass(slots=True)
class _Last:
    """The last verdicts of one app and metric, and how many there were in all."""

    verdicts: deque[JudgedSample] = field(default_factory=lambda: deque(maxlen=KEPT))
    total: int = 0
    position: bytes = b"0"  #: of the last one read from the stream

    def add(self, verdict: JudgedSample) -> None:
        self.verdicts.append(verdict)
        self.total += 1


class VerdictHistory:
    """
    The last verdicts by app and metric; may be shared by threads.

    Parameters
    ----------
    client
        The Redis in whose streams all workers keep them: forgotten with it, and learnt again.
        Only what is new is read. None keeps those of this process alone.
    version
        What shapes local score and verdict.
    """

    def __init__(self, client: redis.Redis | None = None, version: str = "") -> None:
        self._redis: Any = client
        self._version = version
        self._last: defaultdict[tuple[str, str], _Last] = defaultdict(_Last)
        self._lock = threading.Lock()

    def read(self, app: str, metric: str) -> tuple[tuple[JudgedSample, ...], int]:
        """Return what is known of one app and metric, or raise a ``QueueUnavailableError``."""
        with self._lock:
            last = self._last[app, metric]
            found: Any = ()
            if self._redis is not None:
                key = names.calibration(app, metric, self._version)
                with translated():
                    found = self._redis.xread({key: last.position})
            for position, fields in found[0][1] if found else ():
                last.position = position
                local_score, passed, score, *places = fields[b"v"].decode().split()
                numbers = tuple(map(int, places))
                last.add(JudgedSample(float(local_score), passed == "1", float(score), numbers))
            return tuple(last.verdicts), last.total

    def add(self, app: str, metric: str, verdict: JudgedSample) -> None:
        """Keep one verdict, or raise a ``QueueUnavailableError``."""
        if self._redis is None:
            with self._lock:
                self._last[app, metric].add(verdict)
            return
        key = names.calibration(app, metric, self._version)
        places = " ".join(map(str, verdict.places))
        text = f"{verdict.local_score:.4f} {verdict.passed:d} {verdict.score:.4f} {places}"
        with translated(), self._redis.pipeline(transaction=False) as pipe:
            pipe.xadd(key, {"v": text}, maxlen=KEPT, approximate=True)
            pipe.expire(key, _KEPT_S)
            pipe.execute()


class _Known(NamedTuple):
    curve: Curve
    total: int  #: verdicts, when it was fitted
    read_s: float = 0.0


class Calibration:
    """
    Expectations by app and metric, renewed every two seconds; may be shared by threads.

    While Redis cannot be reached the last ones known go on: any will do.
    """

    def __init__(self, history: VerdictHistory, rules: Mapping[str, PassRule]) -> None:
        self._history = history
        self.rules = rules  #: when a score passes, by metric
        self._known: dict[tuple[str, str], _Known] = {}
        self._lock = threading.Lock()

    def expect(
        self, app: str, metric: str, local_score: float, places: tuple[int, ...] = ()
    ) -> Expected:
        """Return what the judge is expected to say at *local_score* in *places*."""
        with self._lock:
            known = self._known.get((app, metric))
            now_s = time.monotonic()
            if known is None or now_s - known.read_s >= _FRESH_S:
                try:
                    verdicts, total = self._history.read(app, metric)
                except QueueUnavailableError:
                    verdicts, total = (), 0
                if known is None or total - known.total > len(verdicts) // _REFIT:
                    known = _Known(fit_curve(verdicts, self.rules[metric]), total)
                known = self._known[app, metric] = known._replace(read_s=now_s)
        return known.curve.expect(local_score, places)

    def learn(self, app: str, metric: str, verdict: JudgedSample) -> None:
        """Learn from a verdict, for samples to come."""
        try:
            self._history.add(app, metric, verdict)
        except QueueUnavailableError:
            return
