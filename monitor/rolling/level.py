"""
What labels make of the evidence of a stream: thresholds in its own units, figures as levels.

The evidence itself goes on betting on plain pass rates. Labels only say which pass rates stand for
the thresholds (`translated`), and what level a bound of the pass rate leaves possible
(`as_levels`). As the one is the inverse of the other, a status and the level beside it agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, NamedTuple

import numpy as np

from monitor.format import short_percent
from monitor.models import AppLevel, Status
from monitor.rolling.anytime import advance
from monitor.rolling.baseline import Baseline
from monitor.rolling.evidence_state import ALARMED, Certainty, EvidenceState
from monitor.rolling.looks import Looks
from monitor.rolling.policies import Rules, Thresholds
from monitor.rolling.verdicts import EvidenceFinding
from monitor.stats.agreement import ErrorRates
from monitor.stats.intervals import Interval

#: Figures on so many times the verdicts of the labelled time are still about that time.
_SAME_TIME: Final = 1.5
_SEVERITY: Final = {Status.WARNING: 1, Status.CRITICAL: 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedLevel:
    """What labels of one release taught about one evaluator version."""

    rates: ErrorRates  #: of a local scorer, at its lowest line
    n_labels: int
    release: str
    until: datetime
    scored: float = 0.0  #: verdicts in the time from which the labels were drawn
    last_s: float = 0.0  #: when that time ended
    lines: tuple[tuple[int, ErrorRates], ...] = ()  #: of a local scorer: hundredths, error rates


def translated(rules: Rules, rates: ErrorRates) -> Rules:
    """Return the rules with thresholds as pass rates of the evaluator."""
    warning, critical = (rates.threshold(r) for r in (rules.warning_rate, rules.critical_rate))
    return replace(rules, warning_rate=warning, critical_rate=critical)


def as_levels(
    found: EvidenceFinding,
    verified: VerifiedLevel,
    thresholds: Thresholds,
    *,
    worst: Status = Status.CRITICAL,
) -> EvidenceFinding:
    """
    Return a finding under `translated` rules with its figures as levels.

    An alarm keeps its status, no worse than *worst*. Without one, labels by which the level of
    their own period is certainly below a threshold are an alarm themselves, until the pass rate
    stands for a level above the warning threshold.
    """
    head, rates, status, reason = found.headline, verified.rates, found.status, found.reason
    if head.pass_rate is None or head.interval is None:
        return found
    size = head.n / max(found.effect, 1.0)
    certainty, of_labels = found.certainty, rates.labelled_level()
    if head.since_s <= verified.last_s and head.n <= _SAME_TIME * verified.scored:
        level, (low, high) = of_labels  # much the same samples: their labels tell most
    else:
        level, (low, high) = rates.level(head.pass_rate * size, size)
    n = f"{verified.n_labels} labels"
    if status in ALARMED:
        high = rates.highest_level(head.interval.high)
        low = min(rates.lowest_level(head.interval.low), high)
    elif of_labels[1].high < thresholds.warning_rate and level < thresholds.warning_rate:
        level, (low, high) = of_labels
        status = Status.CRITICAL if high < thresholds.critical_rate else Status.WARNING
        certainty = Certainty.CONFIRMED
    else:
        high = max(high, thresholds.warning_rate)  # it is not refuted, so it lies inside
    if _SEVERITY.get(status, 0) > _SEVERITY[worst]:
        status, high = worst, max(high, thresholds.critical_rate)
    level = min(level, high)
    percents = [short_percent(r) for r in (thresholds.warning_rate, thresholds.critical_rate)]
    if status in ALARMED:
        line = percents[status is Status.CRITICAL]
        reason = f"level is below the {line} {status.value} threshold, by {n}"
        if worst is Status.WARNING:
            reason += ", if the answers are still written as they were: label new ones"
    elif status is Status.HEALTHY:
        reason = f"no evidence of a level below {percents[0]}, by {n}"
    return replace(
        found,
        status=status,
        reason=reason,
        headline=replace(head, pass_rate=level, interval=Interval(min(low, level), high)),
        certainty=certainty,
        phase=found.phase if status is Status.INSUFFICIENT_DATA else None,
        resolution=None if found.resolution is None else rates.highest_level(found.resolution),
    )


def worse_of(by_line: EvidenceFinding, by_level: EvidenceFinding) -> EvidenceFinding:
    """
    Return which of two findings of a local scorer speaks: by its pass line, or by labels.

    The worse alarm does. Without one the level does as soon as its evidence suffices; what the
    pass line cannot decide for want of scores, labels do not decide either.
    """
    line, level = by_line.status, by_level.status
    if _SEVERITY.get(line, 0) > _SEVERITY.get(level, 0):
        reason = f"{by_line.reason}: answers do not come from their contexts"
        return replace(by_line, reason=reason)
    if level in ALARMED or (line is Status.HEALTHY and by_level.phase != "collecting"):
        return by_level
    if line is Status.HEALTHY:
        return replace(by_level, status=line, reason=by_line.reason, phase=None)
    return by_line


def described(verified: VerifiedLevel, own: EvidenceFinding, rules: Rules) -> AppLevel:
    """Return what a verdict says of a level that labels verify; *rules* are translated ones."""
    low, high = own.headline.interval or (None, None)
    return AppLevel(
        verified=True,
        by="labels",
        n_labels=verified.n_labels,
        release=verified.release,
        until=verified.until,
        pass_rate=own.headline.pass_rate,
        low=low,
        high=high,
        warning_rate=rules.warning_rate,
        critical_rate=rules.critical_rate,
    )


class BucketPasses(NamedTuple):
    """How many scores of a bucket lie at or above a line of the level."""

    start_s: int
    n: int
    passed: int


@dataclass(frozen=True, slots=True)
class LevelEvidence:
    """
    Evidence at one line of the level, collected from the histograms of a local scorer.

    What it saw last is its newest bucket; samples that come late for older ones are left out.
    """

    state: EvidenceState
    newest: BucketPasses | None = None

    def after(
        self, rows: Sequence[BucketPasses], now_s: float, rules: Rules, effect: Baseline
    ) -> LevelEvidence:
        """Take in *rows*, in order: the newest bucket of before as it is now, and later ones."""
        news = []
        for row in rows:
            known = BucketPasses(row.start_s, 0, 0)
            if self.newest is not None and row.start_s == self.newest.start_s:
                known = self.newest
            if row.n > known.n:
                end_s = min(now_s, row.start_s + rules.bucket_s - 0.001)
                news.append((end_s, row.n - known.n, row.passed - known.passed))
        baseline = Baseline(effect=effect.effect, effect_known=effect.effect_known)
        state = self.state.but(baseline=baseline)
        if news:
            time_s, n, passed = np.array(news, dtype=np.float64).T
            time_s = np.maximum.accumulate(np.maximum(time_s, state.at_s))
            state, _ = advance(state, Looks(time_s, n, n, passed), rules)
        return LevelEvidence(state, rows[-1] if rows else self.newest)
