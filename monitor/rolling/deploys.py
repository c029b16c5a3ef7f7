"""Before and after a deploy."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final, Literal, NamedTuple

import numpy as np

from monitor.models import Tally
from monitor.models.insight import Deploy
from monitor.rolling.windows import window_stats
from monitor.stats.changepoint import locate_change
from monitor.stats.differences import exact_interval, newcombe_interval
from monitor.stats.sequences import anytime_interval

_ALPHA: Final = 0.05
#: So strong must the evidence of a change be before a time is given for it.
_EVIDENCE: Final = 3.0

Decision = Literal["worse", "better", "not decided", "no data"]


class Mark(NamedTuple):
    """A release and when it went out, as someone said or as the samples' tag shows."""

    release: str
    at_s: float
    source: Literal["mark", "tag"]
    note: str = ""


class Step(NamedTuple):
    """One bucket of a series: its start in epoch seconds, and its sums."""

    start_s: int
    tally: Tally


def judge_deploy(
    mark: Mark,
    before: Tally,
    after: Tally,
    *,
    around: list[Step],
    design_effect: float = 1.0,
) -> Deploy:
    """
    Compare the pass rates before and after a deploy.

    The interval of the difference is for one look. The decision rests on other bounds, an
    exact one before, whose data are complete, and one after that stays valid however often
    one looks: together they are wrong with a probability of at most 5 %.

    Parameters
    ----------
    mark
        The deploy.
    before, after
        Sums of the stretches before and since.
    around
        Buckets on both sides, in order, in which the change itself is located.
    design_effect
        At least 1; by how much correlation within sessions inflates the variance.
    """
    at = datetime.fromtimestamp(mark.at_s, UTC)
    told = {"release": mark.release, "at": at, "source": mark.source, "note": mark.note}
    old, new = (_counts(tally, design_effect) for tally in (before, after))
    if old is None or new is None:
        sides = {
            "rate_before": _rate(old),
            "rate_after": _rate(new),
            "n_before": 0.0 if old is None else old[1],
            "n_after": 0.0 if new is None else new[1],
        }
        return Deploy.model_validate(told | sides | {"verdict": "no data"})
    difference = newcombe_interval(old, new, alpha=_ALPHA)
    figures = {
        "rate_before": _rate(old),
        "rate_after": _rate(new),
        "n_before": old[1],
        "n_after": new[1],
        "difference": new[0] / new[1] - old[0] / old[1],
        "low": difference.low,
        "high": difference.high,
        "verdict": _decide(old, new),
    }
    return Deploy.model_validate(told | figures | _change(around, old, design_effect))


def _decide(old: tuple[float, float], new: tuple[float, float]) -> Decision:
    was = exact_interval(*old, alpha=_ALPHA / 2)
    now = anytime_interval(*new, alpha=_ALPHA / 2)
    if now.high < was.low:
        return "worse"
    return "better" if now.low > was.high else "not decided"


def _change(
    around: list[Step], old: tuple[float, float], design_effect: float
) -> dict[str, datetime]:
    if not around:
        return {}
    counts = [_counts(step.tally, design_effect) or (0.0, 0.0) for step in around]
    passed, n = (np.array(column) for column in zip(*counts, strict=True))
    found = locate_change(passed, n, reference_passed=old[0], reference_n=old[1])
    if found is None or found.evidence < _EVIDENCE:
        return {}
    moments = (around[found.bucket], around[found.low], around[found.high])
    names = ("change_at", "change_low", "change_high")
    return {
        name: datetime.fromtimestamp(step.start_s, UTC)
        for name, step in zip(names, moments, strict=True)
    }


def _counts(tally: Tally, design_effect: float) -> tuple[float, float] | None:
    window = window_stats(tally)
    if window.pass_rate is None:
        return None
    n = window.n_effective / design_effect
    return window.pass_rate * n, n


def _rate(counts: tuple[float, float] | None) -> float | None:
    return None if counts is None else counts[0] / counts[1]
