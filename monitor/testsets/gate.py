"""
The gate: whether a run is good enough, by itself and against the run of a baseline.

Read `decide` first. Scores are compared case by case. A set of cases *decides* about a metric where
the bound on its mean fall is no wider than the fall that is allowed: then the fall that was
measured counts, and one beyond the limit is never noise alone. Otherwise a fall that is beyond both
the limit and the bound fails, a rise that leaves no room for a fall passes, and everything else is
not decided.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from statistics import fmean
from typing import Annotated, Literal, Self

from pydantic import BaseModel, Field, ValidationError

from monitor.errors import NotComparableError, SettingsError, first_mistake
from monitor.format import count, plain_text, points, score
from monitor.models.evaluation import PassRule
from monitor.scoring.metric_config import read_toml
from monitor.stats.two_rates import paired_fall, pairs_needed, sign_test
from monitor.testsets.compare import ChangedCase, RunPair, by_case, is_lower, named
from monitor.testsets.runs import EvaluationRun

_ROUNDING = 1e-9
#: Without a policy; a run need not have it.
_ALWAYS_CRITICAL = ("faithfulness",)
_MANY_MOVED = 10  #: pairs, from which on the largest rise says how large noise is
Share = Annotated[float, Field(ge=0, le=1)]


class GateOutcome(StrEnum):
    """What a gate says."""

    PASS = "pass"  # noqa: S105 - no password
    FAIL = "fail"
    NOT_DECIDED = "not decided"


class GatePolicy(BaseModel, frozen=True, extra="forbid"):
    """
    What a gate tolerates; scores and falls are in [0, 1], a fall of 0.05 is five points.

    ``critical_tags`` and ``critical_categories`` make cases critical besides those that say so
    themselves. ``false_block_rate`` is the probability that two runs of the same app, which
    differ by noise, fail.
    """

    max_drop: Share = Field(0.05, description="Largest fall of a metric's mean score.")
    max_critical_drop: Share = Field(0.02, description="The same for critical metrics.")
    critical_metrics: tuple[str, ...] = _ALWAYS_CRITICAL
    floors: dict[str, Share] = Field(
        default_factory=dict,
        description="Least mean score by metric; the most, if lower is better.",
    )
    case_floors: dict[str, Share] = Field(
        default_factory=dict, description="The same for the score of every single case."
    )
    critical_tags: tuple[str, ...] = ()
    critical_categories: tuple[str, ...] = ()
    new_failures: Literal["beyond_noise", "any", "ignore"] = Field(
        "beyond_noise", description="Which cases that passed and now fail are a regression."
    )
    false_block_rate: float = Field(0.05, gt=0, lt=0.5)
    shared_cases: bool = Field(
        default=False, description="Compare the cases that both runs have, where sets differ."
    )

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """
        Read a policy from TOML: the table ``[gate]``, or the whole file.

        Raise SettingsError if the file cannot be read or names something unknown.
        """
        path = Path(path)
        try:
            found = read_toml(path)
            return cls.model_validate(found.get("gate", found))
        except ValidationError as error:
            raise SettingsError(f"{path}: {': '.join(first_mistake(error))}") from None

    def is_critical(self, run: EvaluationRun, case: str) -> bool:
        """Return whether no failure of a case is tolerated."""
        note = run.cases[case]
        return (
            note.critical
            or note.category in self.critical_categories
            or not set(self.critical_tags).isdisjoint(note.tags)
        )


class GateCheck(BaseModel, frozen=True, extra="forbid"):
    """
    One thing that was checked.

    For falls, ``change`` is the fall of the mean (positive is worse), ``low`` to ``high`` its
    bounds, ``n`` the pairs and ``more_cases`` about how many more would decide.
    """

    name: str
    outcome: GateOutcome
    says: str
    metric: str | None = None
    before: float | None = None
    after: float | None = None
    change: float | None = None
    low: float | None = None
    high: float | None = None
    limit: float | None = None
    n: int = 0
    more_cases: int | None = None


class GateReport(BaseModel, frozen=True, extra="forbid"):
    """The outcome of a gate with everything that led to it; ``exit_code`` is 0, 1 or 2."""

    outcome: GateOutcome
    dataset: str
    app: str
    app_version: str
    baseline_version: str | None
    cases: int
    checks: tuple[GateCheck, ...]
    changed: tuple[ChangedCase, ...] = ()

    @property
    def exit_code(self) -> int:
        """0 pass, 1 fail, 2 not decided."""
        return list(GateOutcome).index(self.outcome)


def decide(
    run: EvaluationRun, baseline: EvaluationRun | None = None, policy: GatePolicy | None = None
) -> GateReport:
    """
    Decide whether *run* may be released: fail if any check fails, else not decided if any is not.

    *baseline* is in production; without it only floors and critical cases are checked. Raise
    NotComparableError if the runs are of different cases, evaluators or models, the policy names a
    metric that the run does not have, or there is nothing to check.
    """
    policy = policy or GatePolicy()
    _check_names(run, policy)
    checks = _floors(run, policy)
    if critical := [case for case in run.cases if policy.is_critical(run, case)]:
        results = by_case(run)
        failing = [c for c in critical if any(r.passed is False or r.error for r in results[c])]
        unscored = [c for c in critical if any(r.passed is None for r in results[c])]
        says, outcome = f"all {count(len(critical), 'critical case')} pass", GateOutcome.PASS
        if found := failing or unscored:
            what = "failing" if failing else "without a score"
            says = f"{count(len(found), 'critical case')} {what}: {named(found, run)}"
            outcome = GateOutcome.FAIL if failing else GateOutcome.NOT_DECIDED
        checks.append(GateCheck(name="critical cases", outcome=outcome, says=says, n=len(critical)))
    changed: list[ChangedCase] = []
    cases = len(run.cases)
    if baseline is not None:
        pair = RunPair(baseline, run, shared_cases=policy.shared_cases)
        cases = len(pair.shared)
        checks += [_fall(pair, metric, policy) for metric in pair.metrics]
        moved = pair.changed()
        blocking = _blocking(pair, moved, policy)
        changed = [each.model_copy(update={"blocks": each.case in blocking}) for each in moved]
        checks += _changes(run, changed, policy)
    if not checks:
        raise NotComparableError(
            "there is nothing to check: name a baseline, a floor, or critical cases"
        )
    worst = (GateOutcome.FAIL, GateOutcome.NOT_DECIDED, GateOutcome.PASS)
    return GateReport(
        outcome=min((check.outcome for check in checks), key=worst.index),
        dataset=run.dataset, app=run.app, app_version=run.app_version,
        baseline_version=None if baseline is None else baseline.app_version,
        cases=cases, checks=tuple(checks), changed=tuple(changed),
    )  # fmt: skip


def _check_names(run: EvaluationRun, policy: GatePolicy) -> None:
    """Raise NotComparableError if a policy is about a metric that the run does not have."""
    critical = [each for each in policy.critical_metrics if each not in _ALWAYS_CRITICAL]
    what = dict.fromkeys(critical, "is critical and has") | dict.fromkeys(
        (*policy.floors, *policy.case_floors), "has a floor and"
    )
    for metric in what.keys() - run.evaluators.keys():
        known = ", ".join(run.evaluators) or "none"
        raise NotComparableError(
            f"{plain_text(metric, 60)} {what[metric]} no scores; the run has {known}"
        )


def _floors(run: EvaluationRun, policy: GatePolicy) -> list[GateCheck]:
    made, rules = [], run.rules()
    for metric, floor in policy.floors.items():
        scores = list(run.case_scores(metric).values())
        mean = fmean(scores) if scores else None
        sign, word = (-1, "ceiling") if is_lower(rules, metric) else (1, "floor")
        outcome = GateOutcome.NOT_DECIDED
        if mean is not None:
            is_good = sign * (mean - floor) >= -_ROUNDING
            outcome = GateOutcome.PASS if is_good else GateOutcome.FAIL
        said = "no mean" if mean is None else f"mean {score(mean)}"
        says = f"{metric}: {said}, {word} {score(floor)}{_without(run, metric)}"
        made.append(GateCheck(
            name="floor", metric=metric, outcome=outcome, says=says, after=mean, limit=floor,
            n=len(scores),
        ))  # fmt: skip
    for metric, floor in policy.case_floors.items():
        sign, found = (-1 if is_lower(rules, metric) else 1), run.case_scores(metric)
        below = [case for case, value in found.items() if sign * (value - floor) < 0]
        outcome = GateOutcome.FAIL if below else GateOutcome.PASS
        which = f"{count(len(below), 'case')} below: {named(below, run)}" if below else "all do"
        if not found:
            outcome, which = GateOutcome.NOT_DECIDED, "none has a score"
        says = f"{metric}: every case has to reach {score(floor)}; {which}{_without(run, metric)}"
        made.append(GateCheck(
            name="case floor", metric=metric, outcome=outcome, says=says, limit=floor, n=len(found),
        ))  # fmt: skip
    return made


def _without(run: EvaluationRun, metric: str) -> str:
    """Return why cases of a run have no score, as the end of a sentence; '' if all have one."""
    without = run.why_unscored(metric)
    return f"; without a score: {without}" if without else ""


def _fall(pair: RunPair, metric: str, policy: GatePolicy) -> GateCheck:
    """Check the mean fall of a metric."""
    is_critical = metric in policy.critical_metrics
    limit = policy.max_critical_drop if is_critical else policy.max_drop
    before, after = pair.scores(metric)
    falls = pair.falls(metric)
    fields = {"name": "critical drop" if is_critical else "drop", "metric": metric}
    if not falls:
        says = f"{metric}: no case has a score in both runs"
        for name, run in (("this run", pair.run), ("the baseline", pair.baseline)):
            without = run.why_unscored(metric, pair.shared)
            says += f"; without a score in {name}: {without}" if without else ""
        return GateCheck(outcome=GateOutcome.NOT_DECIDED, says=says, limit=limit, **fields)
    level = policy.false_block_rate / 2 / len(pair.metrics)
    found = paired_fall(list(falls.values()), alpha=level)
    beyond = found.mean > limit + _ROUNDING
    lost = [case for case in before if case not in after]
    more = None
    outcome = GateOutcome.FAIL if beyond else GateOutcome.PASS
    # A rise leaves more room before the limit.
    decisive = found.mean if beyond else limit + max(0.0, -found.mean)
    if found.half_width > max(limit, decisive):
        outcome = GateOutcome.NOT_DECIDED
        width = limit if beyond else decisive
        needed = pairs_needed(found, width) if width > 0 else None
        more = None if needed is None else needed - found.n
    means = [fmean(values[case] for case in falls) for values in (before, after)]
    says = f"{metric}: {score(means[0])} → {score(means[1])}, {points(means[1] - means[0])}"
    says += f" ± {100 * found.half_width:.1f}" if found.n > 1 else ""
    says += f" in {count(found.n, 'case')}; {100 * limit:.3g} pts allowed"
    if outcome is GateOutcome.NOT_DECIDED:
        says += "; not decided: " + ("more" if more is None else f"about {more:,} more") + " cases"
    elif len(lost) > limit * len(before):
        outcome = GateOutcome.NOT_DECIDED if outcome is GateOutcome.PASS else outcome
        says += (
            f"; {count(len(lost), 'case')} lost the score: {pair.run.why_unscored(metric, lost)}"
        )
    return GateCheck(
        outcome=outcome, says=says, before=means[0], after=means[1], change=found.mean,
        low=found.mean - found.half_width if found.n > 1 else None,
        high=found.mean + found.half_width if found.n > 1 else None,
        limit=limit, n=found.n, more_cases=more, **fields,
    )  # fmt: skip


def _blocking(pair: RunPair, changed: Sequence[ChangedCase], policy: GatePolicy) -> set[str]:
    """
    Return the cases that make the gate fail.

    New errors of the app do. New failures do where they are more than chance against the repaired
    cases. One alone does if its answer changed, and noise does not explain it: because the app and
    its evaluators have none, or because no case rose half as far as this one fell.
    """
    if policy.new_failures == "ignore":
        return set()
    worse = [each for each in changed if each.now == "fails"]
    blocking = {each.case for each in changed if each.now == "app error"}
    better = sum(each.now == "passes" for each in changed)
    by_chance = sign_test(len(worse), better) > policy.false_block_rate / 2
    if policy.new_failures == "any" or not by_chance:
        return blocking | {each.case for each in worse}
    is_steady = 2 * len(pair.same_answers) >= len(pair.shared)
    for metric in pair.metrics:
        falls = pair.falls(metric)
        moved = {case for case, fall in falls.items() if abs(fall) > _ROUNDING}
        rule = pair.rules.get(metric, PassRule(0.0))
        if is_steady and moved.isdisjoint(pair.same_answers):
            noise = 0.0
        elif len(moved) >= _MANY_MOVED:
            noise = 2 * max(0.0, -min(falls.values()))
        else:
            continue
        for each in worse:
            fall, now = falls.get(each.case), each.scores[metric][1]
            if each.same_answer or fall is None or now is None or rule.passes(now):
                continue
            if fall > noise + _ROUNDING:
                blocking.add(each.case)
    return blocking


def _changes(
    run: EvaluationRun, changed: Sequence[ChangedCase], policy: GatePolicy
) -> list[GateCheck]:
    """Check what changed case by case."""
    made = []
    fixed = sum(each.now == "passes" for each in changed)
    for now, name in (("fails", "new failures"), ("app error", "new app errors")):
        found = [each for each in changed if each.now == now]
        blocking = [each.case for each in found if each.blocks]
        outcome = GateOutcome.FAIL if blocking else GateOutcome.PASS
        says = f"{count(len(found), name.removesuffix('s'))}"
        if blocking:
            says += f": {named(blocking, run)}"
        elif found:
            why = "not counted" if policy.new_failures == "ignore" else "within the noise"
            says += f", {why}: {named([each.case for each in found], run)}"
        if now == "fails":
            says += f"; {count(fixed, 'case')} repaired"
        made.append(GateCheck(name=name, outcome=outcome, says=says, n=len(found)))
    return made
