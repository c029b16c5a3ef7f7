"""What explains a status, in sentences: nothing is said where nothing was found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from monitor.models.insight import (
    Attribution,
    Deploy,
    DriftComparison,
    DriftFigure,
    DriftFinding,
    InputDrift,
    Insight,
    SegmentEffect,
    Trend,
)
from monitor.report.format import number, percent, plain_text, points_with_interval, score, utc_time

_TESTS: Mapping[str, str] = {
    "ks": "Kolmogorov-Smirnov",
    "mann_whitney": "Mann-Whitney, P(higher)",
    "psi": "population stability index",
    "jensen_shannon": "Jensen-Shannon",
    "wasserstein": "Wasserstein, in s.d.",
    "cohens_d": "Cohen's d",
}
_FEATURES: Mapping[str, str] = {
    "query_chars": "length of the questions",
    "output_chars": "length of the answers",
    "contexts": "number of passages",
    "language": "language",
    "topic": "topic",
}
_EFFECTS = ("none", "small", "medium", "large")
_SURE, _VERY_SURE = 0.001, 1e-6
_MOST_FINDINGS, _MOST_NAMED = 5, 3


def insight_lines(insight: Insight, now: datetime) -> list[str]:
    """Write what explains a metric, a sentence a line; few or none while all is well."""
    found = [
        *_version(insight, now),
        *(_attribution(insight.attribution, now) if insight.attribution else ()),
        *(_finding(item, now) for item in _most_telling(insight.findings)),
        *_moved(insight),
        *(_trend(insight.trend) if insight.trend else ()),
        *(_deploy(item, now) for item in insight.deploys if _is_told(item)),
    ]
    # Two tests may find the same.
    return list(dict.fromkeys(found))


def drift_rows(insight: Insight) -> list[tuple[str, str, str, str]]:
    """Write the distances to the reference as cells, where something was found to explain."""
    comparison = insight.comparison
    if comparison is None or not _has_moved(comparison) or not _needs_explaining(insight):
        return []
    return comparison_rows(comparison)


def comparison_rows(comparison: DriftComparison) -> list[tuple[str, str, str, str]]:
    """Write each distance to the reference as cells: its name, value, effect and chance."""
    return [
        (_TESTS.get(f.test) or plain_text(f.test, 40), f"{f.value:.3f}", f.effect, _significance(f))
        for f in comparison.figures
    ]


def input_lines(inputs: Sequence[InputDrift]) -> list[str]:
    """Write how the questions moved; nothing when they did not."""
    return [
        f"{_FEATURES.get(item.feature) or plain_text(item.feature, 40)}:"
        f" {plain_text(item.before, 80)} before, {plain_text(item.after, 80)} now"
        f" (n {item.n_after:,}, {_chance(item.p_value)})"
        for item in inputs
        if item.moved
    ]


def _has_moved(comparison: DriftComparison) -> bool:
    return any(figure.significant for figure in comparison.figures)


def _needs_explaining(insight: Insight) -> bool:
    return bool(insight.findings) or insight.attribution is not None


def _moved(insight: Insight) -> Iterator[str]:
    """Say in one line that the scores moved, where that is all there is to say."""
    comparison = insight.comparison
    if comparison is None or _needs_explaining(insight) or not _has_moved(comparison):
        return
    largest = max(
        (figure for figure in comparison.figures if figure.significant),
        key=lambda figure: (_EFFECTS.index(figure.effect), -(figure.p_value or 0.0)),
    )
    yield (
        f"scores moved against {plain_text(comparison.reference, 60)}: mean"
        f" {comparison.reference_mean:.2f} to {comparison.mean:.2f} (n {comparison.n:,});"
        f" {_TESTS.get(largest.test) or plain_text(largest.test, 40)} {largest.value:.2f},"
        f" a {largest.effect} effect, {_significance(largest)}"
    )


def _version(insight: Insight, now: datetime) -> Iterator[str]:
    if insight.version_since is not None and (now - insight.version_since).days < 1:
        version = plain_text(insight.evaluator_version, 80)
        since = utc_time(insight.version_since, now)
        yield f"evaluator {version} since {since}: a new series, not compared with the one before"


def _attribution(found: Attribution, now: datetime) -> Iterator[str]:
    since = utc_time(found.since, now) + _between(found.since_low, found.since_high, now)
    change = (
        f"pass rate {percent(found.rate_before)} to {percent(found.rate_after)} since {since},"
        f" change {points_with_interval(found.change, found.low, found.high)}"
    )
    if found.named:
        first, *others = found.named[:_MOST_NAMED]
        yield f"{change}: {_segment(first)}"
        yield from (f"also {_segment(item)}" for item in others)
    elif found.considered:
        yield f"{change}: no segment explains it ({found.considered} considered)"
    else:
        yield f"{change}: no segment has enough scores to say more"
    for segment in found.mix_shift:
        yield f"much of the change is another mix of traffic, most of all {plain_text(segment, 80)}"
    for dimension in found.simpson:
        yield f"within {plain_text(dimension, 60)} the segments went the other way than the whole"


def _segment(item: SegmentEffect) -> str:
    before = "new" if item.rate_before is None else percent(item.rate_before)
    return (
        f"{plain_text(item.segment, 80)}: {before} to {percent(item.rate_after)}"
        f" (n {number(item.n_after)}, {percent(item.share_after, 0)} of the traffic),"
        f" {_chance(item.p_value)}"
    )


def _most_telling(findings: Sequence[DriftFinding]) -> list[DriftFinding]:
    """Keep the newest of each kind, the whole app first."""
    newest = {(item.segment, item.test): item for item in findings}
    return sorted(newest.values(), key=lambda item: (item.segment != "*", item.segment, item.test))[
        :_MOST_FINDINGS
    ]


def _finding(item: DriftFinding, now: datetime) -> str:
    where = "" if item.segment == "*" else f" in {plain_text(item.segment, 80)}"
    means = f"mean score {item.mean_before:.2f} to {item.mean_after:.2f} (n {item.n:,})"
    when = ""
    if item.onset is not None:
        since = utc_time(item.onset, now) + _between(item.onset_low, item.onset_high, now)
        when = f", since {since}"
    how = "the mean moved" if item.p_value is None else f"the shape moved, {_chance(item.p_value)}"
    return f"drift{where}: {means}{when}; {how}, found {utc_time(item.found_at, now)}"


def _trend(trend: Trend) -> Iterator[str]:
    if trend.direction in {"improving", "declining"}:
        change = points_with_interval(trend.change_per_day, trend.low, trend.high)
        yield (
            f"trend of the day: {trend.direction}, {change} a day,"
            f" stability {score(trend.stability)}"
        )


def _is_told(item: Deploy) -> bool:
    """Leave out a release with nothing before it: the first one, mostly."""
    return item.verdict != "no data" or item.rate_before is not None


def _deploy(item: Deploy, now: datetime) -> str:
    text = f"deploy {plain_text(item.release, 60)} at {utc_time(item.at, now)}"
    if item.verdict == "no data":
        return f"{text}: no data yet since then"
    if item.difference is not None and item.low is not None and item.high is not None:
        text += (
            f": {percent(item.rate_before)} (n {number(item.n_before)}) to"
            f" {percent(item.rate_after)} (n {number(item.n_after)}),"
            f" {points_with_interval(item.difference, item.low, item.high)}"
        )
    text += f": {item.verdict}"
    if item.change_at is not None:
        between = _between(item.change_low, item.change_high, now)
        text += f"; the change itself came at {utc_time(item.change_at, now)}{between}"
    return text


def _between(low: datetime | None, high: datetime | None, now: datetime) -> str:
    """Write the bounds of a time behind it; '' where there are none, or they read the same."""
    if low is None or high is None or utc_time(low, now) == utc_time(high, now):
        return ""
    return f" ({utc_time(low, now)} to {utc_time(high, now)})"


def _significance(figure: DriftFigure) -> str:
    if figure.p_value is None:
        return "no test"
    return _chance(figure.p_value)


def _chance(p_value: float) -> str:
    """Say in words how probable so much is by chance alone, in one look."""
    if p_value < _VERY_SURE:
        return "not by chance"
    if p_value < _SURE:
        return f"hardly by chance (p {p_value:.0e})"
    return f"p {p_value:.3f}"
