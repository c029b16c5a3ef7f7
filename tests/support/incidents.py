"""Simulated incidents among fifty segments: one is guilty, or all change alike."""

from __future__ import annotations

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
    all_times: float = 1.0
    n_after: int = 3_000
    unequal: bool = True  #: segments have shares of the traffic that differ much


def explain(rng: np.random.Generator, incident: Incident) -> tuple[str, list[str]]:
    """Simulate one incident; return the guilty segment, and those that were named."""
    shares = rng.dirichlet(np.full(SEGMENTS, 3.0 if incident.unequal else 1e6))
    rates = rng.uniform(0.85, 0.97, SEGMENTS)
    guilty = int(rng.choice(np.flatnonzero(shares > LEAST_SHARE)))
    worse = rates * incident.all_times
    if incident.guilty_rate is not None:
        worse[guilty] = incident.guilty_rate
    before = _period(rng, shares, rates, 20_000)
    after = _period(rng, shares, worse, incident.n_after)
    roots = [sum(period.values(), start=Tally()) for period in (before, after)]
    found = explain_change(before, after, root_before=roots[0], root_after=roots[1])
    return _name(guilty), [item.segment for item in found.named] if found else []


def _period(
    rng: np.random.Generator, shares: np.ndarray, rates: np.ndarray, n: int
) -> dict[str, Tally]:
    sizes = rng.multinomial(n, shares)
    passed = [rng.binomial(size, rate) for size, rate in zip(sizes, rates, strict=True)]
    return {
        _name(k): Tally(n=size, passed=y, sum_w=size, sum_w2=size, sum_wy=y, sum_w2y=y)
        for k, (size, y) in enumerate(zip(sizes.tolist(), map(int, passed), strict=True))
    }


def _name(k: int) -> str:
    return f"route=r{k:02}"
