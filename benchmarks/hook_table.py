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


@dataclass
class Results:
    """The figures of one run, by measurement and SDK."""

    table: dict[str, Figures] = field(default_factory=dict)

    def add(self, row: str, name: str, values: Sequence[float | None]) -> None:
        """Note the median of several rounds."""
        known = [value for value in values if value is not None]
        if known:
            self.table.setdefault(row, {})[name] = statistics.median(known)


@dataclass(frozen=True)
class Goal:
    """What a figure of ours has to reach."""

    most: float = float("inf")
    least: float = 0.0
    times: float = 0.0  #: cheaper than OpenTelemetry, at least
    below_peers: bool = False
    above_floor: bool = False  #: what the machine itself takes is not counted

    def met(self, row: Figures) -> bool:
        """Say whether our figure reaches it."""
        ours, peers = row[OURS], _peers(row)
        above = ours - row[FLOOR] if self.above_floor else ours
        return (
            self.least <= above <= self.most
            and row.get("opentelemetry", float("inf")) >= self.times * ours
            and (not self.below_peers or all(ours < theirs for theirs in peers.values()))
        )

    def __str__(self) -> str:
        parts = [
            f"≤ {self.most:,g}" if self.most < float("inf") else "",
            "above the floor" if self.above_floor else "",
            f"≥ {self.least:,g}" if self.least else "",
            f"≥ {self.times:g}× OpenTelemetry" if self.times else "",
            "below all" if self.below_peers else "",
        ]
        return ", ".join(part for part in parts if part).replace(", above", " above")


GOALS = {
    "call, not sampled, ns": Goal(most=60, times=100),
    "call, sampled, ns": Goal(most=3_000, times=8),
    "decorator, not sampled, ns": Goal(most=120),
    f"p99.9 at {CALLS_PER_S} calls/s, delivering, µs": Goal(
        most=60, below_peers=True, above_floor=True
    ),
    "p99.9, server hangs, µs": Goal(most=200, above_floor=True),
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
        ratio = f"{min(peers.values()) / figures[OURS]:,.1f}×" if peers else ""
        table.add_row(row, str(goal or ""), met, *shown, ratio)
    return table
