"""
Whether a release that is live is worse than the one before it: ok, worse, or not yet known.

``worse``: the pass rate has fallen, and by more than the allowed drop as far as is known.
``ok``: the drop is certainly less than the allowed one. Both hold at every look: however often one
asks, a release that did not fall is ever called worse with a probability of at most alpha, and one
that fell by the allowed drop or more is ever called ok with a probability of at most alpha.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import StrEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from monitor.rolling.tallies import PassCounts
from monitor.stats.two_rates import Blocks, drop_evidence, expected_gain, no_drop_evidence

Floats = NDArray[np.float64]

ALPHA: Final = 0.02
#: Falls that are bet on, in allowed drops; and how far below the allowed drop.
_FALLS: Final = (2.0, 4.0, 8.0)
_REST: Final = (1.0, 2.0)
#: So many samples of the release before, for each of the new one: more would add little.
_MOST_BEFORE: Final = 4.0
_HALVINGS: Final = 8
_MOST_MORE: Final = 10_000_000


class ReleaseStatus(StrEnum):
    """What is known of a release."""

    OK = "ok"
    WORSE = "worse"
    NOT_YET = "not yet"


class ReleaseVerdict(BaseModel):
    """One metric of a release against the one before; rates in [0, 1], a drop is before - after."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    metric: str
    status: ReleaseStatus
    before: float | None = Field(None, ge=0.0, le=1.0)
    after: float | None = Field(None, ge=0.0, le=1.0)
    n_before: int = Field(ge=0)
    n_after: int = Field(ge=0)
    drop_low: float = Field(-1.0, description="Bounds on the drop that hold at every look.")
    drop_high: float = 1.0
    max_drop: float
    alpha: float
    more_n: int | None = Field(
        None, description="About so many more samples of the release decide, if the rates go on."
    )


def pair_blocks(before: PassCounts, after: PassCounts) -> Blocks:
    """
    Pair the buckets of two releases to blocks, one for each bucket of the later release.

    Where both ran at the same time, a block has both sides of one bucket, so that no time of day
    is mistaken for a release. What a release counted before the next one began is used up from its
    newest bucket backwards: four samples for each new one at first, then fewer, so that some are
    always left. What is paired with a bucket never depends on later ones, nor on what passed.
    """
    begun_s = int(after.start_s[0]) if after.start_s.size else 0
    rows_before = [(int(s), float(passed), float(n)) for s, passed, n in zip(*before, strict=True)]
    past = [(passed, n) for s, passed, n in rows_before if s < begun_s]
    at_once = {s: (passed, n) for s, passed, n in rows_before if s >= begun_s}
    rows: list[tuple[float, float, float, float]] = []
    in_all, seen, used, beside = sum(n for _, n in past), 0.0, 0.0, 0.0
    for start_s, passed, n in zip(*after, strict=True):
        s, m = at_once.get(int(start_s), (0.0, 0.0))
        seen, beside = seen + float(n), beside + m
        wanted = max(0.0, _MOST_BEFORE * seen - beside)
        while past and used < in_all * wanted / (wanted + in_all):
            more_s, more_m = past.pop()
            s, m, used = s + more_s, m + more_m, used + more_m
        rows.append((s, m, float(passed), float(n)))
    columns = np.array(rows).reshape(-1, 4).T
    return Blocks(*columns)


def judge_release(
    metric: str,
    before: PassCounts,
    after: PassCounts,
    *,
    max_drop: float,
    alpha: float = ALPHA,
) -> ReleaseVerdict:
    """
    Judge a release by its closed buckets and those of the release before.

    Parameters
    ----------
    metric
        Its name.
    before, after
        What passed; sizes need not be whole where samples are worth less than one.
    max_drop
        The drop that is allowed, in (0, 1).
    alpha
        Probability of each kind of false verdict, over all looks.

    Notes
    -----
    No test can find a fall from 90 % to 80 % in fewer than ln(1/alpha) / 0.020 = 196 samples a side
    on average at alpha = 2 %; with four samples before for each new one, in 115 new ones.
    """
    blocks = pair_blocks(before, after)
    rates = [
        float(side.passed.sum() / side.n.sum()) if side.n.sum() > 0 else None
        for side in (before, after)
    ]
    made = ReleaseVerdict(
        metric=metric, status=ReleaseStatus.NOT_YET, before=rates[0], after=rates[1],
        n_before=round(before.n.sum()), n_after=round(after.n.sum()),
        max_drop=max_drop, alpha=alpha,
    )  # fmt: skip
    if rates[0] is None or rates[1] is None:
        return made
    needed = math.log(1 / alpha)

    def fell(above: float) -> Floats:
        bets = [above + part * max_drop for part in _FALLS]
        return np.asarray(np.maximum.accumulate(drop_evidence(blocks, above=above, bets=bets)))

    def stayed(below: float) -> Floats:
        bets = [below - part * max_drop for part in _REST]
        return np.asarray(np.maximum.accumulate(no_drop_evidence(blocks, below=below, bets=bets)))

    passed_before, all_before, passed_after, all_after = (np.cumsum(one) for one in blocks)
    with np.errstate(divide="ignore", invalid="ignore"):
        drops = passed_before / all_before - passed_after / all_after
    worse = (fell(0.0) >= needed) & (drops > max_drop)
    ok = stayed(max_drop) >= needed
    found: dict[str, object] = {}
    if worse.any() or ok.any():
        first_worse = int(np.argmax(worse)) if worse.any() else len(worse)
        first_ok = int(np.argmax(ok)) if ok.any() else len(ok)
        found["status"] = ReleaseStatus.WORSE if first_worse < first_ok else ReleaseStatus.OK
    else:
        is_worse = rates[0] - rates[1] > max_drop
        gained = fell(0.0)[-1] if is_worse else stayed(max_drop)[-1]
        ratio = min(_MOST_BEFORE, float(blocks.n_before.sum() / blocks.n_after.sum()))
        gain = expected_gain(rates[0], rates[1], null=0.0 if is_worse else max_drop, ratio=ratio)
        if gain > 0 and (more := math.ceil((needed - gained) / gain)) < _MOST_MORE:
            found["more_n"] = max(1, more)
    drop = rates[0] - rates[1]
    found["drop_low"] = _edge(lambda at: fell(at)[-1] >= needed, -1.0, drop)
    found["drop_high"] = _edge(lambda at: stayed(at)[-1] >= needed, 1.0, drop)
    return made.model_copy(update=found)


def _edge(refuted: Callable[[float], bool], outside: float, inside: float) -> float:
    """Halve [outside, inside] until the edge of the drops that are refuted is found."""
    if not refuted(outside):
        return outside
    for _ in range(_HALVINGS):
        middle = (outside + inside) / 2
        if refuted(middle):
            outside = middle
        else:
            inside = middle
    return outside
