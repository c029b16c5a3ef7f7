"""``groundwatch score``: in order, on all cores, and going on where it stopped."""

import json
import multiprocessing
import os
import re
import signal
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
from typer.testing import CliRunner

from monitor.cli.app import app
from monitor.cli.score import ScoreOutput, begin_process, score_on_all_cores
from monitor.errors import BudgetReachedError, GroundwatchError, JudgeOutageError
from monitor.queue.consumer import connect
from monitor.scoring.limits.budget import Budget, Cap
from monitor.scoring.registry import make_scorer
from monitor.settings import Settings
from monitor.testing import make_interaction
from support.judge_server import JudgeServer


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


def test_interrupted_run_is_continued(records, scores):
    score(records, scores)
    whole = scores.read_bytes()
    lines = whole.splitlines(keepends=True)
    scores.write_bytes(b"".join(lines[:7]) + lines[7][:40])
    assert score(records, scores).exit_code == 0
    again = scores.read_bytes()
    assert again.startswith(b"".join(lines[:7]))
    assert [row["id"] for row in rows(scores)] == [f"r{n}" for n in range(20)]


def test_completed_run_changes_nothing(records, scores):
    score(records, scores)
    before = scores.read_bytes()
    assert "20 records scored already" in score(records, scores).output
    assert scores.read_bytes() == before


@pytest.mark.parametrize(
    ("before", "said"),
    [
        ('{"id": "r0", "evaluations": []}\n', "scored in another way"),
        ("my diary\n", "line 1 is not a score"),
    ],
)
def test_output_file_with_other_content_is_left_unchanged(records, scores, before, said):
    scores.write_text(before)
    result = score(records, scores)
    assert result.exit_code == 2
    assert said in " ".join(re.findall(r"[^\s│]+", result.output))
    assert scores.read_text() == before


def test_scores_of_other_records_are_not_continued(records, scores):
    score(records, scores)
    other = records.with_name("other.jsonl")
    other.write_text(records.read_text().replace('"r3"', '"x3"'))
    result = score(other, scores)
    assert "line 4 is about another record" in " ".join(re.findall(r"[^\s│]+", result.output))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda text: text.replace("five days, 3", "six days, 3"), "other content of record 'r3'"),
        (lambda text: text.replace("How long?", "How soon?", 1), "other content of record 'r0'"),
        (lambda text: "".join(text.splitlines(keepends=True)[:7]), "has 20 lines for 7 records"),
    ],
    ids=["answer", "question", "fewer"],
)
def test_no_score_is_kept_for_a_text_that_it_is_not_of(records, scores, change, said):
    score(records, scores)
    before = scores.read_bytes()
    records.write_text(change(records.read_text()))
    result = score(records, scores)
    assert result.exit_code == 2
    assert said in " ".join(re.findall(r"[^\s│]+", result.output))
    assert scores.read_bytes() == before


def test_records_without_ids_are_told_apart_by_their_content(tmp_path, scores):
    for answer in ("five", "nine"):
        line = {"contexts": ["It takes five days."], "output": f"It takes {answer} days."}
        (tmp_path / f"{answer}.jsonl").write_text(json.dumps(line))
    assert score(tmp_path / "five.jsonl", scores).exit_code == 0
    again = score(tmp_path / "five.jsonl", scores)
    assert (again.exit_code, "1 record scored already" in again.output) == (0, True)
    assert score(tmp_path / "nine.jsonl", scores).exit_code == 2


def test_overwrite_starts_from_scratch(records, scores):
    scores.write_text("my diary\n")
    assert score(records, scores, "--overwrite").exit_code == 0
    assert len(rows(scores)) == 20


def test_lone_surrogates_are_written_unchanged(tmp_path):
    target = ScoreOutput(tmp_path / "o", not_over=tmp_path / "i")
    target.write('{"id": "\ud800"}')
    target.close()
    assert json.loads((tmp_path / "o").read_bytes()) == {"id": "\ud800"}


def test_several_processes_write_the_same_lines_as_one():
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


def test_records_without_output_are_scored_by_what_reads_none(tmp_path, scores):
    line = {"contexts": [{"id": "a", "text": "x"}], "expected": {"relevant": ["a"]}}
    (tmp_path / "f.jsonl").write_text(json.dumps(line))
    both = score(tmp_path / "f.jsonl", scores, "--metrics", "mrr,groundedness")
    assert both.exit_code == 0
    [[mrr, grounded]] = [row["evaluations"] for row in rows(scores)]
    assert (mrr["score"], grounded["metadata"]["reason"]) == (1.0, "empty_output")
    none = score(tmp_path / "f.jsonl", scores, "--overwrite", "--metrics", "groundedness")
    assert none.exit_code == 1
    assert "column 'output' is missing" in none.output


def test_judge_outage_ends_the_run_and_the_next_continues(records, scores, monkeypatch):
    monkeypatch.setenv("GROUNDWATCH_JUDGE_CONCURRENCY", "2")
    with JudgeServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        server.script(["ok"] * 5)
        server.always = "401"
        stopped = score(records, scores, "--judge", "judge")
        assert isinstance(stopped.exception, JudgeOutageError)
        assert "run it again to resume" in str(stopped.exception)
        assert len(rows(scores)) < 20
        server.always = "ok"
        assert score(records, scores, "--judge", "judge").exit_code == 0
    assert [row["id"] for row in rows(scores)] == [f"r{n}" for n in range(20)]


