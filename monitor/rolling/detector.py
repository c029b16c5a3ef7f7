"""Where the drift detectors of one stream stand, and what they find as buckets come in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, Self

from monitor.stats.betting import Baseline, Detector, advance, mirrored, null_mean

DOWN, UP = "score_down", "score_up"
#: The reference is taken anew this often, in buckets; never for buckets that were seen.
REFRESH_BUCKETS: Final = 360
HOUR_BUCKETS: Final = 60
#: With fewer scores in the reference nothing is called a change.
LEAST_REFERENCE: Final = 200
#: After a finding the same direction is quiet for so many buckets.
QUIET_BUCKETS: Final = 1440

Bins = Mapping[int, float]
_RESET: Final = Detector()


class Alarm(NamedTuple):
    """A detector that passed its line: which, at the end of which bucket, and how far."""

    test: str
    at_s: int
    from_s: int
    level: float
    baseline: Baseline


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamState:
    """All that has to be remembered of a stream between two looks."""

    at_s: int  #: buckets before this are taken in
    began_s: int  #: since when the detectors run
    baseline: Baseline
    baseline_at_s: int
    chunk_from_s: int
    down: Detector = _RESET
    up: Detector = _RESET
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
            "down": list(self.down.wealth),
            "up": list(self.up.wealth),
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
            baseline=Baseline(*stored["baseline"]),
            baseline_at_s=stored["baseline_at_s"],
            chunk_from_s=stored["chunk_from_s"],
            down=Detector(tuple(stored["down"])),
            up=Detector(tuple(stored["up"])),
            quiet_to_s=(down_s, up_s),
            design_effect=stored["design_effect"],
            by_hour=stored.get("by_hour", False),
        )


def take_in(
    state: StreamState,
    buckets: Mapping[int, Bins],
    *,
    to_s: int,
    bucket_s: int,
    line: float,
) -> tuple[StreamState, list[Alarm]]:
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


def _advance(state: StreamState, bucket: Bins) -> StreamState:
    effect = state.design_effect
    base = state.baseline._replace(n=state.baseline.n / effect)
    fallen, risen = null_mean(base), null_mean(base._replace(mean=1 - base.mean))
    return replace(
        state,
        down=advance(state.down, [bucket], null=fallen, design_effect=effect),
        up=advance(state.up, [mirrored(bucket)], null=risen, design_effect=effect),
    )


def _alarm(
    state: StreamState, test: str, *, line: float, quiet_s: int
) -> tuple[StreamState, Sequence[Alarm]]:
    """Tell of a detector that passed its line, unless it just did, and reset it."""
    detector = state.down if test == DOWN else state.up
    if detector.level < line:
        return state, ()
    quiet = state.quiet_to_s[test == UP]
    alarm = Alarm(test, state.at_s, state.began_s, detector.level, state.baseline)
    until_s = state.at_s + quiet_s
    if test == DOWN:
        state = replace(state, down=Detector(), quiet_to_s=(until_s, state.quiet_to_s[1]))
    else:
        state = replace(state, up=Detector(), quiet_to_s=(state.quiet_to_s[0], until_s))
    return state, () if alarm.at_s < quiet else (alarm,)
