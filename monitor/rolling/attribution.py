"""What explains that a pass rate changed: segments, or a deploy."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal, NamedTuple

import numpy as np

from monitor.models import Tally
from monitor.models.insight import Deploy, SegmentEffect
from monitor.rolling.tallies import PassCounts, total, window_stats
from monitor.stats.changepoint import locate_change
from monitor.stats.intervals import (
    anytime_bounds,
    exact_interval,
    newcombe_interval,
    predictive_tail,
)
from monitor.stats.multiplicity import benjamini_hochberg

#: Share of wrong names among those given; when no segment differs, the chance to name any.
_Q: Final = 0.02
#: A segment is considered with so many scores before and after, and this share of the traffic.
_LEAST_BEFORE, _LEAST_AFTER, _LEAST_SHARE = 30.0, 5.0, 0.005
#: What is named explains this part of the change, and moves the whole by this much.
_LEAST_EXPLAINED, _LEAST_EFFECT = 0.15, 0.002
_MOST_NAMED = 5
_WEIGHTS: Final = ("sum_w", "sum_w2")
#: The segment of what has no value in a dimension.
NONE = "(none)"


class Rate(NamedTuple):
    """A weighted pass rate: effective size, traffic, rate, and the variance of the rate."""

    n: float
    traffic: float
    rate: float
    variance: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentExplanation:
    """A change and what explains it; ``named`` is in order, the surest first."""

    before: Rate
    after: Rate
    named: Sequence[SegmentEffect]
    considered: int
    mix: Mapping[str, float]
    mix_shift: Sequence[str]
    simpson: Sequence[str]


class Group(NamedTuple):
    """
    One segment before and after: share of the traffic, pass rate, variance of the rate.

    A rate is None where the segment had no score.
    """

    share_before: float
    share_after: float
    rate_before: float | None
    rate_after: float | None
    variance_before: float = 0.0
    variance_after: float = 0.0


class Part(NamedTuple):
    """What one segment adds: by its own rate, with the standard error of that, and by its share."""

    rate: float
    rate_error: float
    mix: float


def kitagawa(groups: Sequence[Group]) -> list[Part]:
    """
    Split the change of an overall rate over all segments of one dimension, in their order.

    The parts add up to the change, exactly, as shares before add up to 1 and those after do. A
    segment that is there only before or after counts with its share alone, as if its rate had been
    the same.

    References
    ----------
    .. [1] E. M. Kitagawa, "Components of a difference between two rates", JASA 50 (1955),
       1168-1194.

    Examples
    --------
    >>> part, _ = kitagawa([Group(0.5, 0.5, 0.9, 0.5), Group(0.5, 0.5, 0.9, 0.9)])
    >>> round(part.rate, 3), abs(part.mix)
    (-0.2, 0.0)
    """
    share = np.array([group[:2] for group in groups])
    rate = np.array([group[2:4] for group in groups], dtype=np.float64)
    rate = np.nan_to_num(np.where(np.isnan(rate), rate[:, ::-1], rate))
    error = np.sqrt([group.variance_before + group.variance_after for group in groups])
    overall = (share * rate).sum() / 2
    mean_share = share.mean(axis=1)
    mix = np.diff(share)[:, 0] * (rate.mean(axis=1) - overall)
    columns = mean_share * np.diff(rate)[:, 0], mean_share * error, mix
    return [Part(*row) for row in np.stack(columns, axis=1).tolist()]


class _Candidate(NamedTuple):
    segment: str
    group: Group
    part: Part
    before: Rate
    after: Rate
    log_p: float
    excess: float


class SegmentChange(NamedTuple):
    """One segment before and now, and its part of the change of the whole, None without a past."""

    segment: str
    before: Rate
    now: Rate
    share_before: float
    share_now: float
    part: Part | None


def explain_change(
    before: Mapping[str, Tally],
    after: Mapping[str, Tally],
    *,
    root_before: Tally,
    root_after: Tally,
    design_effect: float = 1.0,
) -> SegmentExplanation | None:
    """
    Find the segments that explain why the pass rate of the whole changed.

    Each segment is compared with what would be expected had it changed as the rest of its
    dimension did, by difference, by ratio of passes and by ratio of failures, whichever
    makes it look least guilty: what happens everywhere is not the fault of one segment. Of those
    that changed more than that, in the direction of the whole, the error rate is controlled
    over all segments of all dimensions together.

    *before* and *after* are tallies by segment, ``dimension=value``; the values of a dimension are
    parts of the whole, and what is missing to the whole is its part without a value. None when one
    of the wholes has no score.
    """
    whole = _rate(root_before, design_effect), _rate(root_after, design_effect)
    if whole[0].n <= 0 or whole[1].n <= 0:
        return None
    change = whole[1].rate - whole[0].rate
    # A rise that may be chance can hide the fall of a small segment.
    falls = change <= 2 * _error(whole)
    candidates: list[_Candidate] = []
    mix: dict[str, float] = {}
    shifted: list[str] = []
    reversed_: list[str] = []
    for dimension, names in sorted(_by_dimension([*before, *after]).items()):
        rates = _rates(dimension, names, (before, after), (root_before, root_after), design_effect)
        groups = {name: _group(pair, whole) for name, pair in rates.items()}
        parts = dict(zip(groups, kitagawa(list(groups.values())), strict=True))
        mix[dimension] = sum(part.mix for part in parts.values())
        certain, sign = abs(change) > 2 * _error(whole), math.copysign(1.0, change)
        if certain and sign * mix[dimension] > abs(change) / 2:
            # Shares explain most of it: name the segment whose share did most.
            shifted.append(max(parts, key=lambda name: sign * parts[name].mix))
        rate = sum(part.rate for part in parts.values())
        error = math.sqrt(sum(part.rate_error**2 for part in parts.values()))
        if certain and rate * change < 0 and abs(rate) > 2 * error:
            # The segments went one way and the whole the other, both beyond chance.
            reversed_.append(dimension)
        candidates += _candidates(rates, groups, parts, falls=falls)
    beyond_chance = benjamini_hochberg([math.exp(item.log_p) for item in candidates], _Q)
    least = max(_LEAST_EFFECT, _LEAST_EXPLAINED * abs(change))
    guilty = [
        item
        for item, is_named in zip(candidates, beyond_chance, strict=True)
        if is_named and abs(item.excess) >= least
    ]
    guilty.sort(key=lambda item: (item.log_p, item.segment))
    return SegmentExplanation(
        before=whole[0],
        after=whole[1],
        named=[_effect(item, change) for item in guilty[:_MOST_NAMED]],
        considered=len(candidates),
        mix=mix,
        mix_shift=shifted,
        simpson=reversed_,
    )


def segment_changes(
    before: Mapping[str, Tally],
    now: Mapping[str, Tally],
    *,
    root_before: Tally,
    root_now: Tally,
) -> list[SegmentChange]:
    """
    List every segment with its part of the change, guilty or not; the largest parts first.

    The parts of one dimension add up to the change of the whole, and when there was nothing before,
    no segment has one. They are figures, not findings: some part is always the largest.
    """
    whole = _rate(root_before, 1.0), _rate(root_now, 1.0)
    if whole[1].n <= 0:
        return []
    if whole[0].n <= 0:
        whole = whole[1], whole[1]
    found: list[SegmentChange] = []
    for dimension, names in _by_dimension([*before, *now]).items():
        rates = _rates(dimension, names, (before, now), (root_before, root_now), 1.0)
        groups = {name: _group(pair, whole) for name, pair in rates.items()}
        parts = kitagawa(list(groups.values())) if root_before.n else [None] * len(groups)
        found += [
            SegmentChange(name, *rates[name], group.share_before, group.share_after, part)
            for (name, group), part in zip(groups.items(), parts, strict=True)
        ]

    def largest_first(item: SegmentChange) -> tuple[float, float, str]:
        part = abs(item.part.rate + item.part.mix) if item.part else 0.0
        return -part, -item.share_now, item.segment

    return sorted(found, key=largest_first)


def _candidates(
    rates: Mapping[str, tuple[Rate, Rate]],
    groups: Mapping[str, Group],
    parts: Mapping[str, Part],
    *,
    falls: bool,
) -> Iterator[_Candidate]:
    for segment, (before, after) in rates.items():
        share = max(groups[segment].share_before, groups[segment].share_after)
        if after.n < _LEAST_AFTER or share < _LEAST_SHARE:
            continue
        rest = tuple(_sum(r[k] for name, r in rates.items() if name != segment) for k in (0, 1))
        if rest[1].n <= 0:
            continue
        old = before if before.n >= _LEAST_BEFORE else None
        log_p, expected = _surprise(old, after, (rest[0], rest[1]), falls=falls)
        excess = groups[segment].share_after * (after.rate - expected)
        if (excess < 0) == falls:
            yield _Candidate(segment, groups[segment], parts[segment], before, after, log_p, excess)


def _surprise(
    before: Rate | None, after: Rate, rest: tuple[Rate, Rate], *, falls: bool
) -> tuple[float, float]:
    """
    Tell how unlikely the rate is, as a logarithm, and which one was expected.

    A segment without a past is expected to be as the others are now.
    """
    if not falls:
        turned = None if before is None else _turn(before)
        log_p, expected = _surprise(
            turned, _turn(after), (_turn(rest[0]), _turn(rest[1])), falls=True
        )
        return log_p, 1 - expected
    if before is None or rest[0].n <= 0:
        expected, variance = rest[1].rate, rest[1].variance
    else:
        expected = _expected(before.rate, rest[0].rate, rest[1].rate)
        variance = before.variance + rest[0].variance + rest[1].variance
    expected = min(1 - 1e-4, max(1e-4, expected))
    size = max(2.0, expected * (1 - expected) / max(variance, 1e-9) - 1)
    return predictive_tail(after.rate * after.n, after.n, mean=expected, size=size), expected


def _expected(rate: float, rest_before: float, rest_after: float) -> float:
    """Say what the rate would be had it changed as the rest did; the least of three ways."""
    change = rest_after - rest_before
    passes = rate * rest_after / rest_before if rest_before > 0 else rate
    failures = 1 - (1 - rate) * (1 - rest_after) / (1 - rest_before) if rest_before < 1 else rate
    return min(rate + change, passes, failures) if change < 0 else rate


def _error(whole: tuple[Rate, Rate]) -> float:
    return math.sqrt(whole[0].variance + whole[1].variance)


def _rates(
    dimension: str,
    names: Sequence[str],
    periods: tuple[Mapping[str, Tally], Mapping[str, Tally]],
    roots: tuple[Tally, Tally],
    design_effect: float,
) -> dict[str, tuple[Rate, Rate]]:
    """Give each segment's rates, and those of what has no value in this dimension."""
    tallies = {name: tuple(p.get(name, Tally()) for p in periods) for name in names}
    rest = []
    for k, root in enumerate(roots):
        parts = total(pair[k] for pair in tallies.values())
        left = {name: max(0.0, getattr(root, name) - getattr(parts, name)) for name in _WEIGHTS}
        rest.append(Tally(n=max(0, root.n - parts.n), sum_wy=root.sum_wy - parts.sum_wy, **left))
    if rest[0].n > 0 or rest[1].n > 0:
        tallies[f"{dimension}={NONE}"] = tuple(rest)
    return {
        name: (_rate(pair[0], design_effect), _rate(pair[1], design_effect))
        for name, pair in tallies.items()
    }


