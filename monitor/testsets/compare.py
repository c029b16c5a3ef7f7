"""
Compare two runs case by case, and the scores of two variants: runs, or parts of the traffic.

A variant is deployed when a test is significant (p < .05, by Holm over all metrics) and the effect
is more than negligible (Cohen's d beyond .1). These are tests for one look. In production, where
people look until they like what they see, `sequential_winner` decides: valid at every look.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal, NamedTuple

import numpy as np
from pydantic import BaseModel, Field
from scipy.special import ndtri

from monitor.errors import NotComparableError
from monitor.format import count, percent, plain_text
from monitor.models import ABComparison, ABTestEvaluation, Tally
from monitor.models.evaluation import Direction, PassRule
from monitor.rolling.drift import moments
from monitor.rolling.tallies import histogram, window_stats
from monitor.stats.distance import Histogram, Moments, mann_whitney, standardized_difference
from monitor.stats.multiplicity import holm
from monitor.stats.two_rates import Blocks, drop_evidence
from monitor.testsets.runs import CaseResult, EvaluationRun

#: Below this p-value, and beyond this effect in either direction, a variant is chosen.
ALPHA: Final = 0.05
LEAST_EFFECT: Final = 0.1
#: Drops of the pass rate that the sequential test bets on.
_BETS: Final = (0.03, 0.08, 0.2)
_LEAST_N: Final = 2
_Z: Final = float(ndtri(1 - ALPHA / 2))


class Variant(BaseModel, frozen=True, extra="forbid"):
    """What one metric says of one variant; ``n`` counts scores, failed and skipped ones apart."""

    name: str
    n: int = Field(ge=0)
    unscored: int = Field(0, ge=0, description="Failed or skipped evaluations; in no figure.")
    mean: float | None = None
    std_dev: float | None = None
    pass_rate: float | None = Field(None, ge=0.0, le=1.0)


class Comparison(BaseModel, frozen=True, extra="forbid"):
    """
    One metric of variants A and B; differences are B - A.

    ``cohens_d`` is None when neither variant has any spread. ``superiority`` is the probability
    that a score of B is above one of A, ties counted half. Intervals are at 95 %, for one look.
    """

    metric: str
    a: Variant
    b: Variant
    direction: Direction = Direction.HIGHER
    difference: float | None = None
    difference_interval: tuple[float, float] | None = None
    cohens_d: float | None = None
    cohens_d_interval: tuple[float, float] | None = None
    welch_p: float | None = Field(None, ge=0.0, le=1.0)
    mann_whitney_p: float | None = Field(None, ge=0.0, le=1.0)
    superiority: float | None = Field(None, ge=0.0, le=1.0)
    superiority_interval: tuple[float, float] | None = None
    holm_p: float | None = Field(
        None, ge=0.0, le=1.0, description="Welch's p-value, adjusted for all metrics compared."
    )
    winner: str | None = Field(None, description="The better variant, where one is shown.")
    sequential_winner: str | None = Field(
        None, description="The better one by pass rate, shown at whatever look; production only."
    )
    reason: str = Field("", description="Why nothing was compared, or ''.")

    def ab_test(self) -> ABTestEvaluation:
        """Return the comparison as an A/B test record, with the preference for A."""
        if self.superiority is None or self.superiority_interval is None:
            return ABTestEvaluation.skipped(
                reason=self.reason or "too_few_scores",
                evaluator_name=f"ab_test_{self.metric}",
                target_event_id=f"{self.a.name}:{self.b.name}",
                comparison_data=self._preference(0.5, (0.0, 1.0)),
            )
        low, high = self.superiority_interval
        preferred = 1 - self.superiority
        return ABTestEvaluation(
            evaluator_name=f"ab_test_{self.metric}",
            target_event_id=f"{self.a.name}:{self.b.name}",
            score=preferred,
            explanation=f"{self.a.name} scores higher in {percent(preferred, 0)} of pairs",
            comparison_data=self._preference(preferred, (1 - high, 1 - low)),
        )

    def _preference(self, preferred: float, bounds: tuple[float, float]) -> ABComparison:
        return ABComparison(
            variant_a_event_id=self.a.name,
            variant_b_event_id=self.b.name,
            preference_score=preferred,
            confidence_interval=bounds,
            sample_size=self.a.n + self.b.n,
            statistical_significance=self.holm_p is not None and self.holm_p < ALPHA,
        )


class Arm(NamedTuple):
    """One variant's part of a comparison: what is shown, size and spread, and the scores' ranks."""

    variant: Variant
    moments: Moments
    counts: Histogram  #: over values that both arms share


def arms_of_scores(
    scores: Mapping[str, Sequence[float]],
    passes: Callable[[float], bool] | None = None,
    *,
    unscored: Mapping[str, int] | None = None,
) -> list[Arm]:
    """Return the arms of any variants, from their scores by name, on any scale."""
    # Ranks need the order of the scores alone: a histogram over the values that occur.
    values = np.unique(np.concatenate([np.asarray(one, dtype=float) for one in scores.values()]))
    arms = []
    for name, some in scores.items():
        x = np.asarray(some, dtype=float)
        found = Moments(
            len(x), float(x.mean()) if len(x) else 0.0, float(x.var(ddof=1)) if len(x) > 1 else 0.0
        )
        counts = np.bincount(np.searchsorted(values, x), minlength=len(values)).astype(float)
        rate = float(np.mean([passes(score) for score in some])) if passes and some else None
        missing = (unscored or {}).get(name, 0)
        arms.append(_arm(name, found, counts, n=len(x), pass_rate=rate, unscored=missing))
    return arms


def arm_of_tally(name: str, tally: Tally, *, design_effect: float = 1.0) -> Arm:
    """Return one arm from the sums of a stream, worth less by *design_effect*, at least 1."""
    window, found = window_stats(tally), moments(tally)
    worth = found._replace(n=found.n / design_effect)
    return _arm(
        name, worth, histogram(tally) / design_effect,
        n=tally.n, pass_rate=window.pass_rate, unscored=tally.failed + tally.skipped,
    )  # fmt: skip


def _arm(
    name: str, found: Moments, counts: Histogram, *, n: int, pass_rate: float | None, unscored: int
) -> Arm:
    spread = math.sqrt(found.variance) if n >= _LEAST_N else None
    mean = found.mean if n else None
    variant = Variant(
        name=name, n=n, unscored=unscored, mean=mean, std_dev=spread, pass_rate=pass_rate
    )
    return Arm(variant, found, counts)


def compare(
    metric: str,
    a: Arm,
    b: Arm,
    *,
    direction: Direction = Direction.HIGHER,
    blocks: Blocks | None = None,
) -> Comparison:
    """
    Compare two arms with counts over the same values; `decide` names winners.

    *blocks* are the passes of A (before) and B (after) in their order, where people look again and
    again.

    References
    ----------
    .. [1] J. Cohen, "Statistical Power Analysis for the Behavioral Sciences" (1988), ch. 2.
    .. [2] L. V. Hedges, I. Olkin, "Statistical Methods for Meta-Analysis" (1985), p. 86: the
       variance of d, (m + n) / (m n) + d^2 / (2 (m + n)).
    .. [3] E. R. DeLong, D. M. DeLong, D. L. Clarke-Pearson, "Comparing the areas under two or more
       correlated receiver operating characteristic curves", Biometrics 44 (1988), 837-845.

    Examples
    --------
    >>> found = compare("quality", *arms_of_scores({"A": [0.7, 0.8, 0.9], "B": [0.5, 0.6, 0.7]}))
    >>> round(found.cohens_d, 2), round(found.welch_p, 3)
    (-2.0, 0.07)
    """
    made = Comparison(metric=metric, a=a.variant, b=b.variant, direction=direction)
    m, n = a.moments.n, b.moments.n
    if min(m, n) < _LEAST_N:
        fewer = (a if m <= n else b).variant
        reason = f"{fewer.name} has {fewer.n} scores: two a side are the least"
        return made.model_copy(update={"reason": reason})
    effect = standardized_difference(a.moments, b.moments)
    ranks = mann_whitney(a.counts, b.counts)
    pooled = ((m - 1) * a.moments.variance + (n - 1) * b.moments.variance) / (m + n - 2)
    found: dict[str, object] = {
        "difference": effect.difference,
        "difference_interval": tuple(effect.interval),
        "welch_p": effect.p_value,
        "mann_whitney_p": ranks.p_value,
        "superiority": ranks.superiority,
    }
    if pooled > 0:
        d = effect.difference / math.sqrt(pooled)
        half = _Z * math.sqrt((m + n) / (m * n) + d * d / (2 * (m + n)))
        found |= {"cohens_d": d, "cohens_d_interval": (d - half, d + half)}
    # How often a score of the other arm is above each value, ties counted half.
    shares = a.counts / a.counts.sum(), b.counts / b.counts.sum()
    above_a = 1 - np.cumsum(shares[1]) + shares[1] / 2
    below_b = np.cumsum(shares[0]) - shares[0] / 2
    spread = sum(
        float(np.sum(share * (part - np.sum(share * part)) ** 2)) / (size - 1)
        for share, part, size in ((shares[0], above_a, m), (shares[1], below_b, n))
    )
    half = _Z * math.sqrt(max(0.0, spread))
    low, high = max(0.0, ranks.superiority - half), min(1.0, ranks.superiority + half)
    found["superiority_interval"] = low, high
    if blocks is not None:
        found["sequential_winner"] = sequential_winner(blocks, (a.variant.name, b.variant.name))
    return made.model_copy(update=found)


def sequential_winner(blocks: Blocks, names: tuple[str, str]) -> str | None:
    """
    Return the variant whose pass rate is higher, None while that is not shown.

    Over all looks together, two variants with one rate ever get a winner with a probability of at
    most 5 %. Which one passes more is better, whatever the direction of the scores.
    """
    swapped = Blocks(blocks.passed_after, blocks.n_after, blocks.passed_before, blocks.n_before)
    crossed = [
        int(np.argmax(reached)) if reached.any() else None
        for side in (blocks, swapped)
        for reached in (drop_evidence(side, above=0.0, bets=_BETS) >= math.log(2 / ALPHA),)
    ]
    first = [at for at in crossed if at is not None]
    return names[crossed.index(min(first))] if first else None


def decide(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """Return the comparisons with p-values adjusted for their number, and with their winners."""
    tested = [one for one in comparisons if one.welch_p is not None]
    adjusted = iter(holm([one.welch_p or 0.0 for one in tested]))
    decided = []
    for one in comparisons:
        if one.welch_p is None:
            decided.append(one)
            continue
        p_value = next(adjusted)
        d = math.inf if one.cohens_d is None else abs(one.cohens_d)
        winner = None
        if p_value < ALPHA and d > LEAST_EFFECT and one.difference:
            b_is_better = (one.difference > 0) == (one.direction is Direction.HIGHER)
            winner = one.b.name if b_is_better else one.a.name
        decided.append(one.model_copy(update={"holm_p": p_value, "winner": winner}))
    return decided


def decision(comparisons: Sequence[Comparison]) -> str:
    """
    Return what to do with comparisons of the same two variants, in a sentence.

    B is deployed where it is better in a metric and worse in none.
    """
    a, b = comparisons[0].a.name, comparisons[0].b.name
    better = [one.metric for one in comparisons if one.winner == b]
    worse = [one.metric for one in comparisons if one.winner == a]
    if worse:
        return f"keep {a}: {b} is worse in {', '.join(worse)}"
    if better:
        return f"deploy {b}: better in {', '.join(better)}, worse in none"
    return f"keep {a}: no difference is shown"


# --- two runs over the same test set, case by case ---

_MOST_NAMED = 5
_QUESTION_CHARS = 60
CaseVerdict = Literal["fails", "passes", "app error"]


class ChangedCase(BaseModel, frozen=True, extra="forbid"):
    """A case whose verdict changed between two runs, with the metrics that did it."""

    case: str
    query: str | None
    now: CaseVerdict
    blocks: bool = Field(default=False, description="Whether it makes the gate fail.")
    scores: dict[str, tuple[float | None, float | None]] = Field(
        default_factory=dict, description="Before and after, by metric."
    )
    same_answer: bool = Field(default=False, description="The app answered the same as before.")


class RunPair:
    """
    Two comparable runs, before and after; ``shared`` has the cases that both have.

    Raise NotComparableError if the runs are of different evaluators, pass lines or models, or of
    different cases, unless *shared_cases* asks to compare those that both have.
    """

    def __init__(
        self, baseline: EvaluationRun, run: EvaluationRun, *, shared_cases: bool = False
    ) -> None:
        self.baseline, self.run = baseline, run
        self.shared = frozenset(
            case
            for case, note in run.cases.items()
            if case in baseline.cases and baseline.cases[case].version == note.version
        )
        if run.dataset_version != baseline.dataset_version and not (shared_cases and self.shared):
            missing = [case for case in baseline.cases if case not in run.cases]
            new = [case for case in run.cases if case not in baseline.cases]
            other = [c for c in run.cases if c in baseline.cases and c not in self.shared]
            parts = [
                f"{count(len(found), 'case')} {what} ({named(found)})"
                for found, what in ((missing, "missing"), (new, "new"), (other, "changed"))
                if found
            ]
            raise NotComparableError(
                f"the runs are of different test sets: {', '.join(parts)}; evaluate the baseline"
                " on this set, or compare what both have with --shared-cases"
            )
        if run.models != baseline.models:
            raise NotComparableError(
                "the runs are of different models; evaluate the baseline again"
            )
        for metric, version in baseline.evaluators.items():
            mine = run.evaluators.get(metric)
            if mine != version:
                what = f"is by {mine}, the baseline by {version}" if mine else "was not evaluated"
                raise NotComparableError(
                    f"{metric} {what}; evaluate both runs with the same metrics and judge"
                )
        self.rules: Mapping[str, PassRule] = run.rules()
        for metric, theirs in baseline.rules().items():
            if self.rules.get(metric, theirs) != theirs:
                raise NotComparableError(
                    f"{metric} passes at {self.rules[metric].line:g}, in the baseline at"
                    f" {theirs.line:g}; evaluate the baseline again"
                )
        self._before, self._after = by_case(baseline), by_case(run)
        #: The cases to which the app answered the same in both runs.
        self.same_answers = frozenset(
            case
            for case in self.shared
            if [r.output for r in self._before[case]] == [r.output for r in self._after[case]]
        )

    @property
    def metrics(self) -> list[str]:
        """Return what both runs evaluated, in order."""
        return [metric for metric in self.run.evaluators if metric in self.baseline.evaluators]

    def scores(self, metric: str) -> tuple[dict[str, float], dict[str, float]]:
        """Return before and after by case."""
        before, after = self.baseline.case_scores(metric), self.run.case_scores(metric)
        return (
            {case: before[case] for case in before if case in self.shared},
            {case: after[case] for case in after if case in self.shared},
        )

    def falls(self, metric: str) -> dict[str, float]:
        """Return by case how far it fell; positive is worse, whatever the direction."""
        before, after = self.scores(metric)
        sign = -1.0 if is_lower(self.rules, metric) else 1.0
        return {case: sign * (before[case] - after[case]) for case in before if case in after}

    def changed(self) -> list[ChangedCase]:
        """Return the cases whose verdict changed, those that got worse first."""
        tables = {metric: self.scores(metric) for metric in self.metrics}
        made: list[ChangedCase] = []
        for case in (each for each in self.run.cases if each in self.shared):
            was, now = verdict_of(self._before[case]), verdict_of(self._after[case])
            if now is not None and was not in {now, "app error", None}:
                scores = {m: (b.get(case), a.get(case)) for m, (b, a) in tables.items()}
                made.append(ChangedCase(
                    case=case, query=self.run.cases[case].query, now=now, scores=scores,
                    same_answer=case in self.same_answers,
                ))  # fmt: skip
        return sorted(made, key=lambda each: each.now == "passes")


def verdict_of(results: Sequence[CaseResult]) -> CaseVerdict | None:
    """Return how a case fared over its repeats and models: by majority, a tie fails."""
    if results and all(each.error is not None for each in results):
        return "app error"
    passed = [each.passed for each in results if each.passed is not None]
    if not passed:
        return None
    return "passes" if 2 * sum(passed) > len(passed) else "fails"


def by_case(run: EvaluationRun) -> Mapping[str, list[CaseResult]]:
    """Return the results of each case."""
    found: dict[str, list[CaseResult]] = {case: [] for case in run.cases}
    for result in run.results:
        found[result.case].append(result)
    return found


def is_lower(rules: Mapping[str, PassRule], metric: str) -> bool:
    """Return whether a metric is better when lower."""
    return metric in rules and rules[metric].direction is Direction.LOWER


def named(cases: Sequence[str], run: EvaluationRun | None = None) -> str:
    """Return the first of *cases*, by question where *run* has it, and the number of others."""
    notes = {} if run is None else run.cases
    questions = {case: note.query for case, note in notes.items() if note.query}
    shown = ", ".join(
        plain_text(case, 60)
        + (f' "{plain_text(questions[case], _QUESTION_CHARS)}"' if case in questions else "")
        for case in cases[:_MOST_NAMED]
    )
    more = len(cases) - _MOST_NAMED
    return f"{shown} and {more:,} more" if more > 0 else shown
