"""How a stream stands under the policy ``anytime``: its status in words, and what it would take."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from monitor.models import Status
from monitor.rolling.anytime import is_doubtful, thresholds
from monitor.rolling.budget import Rules
from monitor.rolling.memory import Certainty, Detector, Memory
from monitor.rolling.policies import Finding
from monitor.rolling.windows import WindowStats
from monitor.stats.onset import Onset
from monitor.stats.power import resolution, samples_to_decide

#: A fall that would be seen within a day only below this rate is as good as not seen.
_LOW_POWER: Final = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A status with what it rests on; rates in [0, 1]."""

    finding: Finding
    certainty: Certainty
    effect: float  #: design effect: by how much the samples count less than independent ones
    onset: Onset | None = None
    more_n: int | None = None  #: about so many more samples decide, if the rate goes on
    resolution: float | None = None  #: only a fall below this would be seen within a day


def standing_of(memory: Memory, window: WindowStats, rules: Rules) -> Standing:
    """Say how a stream stands; *window* is the status window, for the rate that goes on."""
    finest = _resolution(memory, rules)
    finding = _finding(memory, window, rules, finest)
    return Standing(
        finding=finding,
        certainty=_certainty(memory, rules),
        effect=memory.baseline.effect,
        onset=memory.onset if memory.alarmed else None,
        more_n=_more_n(memory, window, rules),
        resolution=finest,
    )


def _certainty(memory: Memory, rules: Rules) -> Certainty:
    """Give the certainty, raised when the evidence below the line itself came to suffice."""
    below = _log_m(memory, Detector.BELOW_WARNING)
    enough = below >= thresholds(memory, rules)[Detector.BELOW_WARNING]
    if memory.alarmed and enough and memory.baseline.effect_known:
        return Certainty.CONFIRMED
    return memory.certainty


def _finding(memory: Memory, window: WindowStats, rules: Rules, finest: float) -> Finding:
    if memory.alarmed:
        return Finding(memory.status, _alarm_reason(memory, window, rules))
    if memory.status is Status.INSUFFICIENT_DATA:
        return Finding(memory.status, _too_little(memory, window, rules))
    if finest < _LOW_POWER:
        return Finding(
            Status.INSUFFICIENT_DATA,
            f"low_power: at this traffic only a fall below {finest:.2f} would be seen in a day",
        )
    return Finding(Status.HEALTHY, _no_evidence(memory, window, rules, finest))


def _no_evidence(memory: Memory, window: WindowStats, rules: Rules, finest: float) -> str:
    line = rules.warning_rate
    told = f"{_held(window)}no evidence of a pass rate below {line:g}"
    told += f"; a fall below {finest:.2f} would be seen"
    if since := _since_recovery(memory, window, line):
        return f"{since}; {told} within a day"
    more_n = _more_n(memory, window, rules)
    if window.interval is None or window.interval.high >= line or more_n is None:
        return f"{told} within a day"
    return f"{told} within a day; about {more_n} more samples as low as these would be evidence"


def _since_recovery(memory: Memory, window: WindowStats, line: float) -> str:
    """Say why a stream is well though its window is not: the window reaches back further."""
    if not memory.incidents or window.pass_rate is None or window.pass_rate >= line:
        return ""
    if memory.spell_n >= window.n_effective or memory.spell_passed < line * memory.spell_n:
        return ""
    told = "recovered, though the window still holds the incident"
    if memory.spell_n < 1:
        return told
    return f"{told}: {memory.spell_passed / memory.spell_n:.1%} passed since"


def _alarm_reason(memory: Memory, window: WindowStats, rules: Rules) -> str:
    critical = memory.status is Status.CRITICAL
    line = rules.critical_rate if critical else rules.warning_rate
    name = "critical" if critical else "warning"
    now = _held(window) or f"pass rate {window.pass_rate:.3f}: "
    before = memory.baseline.rate
    where = f"{name} line {line:g}"
    if window.pass_rate is not None and window.pass_rate >= line:
        where += ", though the window still holds the time before"
    if not critical and window.pass_rate is not None and window.pass_rate < rules.critical_rate:
        where += f", not yet or no longer below the critical line {rules.critical_rate:g}"
    if _certainty(memory, rules) is Certainty.CONFIRMED or before is None:
        return f"{now}the evidence says it is below the {where}"
    return f"{now}fell from {before:.3f}, and is probably below the {where}"


def _held(window: WindowStats) -> str:
    """Say that a status rests on what came before the window; empty where the window has scores."""
    return "no scores in the status window, so it is held from before: " if window.n == 0 else ""


def _too_little(memory: Memory, window: WindowStats, rules: Rules) -> str:
    if window.n == 0 and window.skipped:
        return f"nothing to judge: all {window.skipped} were skipped"
    if _is_doubtful(memory, rules):
        rate = memory.spell_passed / memory.spell_n
        more_n = _more_n(memory, window, rules)
        decides = "" if more_n is None else f"; about {more_n} more samples as low would decide"
        return (
            f"{rate:.1%} passed so far, below {rules.warning_rate:g},"
            f" but not beyond chance at so many looks{decides}"
        )
    missing = math.ceil(rules.min_n - memory.n_day)
    if missing <= 0:
        return "no new scores for six hours or more"
    return f"about {memory.n_day:.0f} scores in a day, about {missing} more needed"


def _is_doubtful(memory: Memory, rules: Rules) -> bool:
    effect = memory.baseline.effect
    n, passed = np.array([[memory.spell_n * effect], [memory.spell_passed * effect]])
    return bool(is_doubtful(n, passed, rules, healthy=False)[0])


def _more_n(memory: Memory, window: WindowStats, rules: Rules) -> int | None:
    rate = window.pass_rate
    if memory.status is Status.INSUFFICIENT_DATA:
        if not _is_doubtful(memory, rules):
            return max(1, math.ceil(rules.min_n - memory.n_day))
        rate = memory.spell_passed / memory.spell_n
    if memory.alarmed or rate is None:
        return None
    limit = thresholds(memory, rules)[Detector.BELOW_WARNING]
    missing = limit - max(0.0, _log_m(memory, Detector.BELOW_WARNING))
    decides = samples_to_decide(rate, rules.warning_rate, missing)
    return None if decides is None else math.ceil(decides * memory.baseline.effect)


def _resolution(memory: Memory, rules: Rules) -> float:
    limit = thresholds(memory, rules)[Detector.BELOW_WARNING]
    # Two digits are enough to be told, and seldom change.
    n = float(f"{memory.n_day / memory.baseline.effect:.2g}")
    return _resolution_of(n, rules.warning_rate, limit)


@lru_cache(maxsize=16_384)
def _resolution_of(n: float, line: float, limit: float) -> float:
    return resolution(n, line, limit)


def _log_m(memory: Memory, detector: Detector) -> float:
    row = memory.log_r[int(detector)].tolist()
    top = max(row)
    return float(top + math.log(sum(math.exp(value - top) for value in row) / len(row)))
