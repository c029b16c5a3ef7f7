"""Readings of the soak: how steep they are, and whether that is flat."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import stats

_STRETCHES = 10
#: Flat is a slope below this share of the memory an hour, or one that may be 0 ...
_FLAT = 0.01
#: ... where the interval is narrow enough to say so.
_WIDEST = 0.05

Series = NDArray[np.float64]  #: (readings, 2): seconds since the begin, MB


class Trend(NamedTuple):
    """A straight line by least squares; the interval holds at 95 %."""

    slope_mb_per_hour: float
    half: float
    mean_mb: float

    @classmethod
    def of(cls, readings: Series) -> Self:
        """Fit the means of ten stretches, since neighbouring readings are much alike."""
        parts = [part.mean(axis=0) for part in np.array_split(readings, _STRETCHES) if len(part)]
        if len(parts) < _STRETCHES:
            return cls(float("nan"), float("nan"), float(readings[:, 1].mean()))
        hours, size = np.array(parts).T[0] / 3600, np.array(parts).T[1]
        line = stats.linregress(hours, size)
        # No error where all readings are the same.
        half = float(stats.t.ppf(0.975, len(parts) - 2) * np.nan_to_num(line.stderr))
        return cls(float(line.slope), half, float(size.mean()))

    @property
    def finding(self) -> str:
        """Say `flat`, `grows`, `shrinks`, or `unclear` where the interval is too wide."""
        slope, half, mean = self
        if abs(slope) < _FLAT * mean and half < _WIDEST * mean:
            return "flat"
        if abs(slope) > half:
            return "grows" if slope > 0 else "shrinks"
        return "flat" if abs(slope) + half < _WIDEST * mean else "unclear"

    def __str__(self) -> str:
        """Write slope, interval and finding."""
        return f"{self.slope_mb_per_hour:+8.2f} ± {self.half:6.2f} {self.finding:7}"


def read(log: Path) -> dict[tuple[str, str], Series]:
    """Read a log, also one that was cut: process and measure to readings."""
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for line in log.read_text(encoding="utf-8").splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            break
        for process, sizes in record.get("mb", {}).items():
            for measure, size in sizes.items():
                found.setdefault((process, measure), []).append((record["s"], size))
    return {key: np.array(of) for key, of in found.items()}


def table(readings: dict[tuple[str, str], Series], measure: str) -> Iterable[str]:
    """Write what each process did over all, without a warm-up of a third, and in the last half."""
    yield (
        f"{measure:18} {'first':>7} {'at 1/3':>7} {'last':>7} {'peak':>7}"
        "   MB an hour after a third          in the last half"
    )
    for (process, of), series in readings.items():
        if of == measure and len(series) >= _STRETCHES:
            begin, end = series[0, 0], series[-1, 0]
            late = [series[series[:, 0] >= begin + share * (end - begin)] for share in (1 / 3, 0.5)]
            yield (
                f"{process:18} {series[0, 1]:7.1f} {late[0][0, 1]:7.1f} {series[-1, 1]:7.1f}"
                f" {series[:, 1].max():7.1f}  " + "  ".join(str(Trend.of(part)) for part in late)
            )
