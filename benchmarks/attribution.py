"""
Measure the attribution: python benchmarks/attribution.py [--runs 400] [--seed 1].

Incidents are simulated with fifty segments of unequal size and pass rate. In some one is
guilty; in others all change alike, or nothing does. Told are the shares in which the guilty
one is named first, and in which nobody is named where nobody should be.
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

import numpy as np

from monitor.models import Tally
from monitor.rolling.attribution import explain_change

SEGMENTS = 50
#: A guilty segment has at least this share of the traffic.
LEAST_SHARE = 0.01


class Incident(NamedTuple):
    """What happens: the guilty segment's rate if there is one, and what all rates times."""

    guilty_rate: float | None
    all_times: float
    n_after: int
    shares: str


def simulate(rng: np.random.Generator, incident: Incident) -> tuple[bool, bool]:
    """Simulate one incident: was the guilty one first, and was nobody named at all?"""
    concentration = 3.0 if incident.shares == "unequal" else 1e6
    shares = rng.dirichlet(np.full(SEGMENTS, concentration))
    rates = rng.uniform(0.85, 0.97, SEGMENTS)
    guilty = int(rng.choice(np.flatnonzero(shares > LEAST_SHARE)))
    after_rates = rates * incident.all_times
    if incident.guilty_rate is not None:
        after_rates[guilty] = incident.guilty_rate
    before, after = (
        _period(rng, shares, r, n) for r, n in ((rates, 20_000), (after_rates, incident.n_after))
    )
    found = explain_change(
        before,
        after,
        root_before=sum(before.values(), start=Tally()),
        root_after=sum(after.values(), start=Tally()),
    )
    named = [item.segment for item in found.named] if found else []
    return named[:1] == [_name(guilty)], not named


def _period(
    rng: np.random.Generator, shares: np.ndarray, rates: np.ndarray, n: int
) -> dict[str, Tally]:
    sizes = rng.multinomial(n, shares)
    passed = rng.binomial(sizes, rates)
    return {
        _name(k): Tally(n=size, passed=y, sum_w=size, sum_w2=size, sum_wy=y, sum_w2y=y)
        for k, (size, y) in enumerate(zip(sizes.tolist(), passed.tolist(), strict=True))
    }


def _name(k: int) -> str:
    return f"route=r{k:02}"


def main() -> None:
    """Run all incidents and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    print("| shares | scores since | guilty rate | all rates | named first | nobody named |")
    print("|---|--:|--:|--:|--:|--:|")
    for shares in ("equal", "unequal"):
        for n_after in (1000, 2000, 5000):
            for guilty, times in (
                (0.2, 1),
                (0.4, 1),
                (0.6, 1),
                (None, 1),
                (None, 0.8),
                (None, 0.6),
            ):
                incident = Incident(guilty, times, n_after, shares)
                found = [simulate(rng, incident) for _ in range(options.runs)]
                first, nobody = (np.mean([item[k] for item in found]) for k in (0, 1))
                told = f"{first:.3f}" if guilty is not None else "–"
                cells = (shares, n_after, guilty or "–", f"× {times}", told, f"{nobody:.3f}")
                print(f"| {' | '.join(str(cell) for cell in cells)} |")


if __name__ == "__main__":
    main()
