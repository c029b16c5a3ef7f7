"""What explains that a pass rate changed: segments, or a deploy; and when it began."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from typing import Any, Final, Literal, NamedTuple

import numpy as np

from monitor.models import Tally
from monitor.models.insight import Deploy, SegmentEffect
from monitor.rolling.tallies import PassCounts, window_stats
from monitor.stats.evidence import locate_change
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

    Source: E. M. Kitagawa, "Components of a difference between two rates", JASA 50 (1955),
    1168-1194.

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


class SegmentChange(NamedTuple):
    """One segment before and now, its shares of the traffic, and its part of the whole's change."""

    segment: str
    before: Rate
    now: Rate
    share_before: float
    share_now: float
    part: Part


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
    twice_error = 2 * math.sqrt(whole[0].variance + whole[1].variance)
    certain, sign = abs(change) > twice_error, math.copysign(1.0, change)
    # A rise that may be chance can hide the fall of a small segment.
    falls = change <= twice_error
    candidates: list[_Candidate] = []
    mix: dict[str, float] = {}
    shifted: list[str] = []
    reversed_: list[str] = []
    roots = root_before, root_after
    for dimension, segments in _dimensions((before, after), roots, design_effect).items():
        mix[dimension] = sum(each.part.mix for each in segments)
        if certain and sign * mix[dimension] > abs(change) / 2:
            # Shares explain most of the change: name the segment whose share contributed most.
            shifted.append(max(segments, key=lambda each: sign * each.part.mix).segment)
        rate = sum(each.part.rate for each in segments)
        error = math.hypot(*(each.part.rate_error for each in segments))
        if certain and rate * change < 0 and abs(rate) > 2 * error:
            # The segments went one way and the whole the other, both beyond chance.
            reversed_.append(dimension)
        candidates += _candidates(segments, falls=falls)
    beyond_chance = benjamini_hochberg([math.exp(item.log_p) for item in candidates], _Q)
    least = max(_LEAST_EFFECT, _LEAST_EXPLAINED * abs(change))
    guilty = [
        item
        for item, is_named in zip(candidates, beyond_chance, strict=True)
        if is_named and abs(item.excess) >= least
    ]
    guilty.sort(key=lambda item: (item.log_p, item.found.segment))
    return SegmentExplanation(
        before=whole[0],
        after=whole[1],
        named=[item.explained(change) for item in guilty[:_MOST_NAMED]],
        considered=len(candidates),
        mix=mix,
        mix_shift=shifted,
        simpson=reversed_,
    )


def segment_changes(
    before: Mapping[str, Tally], now: Mapping[str, Tally], *, root_before: Tally, root_now: Tally
) -> list[SegmentChange]:
    """
    List every segment with its part of the change, guilty or not; the largest parts first.

    The parts of one dimension add up to the change of the whole; without a past they say nothing.
    They are figures, not findings: some part is always the largest.
    """
    if root_now.n <= 0:
        return []
    found = _dimensions((before, now), (root_before, root_now), 1.0).values()

    def largest_first(item: SegmentChange) -> tuple[float, float, str]:
        part = abs(item.part.rate + item.part.mix) if root_before.n else 0.0
        return -part, -item.share_now, item.segment

    return sorted(chain.from_iterable(found), key=largest_first)


def _dimensions(
    periods: tuple[Mapping[str, Tally], Mapping[str, Tally]],
    roots: tuple[Tally, Tally],
    design_effect: float,
) -> dict[str, list[SegmentChange]]:
    """Return the segments of each dimension; one of them is what has no value in it."""
    whole = [root.sum_w or roots[1].sum_w for root in roots]
    named: dict[str, list[str]] = defaultdict(list)
    for segment in dict.fromkeys(chain(*periods)):
        dimension, _, value = segment.partition("=")
        if value:
            named[dimension].append(segment)
    found = {}
    for dimension, names in sorted(named.items()):
        tallies = {name: [period.get(name, Tally()) for period in periods] for name in names}
        rest = []
        for k, root in enumerate(roots):
            parts = Tally.total(pair[k] for pair in tallies.values())
            left = {name: max(0.0, getattr(root, name) - getattr(parts, name)) for name in _WEIGHTS}
            rest.append(
                Tally(n=max(0, root.n - parts.n), sum_wy=root.sum_wy - parts.sum_wy, **left)
            )
        if rest[0].n > 0 or rest[1].n > 0:
            tallies[f"{dimension}={NONE}"] = rest
        rates = [(_rate(a, design_effect), _rate(b, design_effect)) for a, b in tallies.values()]
        shares = [(old.traffic / whole[0], new.traffic / whole[1]) for old, new in rates]
        groups = [
            Group(
                *share,
                old.rate if old.n > 0 else None,
                new.rate if new.n > 0 else None,
                old.variance,
                new.variance,
            )
            for share, (old, new) in zip(shares, rates, strict=True)
        ]
        found[dimension] = [
            SegmentChange(name, *pair, *share, part)
            for name, pair, share, part in zip(
                tallies, rates, shares, kitagawa(groups), strict=True
            )
        ]
    return found


class _Candidate(NamedTuple):
    """A segment that may be guilty: how surprising its rate is, and by how much it is off."""

    log_p: float
    excess: float
    found: SegmentChange

    def explained(self, change: float) -> SegmentEffect:
        """Return what it did to a pass rate that changed by *change*."""
        found, part, half = self.found, self.found.part, 1.96 * self.found.part.rate_error
        return SegmentEffect(
            segment=found.segment,
            n_before=found.before.n,
            n_after=found.now.n,
            share_before=found.share_before,
            share_after=found.share_now,
            rate_before=found.before.rate if found.before.n > 0 else None,
            rate_after=found.now.rate if found.now.n > 0 else None,
            rate_effect=part.rate,
            mix_effect=part.mix,
            low=part.rate - half,
            high=part.rate + half,
            explains=self.excess / change if change else 0.0,
            p_value=math.exp(self.log_p),
            named=True,
        )


