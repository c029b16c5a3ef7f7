"""A report says which way a metric is better, and what usually helps."""

from datetime import UTC, datetime

import pytest

from monitor.models import Status
from monitor.report.words import score_sentence
from monitor.testing import make_verdict

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def sentence(metric, average_score, version, status=Status.WARNING):
    verdict = make_verdict(status, NOW, metric=metric)
    changes = {"average_score": average_score, "evaluator_version": version}
    return score_sentence(verdict.model_copy(update=changes))


def test_low_score_is_shown_with_advice():
    assert sentence("faithfulness", 0.4, "local-1 pass 0.7") == (
        "average score 0.40 (higher is better, passes at 0.7 or above);"
        " often the answer contains unsupported claims: improve context retrieval"
    )


def test_no_advice_contradicts_a_healthy_status():
    said = sentence("faithfulness", 0.4, "local-1 pass 0.7", Status.HEALTHY)
    assert said == "average score 0.40 (higher is better, passes at 0.7 or above)"


@pytest.mark.parametrize("score", [0.05, 0.6])
def test_sentence_says_when_lower_is_better(score):
    said = sentence("toxicity", score, "screen-1 pass <= 0.3")
    assert said == (f"average score {score:.2f} (lower is better, passes at 0.3 or below)")


@pytest.mark.parametrize(("score", "version"), [(None, "local-1 pass 0.7"), (0.4, "")])
def test_no_sentence_without_a_score_or_a_pass_rule(score, version):
    assert sentence("faithfulness", score, version) == ""
