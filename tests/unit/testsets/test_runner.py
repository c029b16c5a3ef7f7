"""The runner: a user's app is asked once a case, its errors are counted, its answers evaluated."""

import asyncio
import json
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from monitor.errors import RecordError, SettingsError
from monitor.testsets import EvaluationRunner, TestSet, read_run

REFUND = {"input": "How long does a refund take?", "contexts": ["Refunds take five days."]}
GOOD, BAD = "A refund takes five days.", "Bananas grow on trees in Peru."
RUBRIC = {"accuracy": {"weight": 0.3}, "completeness": {"weight": 0.7}}


class Fixed(EvaluationRunner):
    """Scores as the test says, without any metric."""

    def evaluate_dimension(self, output, ground_truth, dimension, config):
        return ground_truth[dimension]


class Agent:
    def run(self, question):
        return f"answer to {question}"


def cases(n, **fields):
    return TestSet("set", [{"id": f"c{i}", "query": f"Question {i}?", **fields} for i in range(n)])


# As users of the plain classes wrote their code.


def test_runner_reproduces_the_documented_example():
    test_set = TestSet("research")
    scores = [(1.0, 1.0), (0.0, 0.9), (0.8, 0.8), (0.9, 0.5), (0.7, 0.7)]
    for number, (accuracy, completeness) in enumerate(scores):
        test_set.add_test(
            {
                "input": f"Question {number}?",
                "expected": {"accuracy": accuracy, "completeness": completeness},
                "tags": ["even" if number % 2 == 0 else "odd"],
                "complexity": "simple" if number == 0 else "hard",
            }
        )
    assert test_set.tags == {"even": [0, 2, 4], "odd": [1, 3]}
    assert len(test_set.filter(complexity="hard")) == 4
    assert test_set.get_complexity_distribution() == {"simple": 1, "hard": 4}

    runner = Fixed(test_set, RUBRIC, Agent())
    assert runner.summarize() == {"error": "No results"}
    summary = runner.run_all()
    assert [r["output"] for r in runner.results][:1] == ["answer to Question 0?"]
    assert summary["total_tests"] == 5
    assert (summary["passed"], summary["failed"], summary["pass_rate"]) == (3, 2, 0.6)
    assert summary["dimension_averages"] == pytest.approx({"accuracy": 0.68, "completeness": 0.78})
    assert [r["test"]["input"] for r in summary["failures"]] == ["Question 1?", "Question 3?"]
    overall = [r["evaluation"]["overall_score"] for r in runner.results]
    assert overall == pytest.approx([1.0, 0.63, 0.8, 0.62, 0.7])


def test_one_test_and_one_output_are_evaluated_alone():
    runner = EvaluationRunner(TestSet("x"), ["groundedness"], lambda _: BAD)
    result = runner.run_test(REFUND)
    assert (result["output"], result["evaluation"]["passed"]) == (BAD, False)
    evaluation = runner.evaluate_output(GOOD, REFUND)
    assert evaluation["passed"] is True
    assert evaluation["dimension_scores"] == {"groundedness": evaluation["overall_score"]}


def test_number_of_each_test_is_printed_when_asked_for(capsys):
    Fixed(cases(2, expected={"a": 1.0}), ["a"], Agent()).run_all(verbose=True)
    assert capsys.readouterr().out.splitlines() == ["Running test 1/2", "Running test 2/2"]


# Figures.


