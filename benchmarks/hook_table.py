"""The figures of benchmarks/hook.py, the goals beside them, and the table of both."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hook_probe import CALLS_PER_S
from rich.table import Table

OURS, FLOOR = "groundwatch", "floor"
Figures = dict[str, Any]
DELIVERING = f"p99.9 at {CALLS_PER_S} calls/s, delivering, µs"
HANGING = "p99.9, server hangs, µs"


@dataclass
class Results:
    """The figures of one run, by measurement and SDK."""

    table: dict[str, Figures] = field(default_factory=dict)

    def add(self, row: str, name: str, values: Sequence[float | None]) -> None:
        """Note the median of several rounds."""
        known = [value for value in values if value is not None]
        if known:
            self.table.setdefault(row, {})[name] = statistics.median(known)

    def subtract_floor(self, row: str) -> None:
        """Add a row with what is left of *row* without what the machine itself takes."""
        floor = self.table[row][FLOOR]
        above = {name: value - floor for name, value in self.table[row].items() if name != FLOOR}
        self.table[above_floor(row)] = above


def above_floor(row: str) -> str:
    """Name the row of differences from the floor."""
    return f"{row.removesuffix(', µs')}, floor subtracted, µs"


@dataclass(frozen=True)
class Goal:
    """What a figure of ours has to reach."""

    most: float = float("inf")
    least: float = 0.0
    times: float = 0.0  #: cheaper than OpenTelemetry, at least
    below_peers: bool = False

    def met(self, row: Figures) -> bool:
        """Say whether our figure reaches it."""
        ours, peers = row[OURS], _peers(row)
        return (
            self.least <= ours <= self.most
            and row.get("opentelemetry", float("inf")) >= self.times * ours
            and (not self.below_peers or all(ours < theirs for theirs in peers.values()))
        )

    def __str__(self) -> str:
        parts = [
            f"≤ {self.most:,g}" if self.most < float("inf") else "",
            f"≥ {self.least:,g}" if self.least else "",
            f"≥ {self.times:g}× OpenTelemetry" if self.times else "",
            "below all" if self.below_peers else "",
        ]
        return ", ".join(part for part in parts if part)


GOALS = {
    "call, not sampled, ns": Goal(most=250, times=30),
    "call, sampled, ns": Goal(most=3_000, times=8),
    "decorator, not sampled, ns": Goal(most=300),
    above_floor(DELIVERING): Goal(most=60, below_peers=True),
    above_floor(HANGING): Goal(most=200),
    "memory, server hangs, MB": Goal(most=120),
    "exit, server hangs, s": Goal(most=2.0),
    "draining, samples/s": Goal(least=20_000),
    "draining, CPU µs a sample": Goal(most=30),
    "import, CPU ms": Goal(most=50, below_peers=True),
}


def _peers(row: Figures) -> Figures:
    return {name: value for name, value in row.items() if name not in {OURS, FLOOR}}


def show(results: Results, names: Sequence[str]) -> Table:
    """Lay the figures out."""
    columns = [OURS, FLOOR, "redis", *(name for name in names if name != OURS)]
    table = Table("", "goal", "", *columns, "best peer / ours")
    for row, figures in results.table.items():
        goal = GOALS.get(row)
        met = "" if goal is None else "[green]yes" if goal.met(figures) else "[red]no"
        shown = [f"{figures[name]:,.3g}" if name in figures else "–" for name in columns]
        shown = [text if "e" not in text else f"{float(text):,.0f}" for text in shown]
        peers = _peers(figures)
        ratio = (
            f"{min(peers.values()) / figures[OURS]:,.1f}×" if peers and figures[OURS] > 0 else ""
        )
        table.add_row(row, str(goal or ""), met, *shown, ratio)
    return table