def _group(pair: tuple[Rate, Rate], whole: tuple[Rate, Rate]) -> Group:
    before, after = pair
    return Group(
        before.traffic / whole[0].traffic,
        after.traffic / whole[1].traffic,
        before.rate if before.n > 0 else None,
        after.rate if after.n > 0 else None,
        before.variance,
        after.variance,
    )


def _rate(tally: Tally, design_effect: float) -> Rate:
    if tally.n <= 0 or tally.sum_w <= 0:
        return Rate(0.0, 0.0, 0.0, 0.0)
    n = min(float(tally.n), tally.sum_w**2 / tally.sum_w2) / design_effect
    rate = min(1.0, max(0.0, tally.sum_wy / tally.sum_w))
    shrunk = (rate * n + 0.5) / (n + 1)
    return Rate(n, tally.sum_w, rate, shrunk * (1 - shrunk) / n)


def _sum(rates: Iterator[Rate]) -> Rate:
    """Join segments to one rate, each with its share of the traffic."""
    found = [rate for rate in rates if rate.n > 0]
    traffic = sum(rate.traffic for rate in found)
    if traffic <= 0:
        return Rate(0.0, 0.0, 0.0, 0.0)
    return Rate(
        sum(rate.n for rate in found),
        traffic,
        sum(rate.traffic * rate.rate for rate in found) / traffic,
        sum((rate.traffic / traffic) ** 2 * rate.variance for rate in found),
    )