@pytest.mark.parametrize("seed", range(8))
def test_runner_figures_equal_numpys_on_random_runs(seed):
    random = np.random.default_rng(seed)
    for _ in range(25):
        n = int(random.integers(1, 30))
        scores = random.beta(3, 1, n)
        kinds = random.choice(["a", "b", "c"], n)
        runner = Fixed(
            TestSet("x", [
                {"query": f"{i}", "expected": {"m": float(s)}, "category": str(k)}
                for i, (s, k) in enumerate(zip(scores, kinds, strict=True))
            ]), ["m"], Agent(),
        )  # fmt: skip
        found = runner.run_all()
        m = found["metrics"]["m"]
        assert m["mean"] == pytest.approx(scores.mean())
        assert m["median"] == pytest.approx(np.median(scores))
        assert m["std_dev"] == pytest.approx(scores.std(ddof=1) if n > 1 else 0.0)
        assert (m["min"], m["max"]) == (scores.min(), scores.max())
        for percentile in (5, 95):
            assert m[f"percentile_{percentile}"] == pytest.approx(np.percentile(scores, percentile))
        counts, edges = np.histogram(scores, bins=10, range=(0, 1))
        bins = {f"{low:.1f}-{low + 0.1:.1f}": c for low, c in zip(edges, counts, strict=False) if c}
        assert {each["bin"]: each["count"] for each in m["histogram"]} == bins
        assert m["passed"] == found["passed"] == (scores >= 0.7).sum()
        for kind in set(kinds):
            mine = found["per_category"][kind]
            assert mine["count"] == (kinds == kind).sum()
            assert mine["m"] == pytest.approx(scores[kinds == kind].mean())


# The app.


async def asynchronous(question):
    await asyncio.sleep(0)
    return GOOD


async def pieces_later(question):
    for piece in GOOD.split(" "):
        yield piece + " "


def pieces(question):
    yield from (piece + " " for piece in GOOD.split(" "))


APPS = {
    "function": lambda _: GOOD,
    "coroutine": asynchronous,
    "generator": pieces,
    "asynchronous generator": pieces_later,
    "object with run": type("Bot", (), {"run": lambda self, question: GOOD})(),
    "text and passages": lambda _: (GOOD, ["Refunds take five days."]),
    "object": lambda _: {"answer": GOOD, "retrieved_contexts": ["Refunds take five days."]},
    "named arguments": lambda _, contexts, case, history: {"output": GOOD, "contexts": contexts},
}


@pytest.mark.parametrize("app", APPS.values(), ids=APPS)
def test_app_may_return_any_usual_shape(app):
    runner = EvaluationRunner(TestSet("x", [REFUND]), ["groundedness"], app)
    assert runner.run_all()["passed"] == 1


def test_app_is_found_by_its_name_from_the_current_folder(tmp_path, monkeypatch):
    (tmp_path / "some_bot.py").write_text(f"def answer(question):\n    return {GOOD!r}\n")
    monkeypatch.chdir(tmp_path)
    runner = EvaluationRunner(TestSet("x", [REFUND]), ["groundedness"], "some_bot:answer")
    assert runner.run_all()["passed"] == 1
    assert runner.run.app == "some_bot:answer"


@pytest.mark.parametrize(
    ("app", "said"),
    [
        ("nowhere_at_all:answer", "no module 'nowhere_at_all'"),
        ("json:nothing", "'json' has no 'nothing'"),
        ("json:__doc__", "is not a function"),
        ("missing.jsonl", "expected module:function"),
    ],
)
def test_missing_app_is_refused_before_anything_runs(app, said):
    with pytest.raises(SettingsError, match=said):
        EvaluationRunner(TestSet("x", [REFUND]), ["groundedness"], app).run_all()


def test_recorded_answers_need_no_app(tmp_path):
    recorded = tmp_path / "answers.jsonl"
    recorded.write_text(json.dumps({"question": REFUND["input"], "answer": GOOD}) + "\n")
    tests = TestSet("x", [REFUND | {"actual_output": BAD}])
    assert EvaluationRunner(tests, ["groundedness"]).run_all()["failed"] == 1
    assert EvaluationRunner(tests, ["groundedness"], str(recorded)).run_all()["passed"] == 1
    without = EvaluationRunner(TestSet("x", [REFUND]), ["groundedness"]).run_all()
    assert without["app_errors"] == 1


HTTP_CALLS = Counter()


