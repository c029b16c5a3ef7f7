"""What metrics make of `expected` and `metadata` in another form than the usual one."""

import pytest

from monitor.metrics import evaluate
from monitor.scoring.declaration import Answers, CriterionAnswer
from monitor.scoring.metrics import METRICS
from monitor.testing import make_interaction

CONTEXTS = [{"id": "faq-3", "text": "Refunds take five days."}, {"id": "b", "text": "Cats sleep."}]


@pytest.mark.parametrize(
    ("metric", "record"),
    [
        ("recall_at_k", {"expected": {"relevant": "faq-3"}}),
        ("citation_accuracy_grace", {"expected": {"citations": "faq-3"}}),
        (
            "tool_completeness",
            {"expected": {"tools": "search"}, "tool_calls": [{"name": "search"}]},
        ),
        (
            "trajectory_match",
            {"expected": {"trajectory": "plan"}, "metadata": {"trajectory": ["plan"]}},
        ),
    ],
)
def test_single_value_stands_for_a_list_of_it(metric, record):
    cited = {"contexts": CONTEXTS, "output": "Refunds take five days [1]."}
    [[found]] = evaluate(cited | record, metric)
    assert found.score == 1.0


def test_tools_in_an_object_are_its_keys():
    record = {"output": "x", "expected": {"tools": {"search": 1}}}
    [[found]] = evaluate(record | {"tool_calls": [{"name": "search"}]}, "tool_completeness")
    assert found.score == 1.0


@pytest.mark.parametrize(
    ("metric", "metadata"),
    [("plan_quality", {"plan": 5}), ("chain_integrity", {"verification_chain": 0.5})],
)
def test_number_where_a_list_is_expected_fails_no_metric(metric, metadata):
    [[found]] = evaluate({"output": "x", "metadata": metadata}, metric)
    assert found.status == "completed"


@pytest.mark.parametrize(
    ("metric", "metadata"),
    [
        ("intent_correctness", {"parsed": "Apple"}),
        ("chain_integrity", {"verification_chain": [0.4, "high"]}),
        ("chain_integrity", {"verification_chain": [{"confidence": None}]}),
        ("answer_uncertainty", {"answers": "Paris"}),
    ],
)
def test_metadata_of_another_kind_are_skipped_rather_than_failed(metric, metadata):
    record = {"output": "x", "expected": {"name": "Apple"}, "metadata": metadata}
    [[found]] = evaluate(record, metric)
    assert (found.status, found.error) == ("skipped", None)


def test_plan_in_one_text_has_a_step_a_line():
    record = {"output": "x", "metadata": {"plan": "1. Fetch the data\n\n2. Analyse it\n3. Write"}}
    [[found]] = evaluate(record, "plan_quality")
    assert found.score == 1.0


@pytest.mark.parametrize(
    "output",
    [
        '{"level": "low"}',
        '```json\n{"level": "low"}\n```\n',
        '```JSON\n{"level": "low"}\n```',
        '```\n{"level": "low"}\n```',
    ],
)
def test_final_answer_is_read_in_a_code_fence_as_well(output):
    [[found]] = evaluate({"output": output}, "final_answer_quality")
    assert found.score == pytest.approx(0.25)


@pytest.mark.parametrize("wanted", [[1, 2], ["faq-3", "b"], ["1", "b"]])
def test_false_passages_are_named_by_id_or_place(wanted):
    answers = Answers(
        by_name={"noticed_false": CriterionAnswer(numbers=(1,))},
        sentences=(),
        passages=2,
        reference=(),
    )
    record = make_interaction(contexts=CONTEXTS, expected={"false_passages": wanted})
    assert METRICS["counterfactual_robustness"].read(answers, record, None).score == 0.5


def test_passage_that_was_not_retrieved_is_no_less_noise():
    record = make_interaction(contexts=CONTEXTS, expected={"relevant": ["faq-3", "x", "y"]})
    assert METRICS["noise_robustness"].unmet_too(record) is None
