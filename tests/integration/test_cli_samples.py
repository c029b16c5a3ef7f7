"""``groundwatch samples``: what it lists, as text, JSON and files, and what it refuses."""

import csv
import json
import re
import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from monitor.cli.app import app
from monitor.errors import SettingsError
from monitor.models import Evaluation
from monitor.scoring.metrics import METRICS
from monitor.store.engine import Store
from monitor.store.write import record
from monitor.testing import make_evaluation, make_interaction, make_sample
from workers.scoring_run import ScoringRules, result_of

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
SKIPPED = Evaluation.skipped(target_event_id="i", evaluator_name="groundedness", reason="no_query")


@pytest.fixture
def run(sqlite_url, monkeypatch):
    monkeypatch.setenv("GROUNDWATCH_DATABASE_URL", sqlite_url)
    store, rules = Store(sqlite_url), ScoringRules(pass_score=0.7, bucket_s=60)
    for number, evaluation in enumerate(
        (make_evaluation(score=0.2), make_evaluation(score=0.9), SKIPPED)
    ):
        interaction = make_interaction(
            query=f"=question {number}", user_id=f"u{number}", session_id="s1"
        )
        result = result_of(make_sample(interaction), (evaluation,), rules, now=NOW)
        with store.write() as connection:
            record(connection, [result], now=NOW, bucket_s=60)
    store.close()
    return lambda *words: CliRunner().invoke(app, ["samples", *words])


def test_samples_are_listed_with_question_and_result(run):
    text = run("--failed").stdout
    assert "groundedness FAIL 0.20" in text
    assert "Q  =question 0" in text
    assert "question 1" not in text


def test_empty_answer_is_called_empty(run, sqlite_url):
    store, rules = Store(sqlite_url), ScoringRules(pass_score=0.7, bucket_s=60)
    sample = make_sample(make_interaction(output="", user_id="silent"))
    with store.write() as connection:
        record(connection, [result_of(sample, (), rules, now=NOW)], now=NOW, bucket_s=60)
    store.close()
    assert "A  (empty answer)" in run("--user", "silent").stdout


def test_session_is_listed_with_its_worst_turn_and_whether_it_is_resolved(run):
    said = run("--session", "s1").stdout
    [worst] = json.loads(run("--user", "u0", "--json").stdout)["items"]
    assert f"groundedness: 2 turns, 1 failed, worst 0.20 (id {worst['sample_id']}), " in said
    assert said.startswith("session s1 of ")
    assert said.index("resolved") < said.index("=question")
    assert "resolved" not in run("--user", "u0").stdout + run("--session", "s2").stdout


def test_missing_score_is_explained_in_words_and_keeps_its_code(run):
    said = "groundedness not scored (no_query): The sample has no question."
    assert said in run("--unscored").stdout
    [found] = json.loads(run("--unscored", "--json").stdout)["items"]
    assert found["evaluations"][0]["reason"] == "no_query"


def test_unknown_reason_names_those_that_there_are(run):
    said = run("--reason", "no_contexts").output
    assert "no samples match" in said
    assert "has the reason 'no_contexts': did you mean no_context? there are" in said
    assert "judge_unavailable" in said
    assert "there are" not in run("--reason", "no_context").output  # known, and none has it
    assert "there are answerable, " in " ".join(run("--reason", "zzz", "--json").stderr.split())


def test_help_names_a_reason_that_there_is():
    page = (Path(__file__).parents[2] / "docs/reference/cli.md").read_text(encoding="utf-8")
    [named] = re.findall(r"Why there is no score: (\w+)\.", page)
    assert named in METRICS["groundedness"].declaration.reasons()


@pytest.mark.parametrize(
    ("words", "users"),
    [
        (["--passed"], ["u1"]),
        (["--unscored", "--reason", "no_query"], ["u2"]),
        (["--user", "u0"], ["u0"]),
        (["--metric", "groundedness", "--sort", "highest"], ["u1", "u0"]),
        (["--metric", "groundedness", "--max-score", "0.5"], ["u0"]),
        (["--text", "question 1"], ["u1"]),
    ],
)
def test_options_narrow_the_list_for_programs(run, words, users):
    found = json.loads(run(*words, "--json").stdout)
    assert [item["user_id"] for item in found["items"]] == users


def test_next_page_continues_where_the_last_one_ended(run):
    first = json.loads(run("--limit", "2", "--json").stdout)
    rest = json.loads(run("--cursor", first["next"], "--json").stdout)
    assert [len(first["items"]), len(rest["items"]), rest["next"]] == [2, 1, None]


def test_export_file_is_private_and_contains_no_formula(run, tmp_path):
    file = tmp_path / "found.csv"
    assert run("-o", str(file)).exit_code == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    rows = list(csv.DictReader(file.read_text().splitlines()))
    assert {row["query"][:2] for row in rows} == {"'="}


@pytest.mark.parametrize(
    "words",
    [["--failed", "--passed"], ["--min-score", "0.5"], ["--sort", "lowest"], ["-o", "x.txt"],
     ["--since", "yesterday"], ["--since", "ago"], ["--label", "good"], ["--cursor", "x"]],
)  # fmt: skip
def test_invalid_option_is_refused_in_one_line(run, words):
    done = run(*words)
    assert done.exit_code == 2
    assert "Traceback" not in done.output
    assert "Invalid value" in done.output


def test_metric_that_nothing_was_evaluated_by_is_refused(run):
    done = run("--metric", "groundednes")
    assert isinstance(done.exception, SettingsError)  # which the command ends with 3
    said = "unknown metric 'groundednes'; expected one of groundedness"
    assert str(done.exception) == said


@pytest.mark.parametrize("option", ["--tag", "--segment"])
@pytest.mark.parametrize("value", ["variant", "=A"])
def test_pair_without_a_name_or_a_value_is_refused(run, option, value):
    done = run(option, value)
    assert done.exit_code == 2
    said = " ".join(done.output.replace("│", "").split())
    assert f"expected name=value, not '{value}'" in said


def test_time_may_be_said_to_be_ago(run):
    assert "no samples match" in run("--since", "1m ago").stdout
    assert "question 1" in run("--since", "3000d ago").stdout