def _turn(rate: Rate) -> Rate:
    return rate._replace(rate=1 - rate.rate)


def _by_dimension(segments: Sequence[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for segment in dict.fromkeys(segments):
        dimension, _, value = segment.partition("=")
        if value:
            found[dimension].append(segment)
    return found


def _effect(item: _Candidate, change: float) -> SegmentEffect:
    half = 1.96 * item.part.rate_error
    return SegmentEffect(
        segment=item.segment,
        n_before=item.before.n,
        n_after=item.after.n,
        share_before=item.group.share_before,
        share_after=item.group.share_after,
        rate_before=item.group.rate_before,
        rate_after=item.group.rate_after,
        rate_effect=item.part.rate,
        mix_effect=item.part.mix,
        low=item.part.rate - half,
        high=item.part.rate + half,
        explains=item.excess / change if change else 0.0,
        p_value=math.exp(item.log_p),
        named=True,
    )


_ALPHA: Final = 0.05
#: So strong must the evidence of a change be before a time is given for it.
_EVIDENCE: Final = 3.0


class Mark(NamedTuple):
    """A release and when it went out, as someone said or as the samples' tag shows."""

    release: str
    at_s: float
    source: Literal["mark", "tag"]
    note: str = ""


def judge_deploy(
    mark: Mark,
    before: Tally,
    after: Tally,
    *,
    around: PassCounts,
    design_effect: float = 1.0,
) -> Deploy:
    """
    Compare the pass rates before and after a deploy.

    The interval of the difference is for one look. The decision is based on other bounds, an
    exact one before, whose data are complete, and one after that stays valid however often
    one looks: together they are wrong with a probability of at most 5 %.

    *before* and *after* are the sums of the stretches before and since; *around* are buckets on
    both sides, in which the change itself is located.
    """
    at = datetime.fromtimestamp(mark.at_s, UTC)
    told: dict[str, Any] = {
        "release": mark.release, "at": at, "source": mark.source, "note": mark.note
    }  # fmt: skip
    old, new = (window_stats(tally).counts(design_effect) for tally in (before, after))
    rates = [passed / n if n else None for passed, n in (old, new)]
    told |= {"rate_before": rates[0], "rate_after": rates[1], "n_before": old[1], "n_after": new[1]}
    if rates[0] is None or rates[1] is None:
        return Deploy.model_validate(told | {"verdict": "no data"})
    low, high = newcombe_interval(old, new, alpha=_ALPHA)
    was = exact_interval(*old, alpha=_ALPHA / 2)
    lowest, highest = anytime_bounds(*new, alpha=_ALPHA / 2)
    better = "better" if lowest > was.high else "not decided"
    told |= {"difference": rates[1] - rates[0], "low": low, "high": high}
    told |= {"verdict": "worse" if highest < was.low else better}
    change = locate_change(around.passed, around.n, reference_passed=old[0], reference_n=old[1])
    if change is not None and change.evidence >= _EVIDENCE:
        for name, k in (("at", change.bucket), ("low", change.low), ("high", change.high)):
            told[f"change_{name}"] = datetime.fromtimestamp(int(around.start_s[k]), UTC)
    return Deploy.model_validate(told)
