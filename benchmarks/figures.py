"""figures.json: what benchmarks measured here last, for the models that are made of it."""

from __future__ import annotations

import json
from pathlib import Path

FILE = Path(__file__).with_name("figures.json")

Figures = dict[str, dict[str, float]]


def read_figures() -> Figures:
    """Read all figures, by benchmark and name; names end in their unit."""
    found: Figures = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    return found


def keep_figures(benchmark: str, figures: dict[str, float]) -> None:
    """Replace the figures of these names."""
    whole = read_figures()
    whole[benchmark] = whole.get(benchmark, {}) | {
        name: float(f"{value:.4g}") for name, value in figures.items()
    }
    FILE.write_text(json.dumps(whole, indent=1, sort_keys=True) + "\n", encoding="utf-8")
