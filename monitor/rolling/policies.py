"""
Named rules that turn the figures of a window into a status.

A policy is a function; `POLICIES` is the list. To add one, write the function and
name it there: the setting ``GROUNDWATCH_STATUS_POLICY`` takes it by that name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from monitor.models import Status
from monitor.rolling.windows import WindowStats


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """The pass rates, in [0, 1], below which things are not well, and the size needed to say so."""

    warning_rate: float = 0.85
    critical_rate: float = 0.70
    min_n: int = 30


class Finding(NamedTuple):
    """A status and why."""

    status: Status
    reason: str


Policy = Callable[[WindowStats, Thresholds], Finding]


def point(window: WindowStats, lines: Thresholds) -> Finding:
    """
    Compare the plain pass rate with the lines, whatever the size of the window.

    The plain rule: unweighted, and insufficient only when empty.
    """
    if window.n == 0:
        return _nothing_scored(window)
    return _by_rate(window.passed / window.n, lines)


def point_min_n(window: WindowStats, lines: Thresholds) -> Finding:
    """Compare the weighted pass rate with the lines, once there are enough scores."""
    if window.pass_rate is None:
        return _nothing_scored(window)
    if window.n_effective < lines.min_n:
        return _too_few(window, lines)
    return _by_rate(window.pass_rate, lines)


def wilson(window: WindowStats, lines: Thresholds) -> Finding:
    """Call a rate low only when the whole 95 % interval lies below the line."""
    if window.interval is None:
        return _nothing_scored(window)
    if window.n_effective < lines.min_n:
        return _too_few(window, lines)
    return _by_rate(window.interval.high, lines, what="upper bound of the pass rate")


POLICIES: Mapping[str, Policy] = {"point": point, "point_min_n": point_min_n, "wilson": wilson}


def _by_rate(rate: float, lines: Thresholds, what: str = "pass rate") -> Finding:
    if rate < lines.critical_rate:
        return Finding(
            Status.CRITICAL, f"{what} {rate:.3f} is below the critical line {lines.critical_rate:g}"
        )
    if rate < lines.warning_rate:
        return Finding(
            Status.WARNING, f"{what} {rate:.3f} is below the warning line {lines.warning_rate:g}"
        )
    return Finding(
        Status.HEALTHY, f"{what} {rate:.3f} is at or above the warning line {lines.warning_rate:g}"
    )


def _too_few(window: WindowStats, lines: Thresholds) -> Finding:
    missing = max(1, round(lines.min_n - window.n_effective))
    return Finding(
        Status.INSUFFICIENT_DATA,
        f"{window.n} scores in the window, about {missing} more needed",
    )


def _nothing_scored(window: WindowStats) -> Finding:
    if window.skipped:
        return Finding(
            Status.INSUFFICIENT_DATA, f"nothing to judge: all {window.skipped} were skipped"
        )
    return Finding(Status.INSUFFICIENT_DATA, "no scores in the window")
