"""
Whether the mean score of a stream fell or rose: a sequential detector with a false-alarm budget.

The evidence is that of the status (`monitor.stats.evidence`), of scores instead of passes: the same
sums, against the mean of the reference less an effect that is too small to matter.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from monitor.models.status import BINS
from monitor.stats.evidence import NOTHING, accumulate

DOWN, UP = "score_down", "score_up"
#: The reference is taken anew this often, in buckets; never for buckets that were seen.
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
        return sum(math.exp(value) for value in self.log_r) / len(self.log_r)

    def stored(self) -> list[float]:
        """Return the sums as a JSON column keeps them."""
        return [math.exp(value) for value in self.log_r]

    @classmethod
    def read(cls, stored: Sequence[float]) -> Self:
        """Read what `stored` returned."""
        return cls(tuple(math.log(value) if value > 0 else NOTHING for value in stored))


_RESET: Final = ScoreDetector()


def null_mean(baseline: ScoreReference) -> float:
    """
    Give the mean that scores may fall to before it is called a change, in (0, 1).

    The lower 98 % bound of the reference's mean, less a fifth of a standard deviation: by
    convention a smaller effect is not even a small one, and the hours of a day differ as much.
    """
    error = baseline.deviation / math.sqrt(max(1.0, baseline.n))
    bound = baseline.mean - 2.33 * error - _TOLERATED * baseline.deviation
    return min(1 - 1e-3, max(1e-3, bound))


def advance(
    detector: ScoreDetector, bucket: Bins, *, null: float, design_effect: float = 1.0
) -> ScoreDetector:
    """
    Take in one bucket of scores, empty or not: one new start of each bet.

    The sums are those of `monitor.stats.evidence`, with the payoff 1 + s (null - score) of a score
    in [0, 1]. As long as the mean of the scores is at least *null* given the past, an alarm at
    level A comes on average not before A buckets, whatever the traffic and however often one looks.
    Scores are taken at the upper end of their bin, which keeps that true. For rises, turn the
    scores around: see `mirrored`.

    Parameters
    ----------
    detector
        Where it stood.
    bucket
        Counts by bin (0 to 100).
    null
        In (0, 1); may change between calls as long as it is fixed before its bucket.
    design_effect
        At least 1; by how much correlation within sessions inflates the variance.

    References
    ----------
    .. [1] I. Waudby-Smith, A. Ramdas, "Estimating means of bounded random variables by
       betting", JRSS B 86 (2024), 1-27.
    """
    gained = np.zeros(len(_FRACTIONS))
    if bucket:
        counts = np.fromiter(bucket.values(), dtype=np.float64)
        gained = _gains(null)[:, list(bucket)] @ counts / design_effect
    log_r = np.array(detector.log_r)[None]
    path = accumulate(log_r, gained[None, None], np.ones((1, 1)))
    return ScoreDetector(tuple(np.minimum(path.log_r[0, 0], _MOST_LOG).tolist()))


def mirrored(bucket: Bins) -> dict[int, float]:
    """Turn the scores of a bucket around, so that a rise becomes a fall."""
    return {BINS - 1 - position: count for position, count in bucket.items()}


def threshold(bucket_s: float, budget: float) -> float:
    """Give the level at which *budget* false alarms are expected in 30 days of healthy traffic."""
    return 30 * 86_400 / bucket_s / budget


@lru_cache(maxsize=512)
def _gains(null: float) -> NDArray[np.float64]:
    """Give the logarithm of what each bet gains by a score in each bin, shape (bets, bins)."""
    upper_ends = np.minimum(1.0, np.arange(BINS) / (BINS - 1) + _HALF_BIN)
    return np.asarray(np.log1p(np.outer(_FRACTIONS / (1 - null), null - upper_ends)))


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
    quiet_to_s: tuple[int, int] = (0, 0)
    design_effect: float = 1.0
    by_hour: bool = False  #: scores have a course of the day: like hours are compared

    @property
    def refresh_buckets(self) -> int:
        """Tell after how many buckets the reference is taken anew."""
        if self.baseline.n < LEAST_REFERENCE:
            return REFRESH_BUCKETS // 12
        return HOUR_BUCKETS if self.by_hour else REFRESH_BUCKETS

    def stored(self) -> dict[str, Any]:
        """Give what a JSON column keeps."""
        return {
            "at_s": self.at_s,
            "began_s": self.began_s,
            "baseline": list(self.baseline),
            "baseline_at_s": self.baseline_at_s,
            "chunk_from_s": self.chunk_from_s,
            "down": self.down.stored(),
            "up": self.up.stored(),
            "quiet_to_s": list(self.quiet_to_s),
            "design_effect": self.design_effect,
            "by_hour": self.by_hour,
        }

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> Self:
        """Read what `stored` gave."""
        down_s, up_s = stored["quiet_to_s"]
        return cls(
            at_s=stored["at_s"],
            began_s=stored["began_s"],
            baseline=ScoreReference(*stored["baseline"]),
            baseline_at_s=stored["baseline_at_s"],
            chunk_from_s=stored["chunk_from_s"],
            down=ScoreDetector.read(stored["down"]),
            up=ScoreDetector.read(stored["up"]),
            quiet_to_s=(down_s, up_s),
            design_effect=stored["design_effect"],
            by_hour=stored.get("by_hour", False),
        )


def take_in(
    state: ScoreDriftState,
    buckets: Mapping[int, Bins],
    *,
    to_s: int,
    bucket_s: int,
    line: float,
) -> tuple[ScoreDriftState, list[Alarm]]:
    """
    Take in the buckets in [state.at_s, to_s); a pure function of the state and the buckets.

    Parameters
    ----------
    state
        Where the detectors stand.
    buckets
        Histograms by the start of their bucket; an empty one may be missing.
    to_s
        Up to when the buckets are settled.
    bucket_s
        Width of a bucket.
    line
        The level at which a detector alarms.
    """
    alarms: list[Alarm] = []
    for start_s in range(state.at_s, to_s, bucket_s):
        end_s, bucket = start_s + bucket_s, buckets.get(start_s, {})
        if state.baseline.n >= LEAST_REFERENCE:
            state = _advance(state, bucket)
        state = replace(state, at_s=end_s)
        for test in (DOWN, UP):
            state, found = _alarm(state, test, line=line, quiet_s=QUIET_BUCKETS * bucket_s)
            alarms += found
    return state, alarms


def _advance(state: ScoreDriftState, bucket: Bins) -> ScoreDriftState:
    effect = state.design_effect
    base = state.baseline._replace(n=state.baseline.n / effect)
    fallen, risen = null_mean(base), null_mean(base._replace(mean=1 - base.mean))
    return replace(
        state,
        down=advance(state.down, bucket, null=fallen, design_effect=effect),
        up=advance(state.up, mirrored(bucket), null=risen, design_effect=effect),
    )


def _alarm(
    state: ScoreDriftState, test: str, *, line: float, quiet_s: int
) -> tuple[ScoreDriftState, Sequence[Alarm]]:
    """Tell of a detector that passed its line, unless it just did, and reset it."""
    detector = state.down if test == DOWN else state.up
    if detector.level < line:
        return state, ()
    quiet = state.quiet_to_s[test == UP]
    alarm = Alarm(test, state.at_s, state.began_s, detector.level, state.baseline)
    until_s = state.at_s + quiet_s
    if test == DOWN:
        state = replace(state, down=ScoreDetector(), quiet_to_s=(until_s, state.quiet_to_s[1]))
    else:
        state = replace(state, up=ScoreDetector(), quiet_to_s=(state.quiet_to_s[0], until_s))
    return state, () if alarm.at_s < quiet else (alarm,)
