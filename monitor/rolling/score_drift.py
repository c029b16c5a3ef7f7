"""
Whether the mean score of a stream fell or rose: a sequential detector with a false-alarm budget.

The evidence is that of the status (`monitor.stats.evidence`), of scores instead of passes: the same
sums, against the mean of the reference less an effect that is too small to matter.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any, Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from monitor.models.status import BINS
from monitor.stats.evidence import NOTHING, Floats, accumulate, log_mean

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
        return asdict(self) | sums | lists

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
    n = max(0, -(-(to_s - from_s) // bucket_s))
    state = replace(state, at_s=from_s + n * bucket_s)
    if n == 0 or state.baseline.n < LEAST_REFERENCE:
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