def test_missing_scores_are_explained_at_the_end(records, scores, monkeypatch):
    monkeypatch.setenv("GROUNDWATCH_JUDGE_ATTEMPTS", "1")
    with JudgeServer(always="500") as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        metrics = ("--metrics", "groundedness,precision_at_k")
        failed = score(records, scores, "--judge", "judge", *metrics)
    assert failed.exit_code == 1
    assert "20 x groundedness failed: the judge's endpoint answered 500" in failed.stderr
    said = "skipped (no_expected_relevant): The sample has no expected.relevant."
    assert f"20 x precision_at_k {said}" in failed.stderr


def test_budget_applies_to_files_too(records, scores, redis_url, monkeypatch):
    monkeypatch.setenv("GROUNDWATCH_REDIS_URL", redis_url)
    monkeypatch.setenv("GROUNDWATCH_BUDGET_USD_PER_DAY", "0.00001")
    with JudgeServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        stopped = score(records, scores, "--judge", "judge")
    assert isinstance(stopped.exception, BudgetReachedError)
    assert server.requests == []


def test_run_waits_for_budget_reserved_by_running_calls(records, scores, redis_url, monkeypatch):
    monkeypatch.setattr("monitor.scoring.limits.meter._BUSY_WAIT_S", 0.001)
    monkeypatch.setenv("GROUNDWATCH_REDIS_URL", redis_url)
    monkeypatch.setenv("GROUNDWATCH_BUDGET_USD_PER_DAY", "1")
    with connect(redis_url) as client, JudgeServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        budget = Budget(client, [Cap("day", 1_000_000)])
        held = budget.reserve(999_999)
        threading.Timer(0.5, budget.settle, (held, 0)).start()
        done = score(records, scores, "--judge", "judge")
    assert done.exit_code == 0, done.output
    assert len(rows(scores)) == 20


def test_budget_applies_to_metrics_with_their_own_questions(
    records, scores, redis_url, monkeypatch
):
    monkeypatch.setenv("GROUNDWATCH_REDIS_URL", redis_url)
    monkeypatch.setenv("GROUNDWATCH_BUDGET_USD_PER_DAY", "0.00001")
    with JudgeServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        stopped = score(records, scores, "--judge", "judge", "--metrics", "answer_relevancy")
    assert isinstance(stopped.exception, BudgetReachedError)
    assert scores.read_bytes() == b""


def test_records_come_through_a_pipe(records, scores):
    piped = CliRunner().invoke(app, ["score", "-", "-o", str(scores)], input=records.read_bytes())
    assert piped.exit_code == 0, piped.output
    assert [row["id"] for row in rows(scores)] == [f"r{n}" for n in range(20)]


def test_run_from_a_pipe_is_continued_like_one_from_a_file(records, scores):
    score(records, scores)
    whole = scores.read_bytes()
    scores.write_bytes(whole[: len(whole) // 2])
    CliRunner().invoke(app, ["score", "-", "-o", str(scores)], input=records.read_bytes())
    assert [row["id"] for row in rows(scores)] == [f"r{n}" for n in range(20)]


def test_empty_pipe_is_reported(scores):
    result = CliRunner().invoke(app, ["score", "-", "-o", str(scores)], input=b"")
    assert str(result.exception).startswith("stdin: empty")


def test_scores_can_be_written_to_a_device(records):
    assert score(records, "/dev/null").exit_code == 0


def test_full_disk_is_reported_without_a_traceback(records):
    result = score(records, "/dev/full")
    assert isinstance(result.exception, GroundwatchError)
    assert "No space left on device; make room and run it again" in str(result.exception)


def test_two_runs_do_not_write_to_one_file(records, scores):
    held = ScoreOutput(scores, not_over=records)
    result = score(records, scores)
    held.close()
    assert result.exit_code == 2
    assert "is being written to by another run" in " ".join(result.output.replace("│", " ").split())
    again = score(records, scores)
    assert again.exit_code == 0, again.output


def test_processes_end_when_the_run_is_killed(tmp_path):
    parent = multiprocessing.get_context("spawn").Process(target=_start_and_wait, args=(tmp_path,))
    parent.start()
    assert _eventually((tmp_path / "pid").exists)
    os.kill(parent.pid, signal.SIGKILL)
    parent.join()
    assert _eventually(lambda: not _runs(int((tmp_path / "pid").read_text())))


def _start_and_wait(folder):
    pool = ProcessPoolExecutor(
        1, multiprocessing.get_context("spawn"), initializer=begin_process, initargs=(Settings(),)
    )
    pid = pool.submit(os.getpid).result()
    (folder / "new").write_text(str(pid))
    (folder / "new").rename(folder / "pid")
    time.sleep(60)


def _eventually(condition):
    end_s = time.monotonic() + 100
    while not condition() and time.monotonic() < end_s:
        time.sleep(0.02)
    return condition()


def _runs(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
