"""``groundwatch score``: in order, on all cores, and going on where it stopped."""

import json

import pytest
from typer.testing import CliRunner

from monitor.cli.app import app
from monitor.cli.score_output import ScoreOutput
from monitor.cli.score_pool import score_on_all_cores
from monitor.errors import BudgetReachedError, JudgeAwayError
from monitor.scoring.registry import make_scorer
from monitor.settings import Settings
from monitor.testing import make_interaction
from monitor.testing.judge_server import JudgeServer


@pytest.fixture
def records(tmp_path):
    path = tmp_path / "records.jsonl"
    lines = [
        json.dumps({"id": f"r{n}", "query": "How long?", "contexts": ["It takes five days."],
                    "output": f"It takes five days, {n}."})
        for n in range(20)
    ]  # fmt: skip
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def scores(tmp_path):
    return tmp_path / "scores.jsonl"


def score(records, scores, *arguments):
    command = ["score", str(records), "-o", str(scores), *arguments]
    return CliRunner().invoke(app, command, env={"TERMINAL_WIDTH": "300"})


def rows(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_one_line_a_record_in_the_order_of_the_file(records, scores):
    assert score(records, scores).exit_code == 0
    assert [row["id"] for row in rows(scores)] == [f"r{n}" for n in range(20)]


def test_run_that_was_cut_off_is_gone_on_with(records, scores):
    score(records, scores)
    whole = scores.read_bytes()
    lines = whole.splitlines(keepends=True)
    scores.write_bytes(b"".join(lines[:7]) + lines[7][:40])
    assert score(records, scores).exit_code == 0
    again = scores.read_bytes()
    assert again.startswith(b"".join(lines[:7]))
    assert [row["id"] for row in rows(scores)] == [f"r{n}" for n in range(20)]


def test_run_that_is_complete_changes_nothing(records, scores):
    score(records, scores)
    before = scores.read_bytes()
    assert "20 records are scored already" in score(records, scores).output
    assert scores.read_bytes() == before


@pytest.mark.parametrize(
    ("before", "said"),
    [
        ('{"id": "r0", "evaluations": []}\n', "scored in another way"),
        ("my diary\n", "line 1 is no score"),
    ],
)
def test_file_of_something_else_is_left_alone(records, scores, before, said):
    scores.write_text(before)
    result = score(records, scores)
    assert result.exit_code == 2
    assert said in " ".join(result.output.split())
    assert scores.read_text() == before


def test_scores_of_other_records_are_not_gone_on_with(records, scores):
    score(records, scores)
    other = records.with_name("other.jsonl")
    other.write_text(records.read_text().replace('"r3"', '"x3"'))
    result = score(other, scores)
    assert "line 4 is about another record" in " ".join(result.output.split())


def test_overwriting_begins_anew(records, scores):
    scores.write_text("my diary\n")
    assert score(records, scores, "--overwrite").exit_code == 0
    assert len(rows(scores)) == 20


def test_half_characters_are_written_as_they_came(tmp_path):
    target = ScoreOutput.open(tmp_path / "o", not_over=tmp_path / "i")
    target.write('{"id": "\ud800"}')
    target.close()
    assert json.loads((tmp_path / "o").read_bytes()) == {"id": "\ud800"}


def test_processes_give_the_lines_that_one_would():
    asked = [make_interaction(query=f"How long {n}?") for n in range(300)]
    settings = Settings()
    found = score_on_all_cores(iter(asked), settings, make_scorer(settings))
    lines = [json.loads(scored.line) for scored in found]
    assert [line["id"] for line in lines] == [interaction.id for interaction in asked]
    assert {e["evaluator_name"] for line in lines for e in line["evaluations"]} == set(
        settings.metrics
    )


@pytest.mark.parametrize(("judge", "asked"), [("judge", 20), ("cascade", range(1, 20))])
def test_judge_is_chosen_on_the_command_line(records, scores, monkeypatch, judge, asked):
    monkeypatch.setenv("GROUNDWATCH_JUDGE_SHARE", "0.5")
    with JudgeServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        assert score(records, scores, "--judge", judge).exit_code == 0
    calls = len(server.requests)
    assert calls == asked if isinstance(asked, int) else calls in asked
    versions = {e["evaluator_version"] for row in rows(scores) for e in row["evaluations"]}
    assert all(version.startswith(judge) for version in versions)


def test_judge_that_is_away_ends_the_run_and_the_next_goes_on(records, scores, monkeypatch):
    monkeypatch.setenv("GROUNDWATCH_JUDGE_CONCURRENCY", "2")
    with JudgeServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        server.script(["ok"] * 5)
        server.always = "401"
        stopped = score(records, scores, "--judge", "judge")
        assert isinstance(stopped.exception, JudgeAwayError)
        assert "run it again to go on" in str(stopped.exception)
        assert len(rows(scores)) < 20
        server.always = "ok"
        assert score(records, scores, "--judge", "judge").exit_code == 0
    assert [row["id"] for row in rows(scores)] == [f"r{n}" for n in range(20)]


def test_budget_holds_for_files_too(records, scores, redis_url, monkeypatch):
    monkeypatch.setenv("GROUNDWATCH_REDIS_URL", redis_url)
    monkeypatch.setenv("GROUNDWATCH_BUDGET_USD_PER_DAY", "0.00001")
    with JudgeServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        stopped = score(records, scores, "--judge", "judge")
    assert isinstance(stopped.exception, BudgetReachedError)
    assert server.requests == []
