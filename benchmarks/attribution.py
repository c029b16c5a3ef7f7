"""
Measure the attribution: python benchmarks/attribution.py [--runs 400] [--seed 1].

Incidents are simulated with fifty segments of unequal size and pass rate. In some one is
guilty; in others all change alike, or nothing does. The table has the shares in which the
guilty one is named first, and in which nobody is named where nobody should be.
"""

from itertools import product

import numpy as np
from common import print_head, print_row, script

from support.incidents import Incident, explain

#: The guilty segment's rate, and what the rates of all are times.
CHANGES = ((0.2, 1.0), (0.4, 1.0), (0.6, 1.0), (None, 1.0), (None, 0.8), (None, 0.6))


@script
def main(*, runs: int = 400, seed: int = 1) -> None:
    """Print a row for each sort of incident."""
    rng = np.random.default_rng(seed)
    print_head("shares", "scores since", "guilty rate", "all rates", "named first", "nobody named")
    for unequal, n_after, (rate, times) in product((False, True), (1000, 2000, 5000), CHANGES):
        incident = Incident(rate, times, n_after, unequal)
        found = [explain(rng, incident) for _ in range(runs)]
        first = np.mean([named[:1] == [guilty] for guilty, named in found])
        nobody = np.mean([not named for _, named in found])
        print_row(
            "unequal" if unequal else "equal", n_after, rate or "–", f"× {times:g}",
            "–" if rate is None else f"{first:.3f}", f"{nobody:.3f}",
        )  # fmt: skip