class Endpoint(BaseHTTPRequestHandler):
    """An app behind HTTP: busy at the first call, broken for one question."""

    def log_message(self, *_):
        pass

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        HTTP_CALLS[asked["query"]] += 1
        is_busy = "busy" in asked["query"] and HTTP_CALLS[asked["query"]] == 1
        status = 429 if is_busy else 500 if "broken" in asked["query"] else 200
        body = json.dumps({"answer": GOOD, "contexts": ["Refunds take five days."]}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Retry-After-Ms", "1")
        self.end_headers()
        self.wfile.write(body)


def test_http_app_is_called_by_post_and_its_refusals_counted():
    with ThreadingHTTPServer(("127.0.0.1", 0), Endpoint) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        tests = TestSet("x", [{"query": q} for q in ("refund?", "busy refund?", "broken?")])
        url = f"http://127.0.0.1:{server.server_port}/answer"
        runner = EvaluationRunner(tests, ["groundedness"], url, retries=1)
        summary = runner.run_all()
        server.shutdown()
    assert (summary["passed"], summary["app_errors"]) == (2, 1)
    assert [each.attempts for each in runner.run.results] == [1, 2, 2]
    assert runner.run.results[2].error.message == "HTTP 500"


def test_error_of_the_app_is_counted_and_never_scored():
    def app(question):
        if "1" in question:
            raise ValueError("no index")
        return 7 if "2" in question else GOOD

    runner = EvaluationRunner(cases(4, contexts=["Refunds take five days."]), ["groundedness"], app)
    summary = runner.run_all()
    assert (summary["total_tests"], summary["app_errors"]) == (4, 2)
    assert summary["passed"] + summary["failed"] == summary["metrics"]["groundedness"]["n"] == 2
    failed = [each["error"] for each in runner.results if each["error"]]
    assert failed[0] == {"type": "ValueError", "message": "no index"}
    assert failed[1]["message"].startswith("the app returned int; expected a text")


def test_half_an_emoji_of_the_app_is_replaced_in_answer_and_error(tmp_path):
    def app(question):
        if "1" in question:
            raise ValueError("no \ud83d")
        return "Refunds take five days. \ud83d", ["Refunds take five days."]

    output = tmp_path / "run.json"
    EvaluationRunner(cases(2), ["groundedness"], app, output=output).run_all()
    answer, error = read_run(output).results
    assert answer.output == "Refunds take five days. \ufffd"
    assert answer.passed
    assert error.error.message == "no \ufffd"


def test_hanging_app_call_is_an_error_and_delays_nothing():
    hang = threading.Event()
    app = {"c0": hang.wait}

    def answer(question, case):
        return app.get(case.id, lambda: GOOD)()

    options = {"timeout_s": 1.0, "concurrency": 1}
    summary = Fixed(cases(3, expected={"a": 1.0}), ["a"], answer, **options).run_all()
    hang.set()
    assert (summary["app_errors"], summary["passed"]) == (1, 2)


def test_failed_call_is_retried_the_configured_number_of_times():
    calls = Counter()

    def flaky(question):
        calls[question] += 1
        if calls[question] < 2:
            raise ConnectionError
        return GOOD

    tests = cases(1, expected={"a": 1.0})
    assert Fixed(tests, ["a"], flaky).run_all()["app_errors"] == 1
    calls.clear()
    runner = Fixed(tests, ["a"], flaky, retries=1)
    assert runner.run_all()["passed"] == 1
    assert runner.run.results[0].attempts == 2


def test_number_of_concurrent_calls_is_limited_as_configured():
    most, now, lock = [0], [0], threading.Lock()

    def app(question):
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        time.sleep(0.02)
        with lock:
            now[0] -= 1
        return GOOD

    Fixed(cases(12, expected={"a": 1.0}), ["a"], app, concurrency=4).run_all()
    assert most == [4]


def test_runner_works_inside_a_running_event_loop():
    async def notebook():
        return Fixed(cases(1, expected={"a": 1.0}), ["a"], Agent()).run_all()

    assert asyncio.run(notebook())["passed"] == 1


def test_repeats_and_models_feed_the_metrics_of_consistency():
    def app(question, model):
        return GOOD if model == "large" else BAD

    tests = TestSet("x", [REFUND])
    names = ["groundedness", "answer_uncertainty", "level_consistency", "level_agreement"]
    runner = EvaluationRunner(tests, names, app, models=["large", "small"], repeat=2)
    summary = runner.run_all()
    assert summary["total_tests"] == 4
    [together] = runner.run.consistency.values()
    scores = {each.evaluator_name: each.score for each in together}
    assert scores == {"answer_uncertainty": None, "level_consistency": 0.5, "level_agreement": 0.5}
    assert summary["metrics"]["level_agreement"]["n"] == 1


def test_score_outside_its_range_is_a_failed_evaluation():
    summary = Fixed(cases(1, expected={"a": 7.0}), ["a"], Agent()).run_all()
    assert (summary["unscored"], summary["pass_rate"]) == (1, None)
    assert summary["metrics"]["a"] == {"n": 0, "not_scored": {"out_of_range": 1}}


@pytest.mark.parametrize("option", ["concurrency", "repeat", "timeout_s"])
def test_invalid_option_is_refused(option):
    with pytest.raises(SettingsError, match=f"Invalid {option} 0"):
        EvaluationRunner(TestSet("x"), ["a"], None, **{option: 0})


# The file of a run.


class Paid:
    """An app that counts its calls."""

    def __init__(self):
        self.calls = Counter()

    def answer(self, question):
        self.calls[question] += 1
        return GOOD


class PowerCut(Exception):
    pass


def stopped(tests, output, after):
    """Run the tests until so many are done."""

    def stop(done, _total):
        if done == after:
            raise PowerCut

    paid = Paid()
    options = {"output": output, "concurrency": 1, "on_progress": stop}
    with pytest.raises(PowerCut):
        Fixed(tests, ["a"], paid.answer, **options).run_all()
    return paid


def test_stopped_run_continues_without_repeating_a_call(tmp_path):
    tests, output = cases(9, expected={"a": 1.0}), tmp_path / "run.json"
    paid = stopped(tests, output, 5)
    assert not output.exists()
    again = Fixed(tests, ["a"], paid.answer, output=output)
    assert again.run_all()["passed"] == 9
    assert set(paid.calls.values()) == {1}
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["run.json"]
    assert read_run(output) == again.run


def test_truncated_line_loses_at_most_its_own_answer(tmp_path):
    tests, output = cases(3, expected={"a": 1.0}), tmp_path / "run.json"
    paid = stopped(tests, output, 2)
    part = tmp_path / "run.json.part"
    part.write_bytes(part.read_bytes()[:-9])
    assert Fixed(tests, ["a"], paid.answer, output=output).run_all()["passed"] == 3
    assert paid.calls.total() - 3 <= 1


def test_unfinished_run_of_another_app_is_not_continued(tmp_path):
    tests, output = cases(3, expected={"a": 1.0}), tmp_path / "run.json"
    stopped(tests, output, 2)
    with pytest.raises(RecordError, match=r"unfinished run of .*Paid.answer ; finish it"):
        Fixed(tests, ["a"], Agent(), output=output).run_all()
    assert Fixed(tests, ["a"], Agent(), output=output, overwrite=True).run_all()["passed"] == 3


def test_answers_of_the_same_version_are_reused(tmp_path):
    output, paid = tmp_path / "run.json", Paid()

    def run(tests, **options):
        Fixed(tests, ["a"], paid.answer, output=output, **options).run_all()
        calls = paid.calls.total()
        paid.calls.clear()
        return calls

    three = cases(3, expected={"a": 1.0})
    assert run(three, app_version="v1") == 3
    assert run(three, app_version="v1") == 0
    assert run(cases(4, expected={"a": 1.0}), app_version="v1") == 1
    assert run(three, app_version="v2") == 3
    assert run(cases(3, expected={"a": 0.5}), app_version="v2") == 3
    assert run(three) == 3
    assert run(three) == 3


def test_changed_evaluator_reuses_answers_and_repeats_evaluations(tmp_path):
    paid, tests = Paid(), TestSet("x", [REFUND])
    for names in (["groundedness"], ["groundedness", "faithfulness"]):
        runner = EvaluationRunner(
            tests, names, paid.answer, output=tmp_path / "run.json", app_version="v1"
        )
        assert set(runner.run_all()["dimension_averages"]) == set(names)
    assert paid.calls.total() == 1


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"format": 2}'])
def test_file_that_holds_no_run_is_refused_in_one_line(tmp_path, text):
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(RecordError, match=r"^[^\n]*run.json: not a run of groundwatch eval[^\n]*$"):
        read_run(tmp_path / "run.json")
