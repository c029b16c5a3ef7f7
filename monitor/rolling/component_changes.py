"""
Which part of an app changed when its answers got worse: release, model, prompt, retriever or judge.

Every value that most samples gained is a hypothesis: with it, answers pass at another rate. It
competes with "nothing changed", and with "something changed at a time that no value names", which
is what a deploy an hour beside the fall loses against.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, logsumexp

from monitor.models.insight import ComponentChange, ScoredExchange
from monitor.stats.intervals import newcombe_interval

#: Parts of an app that a release may exchange, by the names of their tags; and what judges it.
COMPONENTS: Final = ("release", "model", "prompt_version", "retriever", "index", "judge")
#: A component changed where a value's share of the samples grew by so much.
_CHANGED_SHARE: Final = 0.5
#: Parts of which one is at fault where contexts, or answers to good contexts, got worse.
_OF_CAUSE: Final = {
    "retrieval": ("retriever", "index"), "generation": ("model", "prompt_version", "judge"),
}  # fmt: skip
_NONE, _UNNAMED = 0.3, 0.2


def component_changes(
    before: Sequence[ScoredExchange], after: Sequence[ScoredExchange], cause: str = ""
) -> list[ComponentChange]:
    """
    Return what changed, the likeliest first.

    Posterior of hypotheses about who passes at which rate: all alike (prior 0.3), two rates before
    and after any one time (0.2), or without and with one value (0.5, shared over values), where
    rates have uniform priors. Values that came together share a hypothesis; of those, *cause*
    (retrieval, generation) chooses the parts that bring it, and a release stands for its parts.

    Valid where samples are independent and the rate changed once. A change at the very time of
    another cause, which no value names, cannot be distinguished from it.

    Source: R. E. Kass, A. E. Raftery, "Bayes factors", JASA 90 (1995), 773-795.
    """
    if not before or not after:
        return []
    samples = sorted((*before, *after), key=lambda each: each.at)
    passed = np.array([each.passed for each in samples], dtype=np.float64)
    found: list[tuple[str, str, float, float, NDArray[np.bool_]]] = []
    for component in COMPONENTS:
        sides = [Counter(_value(each, component) for each in side) for side in (before, after)]
        for value, n in sides[1].items():
            was, now = sides[0][value] / len(before), n / len(after)
            if value and now - was >= _CHANGED_SHARE:
                has = np.array([_value(each, component) == value for each in samples])
                found.append((component, value, was, now, has))
    sure = _confidences([one[4] for one in found], passed)
    changes = []
    for i, (component, value, was, now, has) in enumerate(found):
        together = [one[0] for one in found if np.array_equal(one[4], has)]
        mine = [each for each in together if each in _OF_CAUSE.get(cause, ())]
        mine = mine or [each for each in together if each != "release"] or together
        part = sure[i] / len(mine) if component in mine else 0.0
        without, with_it = ((float(passed[of].sum()), int(of.sum())) for of in (~has, has))
        change = with_it[0] / with_it[1] - without[0] / without[1]
        bounds = newcombe_interval(without, with_it, alpha=0.1)
        changes.append(ComponentChange(component, value, was, now, change, *bounds, part))
    return sorted(changes, key=lambda each: -each.confidence)


def _value(each: ScoredExchange, component: str) -> str | None:
    if component == "judge":
        return each.evaluation.evaluator_version
    of: Mapping[str, str] = each.interaction.tags
    return (each.interaction.release if component == "release" else None) or of.get(component)


def _confidences(splits: Sequence[NDArray[np.bool_]], passed: NDArray[np.float64]) -> list[float]:
    """Return the posterior of each split, of those alike the same; 0 where it brought no fall."""
    n, total = passed.size, passed.sum()
    upto, counts = np.cumsum(passed)[:-1], np.arange(1, n)
    times = betaln(1 + upto, 1 + counts - upto) + betaln(
        1 + total - upto, 1 + (n - counts) - (total - upto)
    )
    names = [split.tobytes() for split in splits]
    logs = {}
    for name, split in zip(names, splits, strict=True):
        with_it, without = passed[split], passed[~split]
        if without.size and with_it.mean() < without.mean():
            logs[name] = sum(betaln(1 + p.sum(), 1 + (1 - p).sum()) for p in (with_it, without))
    prior = np.log((1.0 - _NONE - _UNNAMED) / max(1, len(set(names))))
    rest = [
        np.log(_NONE) + betaln(1 + total, 1 + n - total),
        np.log(_UNNAMED) + logsumexp(times) - np.log(times.size),
    ]
    whole = logsumexp([*rest, *(prior + log for log in logs.values())])
    return [float(np.exp(prior + logs[name] - whole)) if name in logs else 0.0 for name in names]
