"""``groundwatch eval``: an app is asked every question, once, whatever happens to the process."""

import json
import signal
import subprocess
import sys
from collections import Counter

import pytest
from typer.testing import CliRunner

from monitor.cli.app import app
from monitor.errors import BudgetReachedError, JudgeOutageError, RecordError, SettingsError
from monitor.testsets import read_run
from support.judge_server import JudgeServer

APP = """
import os, signal
from pathlib import Path

def answer(question):
    calls = Path("calls.txt")
    done = calls.read_text().splitlines() if calls.exists() else []
    if len(done) == 12 and not Path("killed").exists():
        Path("killed").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    with calls.open("a") as file:
        file.write(question + "\\n")
    return {"output": "A refund takes five days.", "contexts": ["Refunds take five days."]}
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    (tmp_path / "shop_bot.py").write_text(APP)
    lines = [json.dumps({"query": f"How long does refund {n} take?"}) for n in range(25)]
    (tmp_path / "golden.jsonl").write_text("\n".join(lines) + "\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def evaluate(*arguments):
    return CliRunner().invoke(app, ["eval", *arguments], env={"TERMINAL_WIDTH": "300"})


def test_killed_run_resumes_without_repeating_a_call(project):
    command = [sys.executable, "-m", "groundwatch", "eval", "golden.jsonl"]
    options = ["--app", "shop_bot:answer", "-o", "run.json", "--concurrency", "1"]
    first = subprocess.run([*command, *options], capture_output=True, check=False)
    assert first.returncode == -signal.SIGKILL
    assert not (project / "run.json").exists()
    again = evaluate("golden.jsonl", *options)
    assert (again.exit_code, again.stdout) == (0, "25 of 25 passed (100.0 %)\n"), again.stderr
    assert "of 25 answers exist already; resuming" in again.stderr
    calls = Counter((project / "calls.txt").read_text().splitlines())
    assert (len(calls), set(calls.values())) == (25, {1})
    assert read_run(project / "run.json").passed == 25


@pytest.fixture
def recorded(project):
    for name, output in (("good", "Five days."), ("bad", "Bananas grow in Peru.")):
        case = {"query": "How long?", "contexts": ["Refunds take five days."], "output": output}
        (project / f"{name}.jsonl").write_text(json.dumps(case) + "\n")
    return project


def test_recorded_answers_are_evaluated_and_reported(recorded):
    reports = [a for name in ("r.md", "r.html", "r.xml") for a in ("--report", name)]
    done = evaluate("bad.jsonl", "--metrics", "groundedness", *reports)
    assert (done.exit_code, done.stdout) == (0, "0 of 1 passed (0.0 %)\n")
    assert all("Bananas" in (recorded / f"r.{kind}").read_text() for kind in ("md", "html", "xml"))
    assert (recorded / "run.json").stat().st_mode & 0o077 == 0
    [result] = json.loads((recorded / "run.json").read_text())["results"]
    assert result["evaluations"][0]["evaluator_name"] == "groundedness"


def test_bad_lines_are_reported_counted_and_fail_the_exit_code(recorded):
    with (recorded / "good.jsonl").open("a") as file:
        file.write('{"category": "x"}\n')
    done = evaluate("good.jsonl")
    assert done.exit_code == 1
    assert done.stdout.startswith("1 of 1 passed")
    assert "line 2: a test case needs a query" in done.stderr
    assert "missing_field 1" in done.stderr


def test_half_an_emoji_is_replaced_and_loses_no_run(recorded):
    case = {"id": "q\ud83d", "query": "How long? \ud83d", "output": "Five days. \ud83d\ude00"}
    (recorded / "half.jsonl").write_text(json.dumps(case) + "\n")
    assert evaluate("half.jsonl").exit_code == 0
    run = read_run(recorded / "run.json")
    assert {case: note.query for case, note in run.cases.items()} == {"q\ufffd": "How long? \ufffd"}
    assert run.results[0].output == "Five days. \N{GRINNING FACE}"


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        (["good.jsonl", "--app", "nowhere:f"], SettingsError, "no module 'nowhere'"),
        (["good.jsonl", "--metrics", "grounded"], SettingsError, "no metric is called 'grounded'"),
        (["good.jsonl", "-o", "none/run.json"], SettingsError, "there is no folder none"),
        (["shop_bot.py"], RecordError, "no test case"),
    ],
)
def test_error_is_one_line_and_leaves_no_file(recorded, arguments, error, said):
    before = set(recorded.iterdir())
    done = evaluate(*arguments)
    assert isinstance(done.exception, error)
    assert said in str(done.exception)
    made = {path.name for path in set(recorded.iterdir()) - before}
    assert made <= {"home"}


def test_unknown_report_extension_is_refused_before_the_app_is_called(recorded):
    done = evaluate("good.jsonl", "--report", "r.pdf")
    assert done.exit_code == 2
    assert not (recorded / "run.json").exists()


def test_second_run_of_the_same_version_calls_the_app_for_nothing(project):
    options = ("golden.jsonl", "--app", "shop_bot:answer", "--app-version", "v1")
    (project / "killed").touch()
    for _ in range(2):
        assert evaluate(*options).exit_code == 0
    assert len((project / "calls.txt").read_text().splitlines()) == 25


# The judge.


def answered(project, monkeypatch, server, **settings):
    """Let a judge evaluate an app that answers at once."""
    (project / "killed").touch()
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    for name, value in settings.items():
        monkeypatch.setenv(f"GROUNDWATCH_{name}", value)
    return evaluate("golden.jsonl", "--app", "shop_bot:answer", "--judge", "judge")


def test_judge_outage_ends_the_run_and_nothing_is_paid_twice(project, monkeypatch):
    with JudgeServer() as server:
        server.script(["ok"] * 5)
        server.always = "401"
        stopped = answered(project, monkeypatch, server, JUDGE_CONCURRENCY="1")
        assert isinstance(stopped.exception, JudgeOutageError)
        assert "run it again to resume where it stopped" in str(stopped.exception)
        server.always = "ok"
        before = len(server.requests)
        assert answered(project, monkeypatch, server).exit_code == 0
    assert len(server.requests) - before == 20
    calls = (project / "calls.txt").read_text().splitlines()
    assert len(calls) == len(set(calls)) == 25


def test_judge_budget_applies_to_test_sets(project, monkeypatch, redis_url):
    with JudgeServer() as server:
        stopped = answered(
            project, monkeypatch, server, REDIS_URL=redis_url, BUDGET_USD_PER_DAY="0.00001"
        )
        assert isinstance(stopped.exception, BudgetReachedError)
        assert server.requests == []


def test_failed_evaluation_is_repeated_with_its_stored_answer(project, monkeypatch):
    with JudgeServer() as server:
        server.always = "malformed"
        options = ("golden.jsonl", "--app", "shop_bot:answer", "--app-version", "v1")
        (project / "killed").touch()
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        first = evaluate(*options, "--judge", "judge", "--metrics", "groundedness")
        assert "25 without a score" in first.stdout
        assert "25 x " in first.stderr
        assert "failed: the judge" in first.stderr
        server.always = "ok"
        again = evaluate(*options, "--judge", "judge", "--metrics", "groundedness")
        assert "without" not in again.stdout
    assert len((project / "calls.txt").read_text().splitlines()) == 25
