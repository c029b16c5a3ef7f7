"""``groundwatch golden``: production samples as test cases, and records of what people said."""

import json
from datetime import UTC, datetime

import pytest
from typer.testing import CliRunner

from monitor.cli.app import app
from monitor.models import HumanAIEvaluation
from monitor.store.engine import Store
from monitor.store.labels import LabelRecord, take_labels
from monitor.store.write import record
from monitor.testing import make_evaluation, make_interaction, make_sample
from monitor.testsets import TestSet
from workers.scoring_run import ScoringRules, result_of

NOW = datetime.now(UTC)
pytestmark = pytest.mark.usefixtures("fresh_now")
RULES = ScoringRules(pass_score=0.7, bucket_s=60)


@pytest.fixture
def shop(sqlite_url, monkeypatch, tmp_path):
    """A shop with two answers, of which the evaluator passes the first."""
    monkeypatch.setenv("GROUNDWATCH_DATABASE_URL", sqlite_url)
    monkeypatch.chdir(tmp_path)
    store = Store(sqlite_url)
    results = [
        result_of(
            make_sample(
                make_interaction(app="shop", query=query, release="v7"),
                sampled_at=NOW, sample_id=sample_id,
            ),
            [make_evaluation(score=score)], RULES, now=NOW,
        )
        for sample_id, query, score in (("s1", "How long?", 0.9), ("s2", "How much?", 0.2))
    ]  # fmt: skip
    with store.write() as connection:
        record(connection, results, now=NOW, bucket_s=60)
    yield store
    store.close()


def run(*words):
    return CliRunner().invoke(app, ["golden", *words])


def label(store, sample_id, **votes):
    given = [
        LabelRecord(sample_id=sample_id, label=vote, annotator=who) for who, vote in votes.items()
    ]
    with store.write() as connection:
        take_labels(connection, given, annotator="me", now=NOW)


def test_failure_becomes_a_test_case_with_the_expected_answer(shop, tmp_path):
    found = run("add", "s2", "--answer", "Five euros.", "--tag", "price", "--critical")
    assert found.stdout == "1 case added to golden.jsonl, which has 1 case\n"
    (case,) = TestSet.read(tmp_path / "golden.jsonl")
    assert (case.id, case.query, case.expected) == ("s2", "How much?", {"answer": "Five euros."})
    assert case.tags == ("production", "failure", "price")
    assert case.critical
    assert case.output is None
    assert case.metadata["production"]["failed"] == ["groundedness"]
    assert case.metadata["production"]["release"] == "v7"


def test_sample_is_added_once_and_others_are_kept(shop, tmp_path):
    run("add", "s1")
    found = run("add", "s1", "s2")
    assert "s1 is in golden.jsonl already" in found.stderr
    assert [case.id for case in TestSet.read(tmp_path / "golden.jsonl")] == ["s1", "s2"]


def test_unknown_sample_leaves_the_set_unchanged(shop, tmp_path):
    run("add", "s1")
    before = (tmp_path / "golden.jsonl").read_bytes()
    assert run("add", "s2", "nope").exit_code != 0
    assert (tmp_path / "golden.jsonl").read_bytes() == before


def test_majority_labels_form_the_set_without_ties(shop, tmp_path):
    label(shop, "s1", ann=True, bob=True, cleo=False)
    label(shop, "s2", ann=True, bob=False)
    found = run("export", "--app", "shop", "--annotators", "2")
    assert "1 case written" in found.stdout
    assert "1 sample disputed" in found.stdout
    assert "Krippendorff's alpha" in found.stdout
    (case,) = TestSet.read(tmp_path / "golden.jsonl")
    assert case.expected["answer"].startswith("A refund")
    assert case.tags == ("production", "good")


def test_people_overrule_the_evaluator(shop, tmp_path):
    label(shop, "s1", ann=False)
    run("export", "--app", "shop")
    (case,) = TestSet.read(tmp_path / "golden.jsonl")
    assert "failure" in case.tags
    assert "answer" not in case.expected


def test_app_without_labels_says_what_to_do(shop):
    found = run("export", "--app", "shop")
    assert found.exit_code == 1
    assert "groundwatch label" in str(found.exception)


def test_each_label_is_exported_with_the_evaluators_score(shop):
    label(shop, "s1", ann=True)
    label(shop, "s2", ann=True)
    lines = run("records", "--app", "shop").stdout.splitlines()
    one, two = (HumanAIEvaluation.model_validate(json.loads(line)) for line in lines)
    assert (one.target_event_id, one.agreement_score) == ("s1", pytest.approx(0.9))
    assert one.discrepancy_analysis == ""
    assert (two.human_evaluation.annotator_id, two.ai_evaluation.score) == ("ann", 0.2)
    assert two.discrepancy_analysis == "ann passed it, the evaluator failed it"
