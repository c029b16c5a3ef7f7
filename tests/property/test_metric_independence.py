"""Adding a metric never changes the record of another one."""

from hypothesis import given
from hypothesis import strategies as st

from monitor.models import Evaluation
from monitor.scoring.declaration import Answers, CriterionAnswer, JudgementMetric, Reply
from monitor.scoring.local.scorer import LocalJudge
from monitor.scoring.metrics import METRICS
from monitor.scoring.pipeline import JudgementScorer, MetricPipeline
from monitor.scoring.registry import resolve_metrics
from monitor.settings import Settings
from monitor.testing import make_interaction

#: Ids and times differ from run to run; one call's cost is shared by all that it answers.
DIFFERS = {"evaluation_id", "timestamp", "duration_ms", "cost_usd"}
NAMES = sorted(METRICS)
INTERACTIONS = (
    make_interaction(id="1"),
    make_interaction(id="2", output="Cats own the moon since 1802 [3].", tool_calls=[]),
    make_interaction(id="3", output="I do not know.", contexts=[]),
    make_interaction(id="4", output="", metadata={"capture": "metadata"}),
    make_interaction(
        id="5",
        contexts=[{"text": "Refunds take five days.", "id": "a"}],
        output="Refunds take nine days [a].",
        tool_calls=[{"name": "search"}],
        expected={"answer": "Five days.", "relevant": ["a"], "tools": ["search", "fetch"]},
    ),
)


class FixedCriteriaJudge:
    """Gives every criterion the same answer."""

    criteria_version = "fixed-1"

    def ask(self, interaction, criteria, fields):
        answer = CriterionAnswer(score=0.25, numbers=(1,), texts=("What?",), reasoning="So.")
        answers = Answers(
            by_name={item.name: answer for item in criteria},
            sentences=("Refunds take nine days [a].",),
            passages=len(interaction.contexts),
            reference=("Five days.",),
        )
        return Reply(answers=answers, cost_usd=0.01, details={"model": "fixed"})

    def close(self):
        pass


def records(names, interaction, criteria_judge) -> dict[str, Evaluation]:
    metrics = resolve_metrics(Settings(metrics=names), plugins=())
    shared = [each for each in metrics if isinstance(each.metric, JudgementMetric)]
    pipeline = MetricPipeline(
        metrics,
        wanted=names,
        judged=JudgementScorer(LocalJudge(), shared) if shared else None,
        criteria_judge=criteria_judge,
    )
    return {each.evaluator_name: each for each in pipeline.score(interaction)}


@given(
    st.sampled_from(NAMES),
    st.sampled_from(NAMES),
    st.sampled_from(INTERACTIONS),
    st.sampled_from([None, FixedCriteriaJudge()]),
)
def test_metric_result_does_not_depend_on_other_metrics(name, other, interaction, criteria_judge):
    alone = records((name,), interaction, criteria_judge)[name]
    beside = records(tuple(dict.fromkeys((other, name))), interaction, criteria_judge)[name]
    assert beside.model_dump(exclude=DIFFERS) == alone.model_dump(exclude=DIFFERS)


def test_groundedness_is_the_same_alone_and_beside_a_computed_metric():
    """It once lost its direction and its advice when no other kind of metric was scored."""
    for interaction in INTERACTIONS:
        alone = records(("groundedness",), interaction, None)["groundedness"]
        beside = records(("groundedness", "length"), interaction, None)["groundedness"]
        assert beside.model_dump(exclude=DIFFERS) == alone.model_dump(exclude=DIFFERS)
        own = {"pass_score": 0.2, "direction": "higher", "pass_line": "own"}
        assert alone.criteria == own
