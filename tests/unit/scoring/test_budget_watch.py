"""What happens to samples as a budget runs out."""

import pytest

from monitor.errors import BudgetReachedError, SettingsError
from monitor.models import EvaluationStatus
from monitor.scoring.limits.budget import BudgetWatch, Cap, Charge
from monitor.scoring.local.scorer import LocalJudge
from monitor.scoring.pipeline import JudgementScorer, MetricPipeline
from monitor.scoring.registry import resolve_metrics
from monitor.settings import Settings
from monitor.testing import make_interaction

METRICS = ("groundedness", "relevance")


class FixedBudget:
    def __init__(self, *charges):
        self._charges = list(charges)

    def charges(self):
        return self._charges


class Refused:
    version = "judge-1"
    concurrency = 9

    def __init__(self):
        self.asked = 0

    def score(self, interaction, *, key=""):
        self.asked += 1
        raise BudgetReachedError("spent")

    def close(self):
        pass


def charge(money=0.0, time=1.0, *, reached=False):
    return Charge(Cap("day", 1_000_000), round(money * 1e6), time * 86_400, 86_400, reached=reached)


def capped(budget, *, fallback=None):
    inner = Refused()
    made = MetricPipeline(
        resolve_metrics(Settings(metrics=METRICS)),
        judged=inner,
        budget=BudgetWatch(budget),
        fallback=fallback,
    )
    return made, inner


def test_refused_call_skips_the_sample_and_says_why():
    scorer, _ = capped(FixedBudget(charge()))
    found = scorer.score(make_interaction(), key="k")
    assert [(e.evaluator_name, e.status, e.reason) for e in found] == [
        (metric, EvaluationStatus.SKIPPED, "budget_reached") for metric in METRICS
    ]
    assert {e.evaluator_version for e in found} == {"judge-1", "judge-1-2"}


def test_judge_is_not_called_while_the_budget_is_known_to_be_reached():
    scorer, inner = capped(FixedBudget(charge(), charge(0.99, reached=True)))
    scorer.score(make_interaction(), key="k")
    assert inner.asked == 0


def test_fallback_scores_carry_the_local_version():
    local = JudgementScorer(LocalJudge(), resolve_metrics(Settings(metrics=METRICS)))
    scorer, _ = capped(FixedBudget(charge(reached=True)), fallback=local)
    found = scorer.score(make_interaction(), key="k")
    assert {(e.status, e.evaluator_version) for e in found} == {
        (EvaluationStatus.COMPLETED, f"{local.version}-2"),
        (EvaluationStatus.COMPLETED, local.version),
    }


@pytest.mark.parametrize(
    ("money", "time", "factor"),
    [(0.0, 1.0, 1.0), (0.3, 0.7, 1.0), (0.1, 0.5, 1.0), (0.6, 0.8, 0.0625), (1.0, 0.5, 0.0)],
)
def test_judge_share_falls_when_money_runs_out_faster_than_time(money, time, factor):
    assert BudgetWatch(FixedBudget(charge(money, time))).factor() == pytest.approx(factor)


def test_tightest_budget_decides_the_factor():
    assert BudgetWatch(FixedBudget(charge(), charge(0.6, 0.8))).factor() == pytest.approx(0.0625)


def test_budget_lasts_the_whole_period_at_ten_times_the_demand():
    """Ten times the demand that the money allows, in a thousand steps of one period."""
    spent, asked_late = 0.0, 0.0
    for step in range(1_000):
        factor = BudgetWatch(FixedBudget(charge(spent, 1 - step / 1_000))).factor()
        spent += 10 / 1_000 * factor
        asked_late += factor if step >= 900 else 0
    assert 0.9 < spent < 1
    assert asked_late > 1


def test_budget_policy_lower_requires_the_cascade():
    with pytest.raises(ValueError, match="SCORER=cascade"):
        Settings(scorer="judge", budget_policy="lower")


def test_zero_budget_is_refused():
    with pytest.raises(SettingsError, match="BUDGET_USD_PER_DAY"):
        Settings.from_env({"GROUNDWATCH_BUDGET_USD_PER_DAY": "0"})