def _candidates(segments: Sequence[SegmentChange], *, falls: bool) -> Iterator[_Candidate]:
    for found in segments:
        share = max(found.share_before, found.share_now)
        if found.now.n < _LEAST_AFTER or share < _LEAST_SHARE:
            continue
        others = [other for other in segments if other is not found]
        rest = _sum(other.before for other in others), _sum(other.now for other in others)
        if rest[1].n <= 0:
            continue
        old = found.before if found.before.n >= _LEAST_BEFORE else None
        log_p, expected = _surprise(old, found.now, rest, falls=falls)
        excess = found.share_now * (found.now.rate - expected)
        if (excess < 0) == falls:
            yield _Candidate(log_p, excess, found)


def _surprise(
    before: Rate | None, after: Rate, rest: tuple[Rate, Rate], *, falls: bool
) -> tuple[float, float]:
    """
    Return how unlikely the rate is, as a logarithm, and which one was expected.

    A segment without a past is expected to be as the others are now, another one to have changed
    as the rest did: by difference, by passes or by failures, the least of the three.
    """
    if not falls:
        log_p, expected = _surprise(
            before and _turn(before), _turn(after), (_turn(rest[0]), _turn(rest[1])), falls=True
        )
        return log_p, 1 - expected
    if before is None or rest[0].n <= 0:
        expected, variance = rest[1].rate, rest[1].variance
    else:
        expected, (was, now) = before.rate, (each.rate for each in rest)
        variance = before.variance + rest[0].variance + rest[1].variance
        if now < was:
            failures = 1 - (1 - expected) * (1 - now) / (1 - was) if was < 1 else expected
            expected = min(expected + now - was, expected * now / was, failures)
    expected = min(1 - 1e-4, max(1e-4, expected))
    size = max(2.0, expected * (1 - expected) / max(variance, 1e-9) - 1)
    return predictive_tail(after.rate * after.n, after.n, mean=expected, size=size), expected


def _turn(rate: Rate) -> Rate:
    return rate._replace(rate=1 - rate.rate)


def _rate(tally: Tally, design_effect: float) -> Rate:
    if tally.n <= 0 or tally.sum_w <= 0:
        return Rate(0.0, 0.0, 0.0, 0.0)
    n = min(float(tally.n), tally.sum_w**2 / tally.sum_w2) / design_effect
    rate = min(1.0, max(0.0, tally.sum_wy / tally.sum_w))
    shrunk = (rate * n + 0.5) / (n + 1)
    return Rate(n, tally.sum_w, rate, shrunk * (1 - shrunk) / n)


def _sum(rates: Iterable[Rate]) -> Rate:
    """Join segments to one rate, each with its share of the traffic."""
    scored = np.array([each for each in rates if each.n > 0], dtype=np.float64).reshape(-1, 4)
    n, traffic, rate, variance = scored.T
    if (whole := float(traffic.sum())) <= 0:
        return Rate(0.0, 0.0, 0.0, 0.0)
    share = traffic / whole
    return Rate(float(n.sum()), whole, float(share @ rate), float(share**2 @ variance))


#: So strong must the evidence of a change be before a time is given for it.
_EVIDENCE: Final = 3.0


class ChangeOnset(NamedTuple):
    """When a change began, and the range that holds it with 95 %."""

    at: datetime
    low: datetime
    high: datetime


def locate_onset(
    buckets: PassCounts, *, reference: Tally, effect: float = 1.0
) -> ChangeOnset | None:
    """Locate one change of the pass rate in these buckets; None without strong evidence."""
    old_passed, old_n = window_stats(reference).counts(effect)
    found = locate_change(buckets.passed, buckets.n, reference_passed=old_passed, reference_n=old_n)
    if found is None or found.evidence < _EVIDENCE:
        return None
    places = (found.bucket, found.low, found.high)
    return ChangeOnset(*(datetime.fromtimestamp(int(buckets.start_s[k]), UTC) for k in places))


_ALPHA: Final = 0.05


class Mark(NamedTuple):
    """A release and when it went out, as someone said or as the samples' tag shows."""

    release: str
    at_s: float
    source: Literal["mark", "tag"]
    note: str = ""


def judge_deploy(
    mark: Mark, before: Tally, after: Tally, *, around: PassCounts, design_effect: float = 1.0
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
    fields: dict[str, Any] = {
        "release": mark.release, "at": at, "source": mark.source, "note": mark.note
    }  # fmt: skip
    old, new = (window_stats(tally).counts(design_effect) for tally in (before, after))
    rates = [passed / n if n else None for passed, n in (old, new)]
    fields |= {
        "rate_before": rates[0],
        "rate_after": rates[1],
        "n_before": old[1],
        "n_after": new[1],
    }
    if rates[0] is None or rates[1] is None:
        return Deploy.model_validate(fields | {"verdict": "no data"})
    low, high = newcombe_interval(old, new, alpha=_ALPHA)
    was = exact_interval(*old, alpha=_ALPHA / 2)
    lowest, highest = anytime_bounds(*new, alpha=_ALPHA / 2)
    better = "better" if lowest > was.high else "not decided"
    fields |= {"difference": rates[1] - rates[0], "low": low, "high": high}
    fields |= {"verdict": "worse" if highest < was.low else better}
    onset = locate_onset(around, reference=before, effect=design_effect)
    if onset is not None:
        fields |= {f"change_{name}": at for name, at in onset._asdict().items()}
    return Deploy.model_validate(fields)
