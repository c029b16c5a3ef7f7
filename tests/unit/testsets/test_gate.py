"""The gate: what fails, what passes, and what a set of cases cannot decide."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from monitor.cli.app import app
from monitor.errors import NotComparableError, SettingsError
from monitor.models.evaluation import Direction, PassRule
from monitor.testsets.gate import GateOutcome, GatePolicy, decide
from monitor.testsets.report import as_html, as_markdown, gate_junit, gate_page, run_junit, run_page

PASS, FAIL, OPEN = GateOutcome.PASS, GateOutcome.FAIL, GateOutcome.NOT_DECIDED


def check(report, name, metric=None):
    [found] = [c for c in report.checks if (c.name, c.metric) == (name, metric)]
    return found


# Falls of a mean.


@pytest.mark.parametrize("spread", [0.0, 0.02])
@pytest.mark.parametrize(
    ("metric", "drop", "outcome"),
    [
        ("relevance", 0.049, PASS),
        ("relevance", 0.051, FAIL),
        ("relevance", 0.05, PASS),
        ("faithfulness", 0.019, PASS),
        ("faithfulness", 0.021, FAIL),
    ],
)
def test_only_a_fall_beyond_its_limit_is_a_regression(golden_run, metric, drop, outcome, spread):
    random = np.random.default_rng(1)
    before = random.uniform(0.8, 0.9, 200)
    noise = random.normal(0, spread, 200)
    after = before - drop + noise - noise.mean()
    report = decide(golden_run({metric: after}), golden_run({metric: before}))
    assert report.outcome is outcome
    assert report.exit_code == (outcome is FAIL)


def test_rise_of_a_metric_that_is_better_when_lower_is_a_fall(golden_run):
    rules = {"toxicity": PassRule(0.3, Direction.LOWER)}
    low, high = ([value] * 40 for value in (0.1, 0.2))
    worse = decide(
        golden_run({"toxicity": high}, rules=rules), golden_run({"toxicity": low}, rules=rules)
    )
    better = decide(
        golden_run({"toxicity": low}, rules=rules), golden_run({"toxicity": high}, rules=rules)
    )
    assert (worse.outcome, better.outcome) == (FAIL, PASS)


def test_few_noisy_cases_are_undecided_and_say_how_many_would_decide(golden_run):
    random = np.random.default_rng(2)
    before = random.uniform(0.7, 1.0, 12)
    after = random.permutation(before)
    report = decide(golden_run({"relevance": after}), golden_run({"relevance": before}))
    found = check(report, "drop", "relevance")
    assert (report.outcome, report.exit_code, found.outcome) == (OPEN, 2, OPEN)
    assert 5 < found.more_cases < 60
    assert f"not decided: about {found.more_cases} more cases" in found.says
    n = found.n + found.more_cases  # by which a bound of the same spread is as narrow as the limit
    assert (found.high - found.change) * np.sqrt(found.n / n) == pytest.approx(0.05, rel=0.05)


def test_clear_rise_passes_despite_noisy_cases(golden_run):
    random = np.random.default_rng(9)
    before = random.uniform(0.7, 0.75, 12)
    report = decide(
        golden_run({"relevance": random.uniform(0.75, 1, 12)}), golden_run({"relevance": before})
    )
    assert report.outcome is PASS


def test_single_case_is_undecided(golden_run):
    report = decide(golden_run({"relevance": [0.9]}), golden_run({"relevance": [0.9]}))
    assert report.outcome is OPEN


def test_large_fall_fails_even_in_few_cases(golden_run):
    random = np.random.default_rng(3)
    before = random.uniform(0.85, 1, 12)
    after = before - random.uniform(0.3, 0.8, 12)
    report = decide(golden_run({"relevance": after}), golden_run({"relevance": before}))
    assert check(report, "drop", "relevance").outcome is FAIL


def test_cases_that_lost_their_score_block_the_gate(golden_run):
    before = [0.9] * 40
    after = [None] * 10 + [0.9] * 30
    report = decide(golden_run({"relevance": after}), golden_run({"relevance": before}))
    assert report.outcome is OPEN
    assert (
        "10 cases lost the score: 10 skipped (no_claim: The answer states"
        in check(report, "drop", "relevance").says
    )


def test_metric_without_scores_does_not_pass_the_gate(golden_run):
    run = golden_run({"relevance": [0.9] * 5, "faithfulness": [None] * 5})
    report = decide(run, run)
    assert report.outcome is OPEN
    assert "no case has a score in both" in check(report, "critical drop", "faithfulness").says


def judge_noise(kind, random, n):
    if kind == "continuous":
        quality = random.beta(5, 1, n)
        return [np.clip(quality + random.normal(0, 0.1, n), 0, 1) for _ in range(2)]
    if kind == "claims":  # of four, one is judged another way now and then
        quality = random.binomial(4, 0.85, n)
        return [np.clip(quality - random.binomial(1, 0.1, n), 0, 4) / 4 for _ in range(2)]
    quality = random.binomial(1, 0.9, n)  # yes or no, wrong in three of a hundred
    return [np.abs(quality - random.binomial(1, 0.03, n)) for _ in range(2)]


@pytest.mark.parametrize("kind", ["continuous", "claims", "verdicts"])
def test_same_app_under_a_noisy_judge_is_blocked_at_most_5_times_in_100(golden_run, kind):
    random = np.random.default_rng(4)
    blocked = 0
    for _ in range(100):
        runs = [golden_run({"relevance": s}, bare=True) for s in judge_noise(kind, random, 60)]
        blocked += decide(*runs).outcome is FAIL
    assert blocked <= 5


# Case by case.


ANSWERS = [f"answer {n}" for n in range(200)]


def test_one_new_failure_among_200_is_named_and_blocks(golden_run):
    before = np.random.default_rng(5).uniform(0.8, 1.0, 200)
    after = before.copy()
    after[137] = 0.0
    other = [*ANSWERS[:137], "another", *ANSWERS[138:]]
    report = decide(
        golden_run({"relevance": after}, outputs=other), golden_run({"relevance": before})
    )
    assert report.outcome is FAIL
    assert check(report, "drop", "relevance").outcome is PASS
    assert 'c137 "Question 137?"' in check(report, "new failures").says
    [changed] = report.changed
    assert (changed.case, changed.blocks, changed.same_answer) == ("c137", True, False)


def test_unchanged_answer_is_no_regression_of_the_app(golden_run):
    before, after = [0.9] * 200, [0.0] + [0.9] * 199
    report = decide(golden_run({"relevance": after}), golden_run({"relevance": before}))
    assert report.outcome is PASS
    assert "within the noise: c0" in check(report, "new failures").says
    assert report.changed[0].same_answer


@pytest.mark.parametrize(("score", "outcome"), [(0.0, FAIL), (0.66, PASS)])
def test_new_failure_is_named_even_within_the_noise(golden_run, score, outcome):
    random = np.random.default_rng(6)
    before = np.append(random.uniform(0.75, 1.0, 199), 0.72)
    after = np.append(np.clip(before[:-1] + random.normal(0, 0.03, 199), 0.7, 1), score)
    runs = [
        golden_run({"relevance": after}, outputs=[f"{n}" for n in range(200)]),
        golden_run({"relevance": before}),
    ]
    report = decide(*runs)
    assert report.outcome is outcome
    assert "c199" in check(report, "new failures").says
    assert decide(*runs, GatePolicy(new_failures="any")).outcome is FAIL
    assert decide(*runs, GatePolicy(new_failures="ignore")).outcome is PASS


def test_many_small_new_failures_fail_the_gate(golden_run):
    before, after = [0.71] * 12 + [0.9] * 188, [0.69] * 12 + [0.9] * 188
    report = decide(golden_run({"relevance": after}), golden_run({"relevance": before}))
    assert check(report, "new failures").outcome is FAIL


def test_new_error_of_the_app_blocks_by_name(golden_run):
    scores = {"relevance": [0.9] * 20}
    report = decide(golden_run(scores, errors={3}), golden_run(scores))
    assert report.outcome is FAIL
    assert "1 new app error: c3" in check(report, "new app errors").says
    assert decide(golden_run(scores, errors={3}), golden_run(scores, errors={3})).outcome is PASS


def test_no_failure_of_a_critical_case_is_tolerated(golden_run):
    cases = [{"id": f"c{n}", "query": f"q{n}", "critical": n == 2} for n in range(4)]
    run = golden_run({"relevance": [0.1, 0.9, 0.9, 0.9]}, cases=cases)
    assert decide(run, run).outcome is PASS
    run = golden_run({"relevance": [0.9, 0.9, 0.1, 0.9]}, cases=cases)
    assert 'failing: c2 "q2"' in check(decide(run, run), "critical cases").says
    run = golden_run({"relevance": [0.9, 0.9, None, 0.9]}, cases=cases)
    assert decide(run).outcome is OPEN


@pytest.mark.parametrize("policy", [{"critical_tags": ["law"]}, {"critical_categories": ["x"]}])
def test_cases_are_critical_by_tag_and_category_too(golden_run, policy):
    cases = [{"id": "a", "query": "q", "tags": ["law"], "category": "x"}, {"id": "b", "query": "r"}]
    run = golden_run({"relevance": [0.1, 0.9]}, cases=cases)
    assert decide(run, policy=GatePolicy(**policy)).outcome is FAIL


@pytest.mark.parametrize(
    ("policy", "outcome"),
    [
        ({"floors": {"relevance": 0.85}}, PASS),
        ({"floors": {"relevance": 0.86}}, FAIL),
        ({"case_floors": {"relevance": 0.8}}, PASS),
        ({"case_floors": {"relevance": 0.81}}, FAIL),
    ],
)
def test_floors_need_no_baseline(golden_run, policy, outcome):
    run = golden_run({"relevance": [0.8, 0.9]})
    assert decide(run, policy=GatePolicy(**policy)).outcome is outcome


@pytest.mark.parametrize("policy", ["floors", "case_floors"])
def test_floor_without_any_score_is_undecided_and_says_why(golden_run, policy):
    run = golden_run({"relevance": [None, None, None]}, errors={2})
    report = decide(run, policy=GatePolicy(**{policy: {"relevance": 0.8}}))
    assert report.outcome is OPEN
    [found] = report.checks
    means = "The answer states nothing that passages could support"
    assert f"; without a score: 2 skipped (no_claim: {means}), 1 app error" in found.says


def test_floor_names_the_cases_that_its_mean_leaves_out(golden_run):
    report = decide(
        golden_run({"relevance": [0.9, None]}), policy=GatePolicy(floors={"relevance": 0.8})
    )
    assert report.outcome is PASS
    assert "mean 0.90, floor 0.80; without a score: 1 skipped (no_claim:" in report.checks[0].says


def test_metric_without_common_scores_says_why_of_both_runs(golden_run):
    run, baseline = golden_run({"relevance": [None, 0.9]}), golden_run({"relevance": [0.9, None]})
    said = check(decide(run, baseline), "drop", "relevance").says
    assert "without a score in this run: 1 skipped (no_claim" in said
    assert "without a score in the baseline: 1 skipped (no_claim" in said


# What cannot be compared.


def other_runs(golden_run):
    scores = {"relevance": [0.9, 0.9]}
    cases = [{"id": "c0", "query": "Question 0?"}, {"id": "new", "query": "q"}]
    return {
        "different test sets: 1 case missing (c1), 1 case new (new)": golden_run(
            scores, cases=cases
        ),
        "relevance is by 2, the baseline by 1": golden_run(scores, versions={"relevance": "2"}),
        "relevance was not evaluated": golden_run({"faithfulness": [0.9, 0.9]}),
        "relevance passes at 0.5": golden_run(scores, rules={"relevance": PassRule(0.5)}),
        "different models": golden_run(scores, models=("large",)),
    }


@pytest.mark.parametrize("number", range(5))
def test_run_of_another_kind_is_not_compared(golden_run, number):
    said, run = list(other_runs(golden_run).items())[number]
    with pytest.raises(NotComparableError) as error:
        decide(run, golden_run({"relevance": [0.9, 0.9]}))
    assert said in str(error.value)


def test_changed_sets_are_compared_on_shared_cases_on_request(golden_run):
    old, new = ([{"id": i, "query": i} for i in ids] for ids in ("abc", "bcd"))
    before = golden_run({"relevance": [0.1, 0.9, 0.9]}, cases=old)
    after = golden_run({"relevance": [0.9, 0.9, 0.1]}, cases=new)
    report = decide(after, before, GatePolicy(shared_cases=True))
    assert (report.outcome, report.cases) == (PASS, 2)


def test_gate_without_anything_to_check_is_an_error(golden_run):
    with pytest.raises(NotComparableError, match="nothing to check"):
        decide(golden_run({"relevance": [0.9]}))
    with pytest.raises(NotComparableError, match="faithfulness has a floor and no scores"):
        decide(golden_run({"relevance": [0.9]}), policy=GatePolicy(floors={"faithfulness": 0.9}))


# The command and the reports.


@pytest.fixture
def files(golden_run, tmp_path):
    good, bad = {"relevance": [0.9] * 30}, {"relevance": [0.0] + [0.9] * 29}
    golden_run(good).write(tmp_path / "main.json")
    golden_run(bad, outputs=["another", *ANSWERS[1:30]]).write(tmp_path / "bad.json")
    golden_run({"relevance": [0.7, 1.0] * 15}).write(tmp_path / "noisy.json")
    golden_run(good, versions={"relevance": "2"}).write(tmp_path / "other.json")
    (tmp_path / "gate.toml").write_text("[gate]\nmax_drop = 0.3\nnew_failures = 'ignore'\n")
    return tmp_path


def run_gate(files, *arguments):
    paths = [
        str(files / a) if a.endswith((".json", ".toml", ".md", ".xml")) else a for a in arguments
    ]
    return CliRunner().invoke(app, ["gate", *paths])


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["main.json", "--baseline", "main.json"], 0),
        (["bad.json", "--baseline", "main.json"], 1),
        (["noisy.json", "--baseline", "main.json"], 2),
        (["bad.json", "--baseline", "main.json", "--policy", "gate.toml"], 0),
        (["main.json", "--floor", "relevance=95%"], 1),
        (["main.json", "--floor", "relevance"], 3),
        (["main.json", "--baseline", "main.json", "--max-drop", "much"], 3),
        (["main.json", "--baseline", "main.json", "--critical-metric", "relevance"], 0),
        (["main.json", "--no-such-option"], 3),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else value,
)
def test_exit_code_reports_the_gate_outcome(files, arguments, code):
    assert run_gate(files, *arguments).exit_code == code


def test_incomparable_runs_exit_with_an_error(files):
    found = run_gate(files, "other.json", "--baseline", "main.json")
    assert isinstance(found.exception, NotComparableError)  # which the command ends with 3


@pytest.mark.parametrize(
    "arguments", [["--critical-metric", "relevanc"], ["--policy", "critical.toml"]]
)
def test_critical_metric_that_the_run_does_not_have_is_refused(files, arguments):
    (files / "critical.toml").write_text('critical_metrics = ["faithfulness", "relevanc"]\n')
    found = run_gate(files, "main.json", "--baseline", "main.json", *arguments)
    assert isinstance(found.exception, NotComparableError)
    said = "relevanc is critical and has no scores; the run has relevance"
    assert str(found.exception) == said


def test_critical_metric_is_added_to_those_of_the_policy(files):
    (files / "critical.toml").write_text('critical_metrics = ["relevance"]\n')
    options = ["--policy", "critical.toml", "--critical-metric", "faithfulness", "--json"]
    found = run_gate(files, "main.json", "--baseline", "main.json", *options)
    checks = {each["metric"]: each["name"] for each in json.loads(found.stdout)["checks"]}
    assert checks["relevance"] == "critical drop"


def test_gate_report_is_available_as_json(files):
    found = json.loads(run_gate(files, "bad.json", "--baseline", "main.json", "--json").stdout)
    assert found["outcome"] == "fail"
    assert found["changed"][0]["case"] == "c0"


def test_policy_that_names_something_unknown_is_refused(files):
    (files / "gate.toml").write_text("max_drops = 0.1\n")
    with pytest.raises(SettingsError, match=r"gate\.toml: max_drops"):
        GatePolicy.read(files / "gate.toml")


def test_report_format_follows_its_file_ending(files):
    paths = [str(files / name) for name in ("gate.md", "gate.html", "gate.xml")]
    found = run_gate(
        files, "bad.json", "--baseline", "main.json", *(a for p in paths for a in ("--report", p))
    )
    assert found.exit_code == 1
    texts = [Path(path).read_text() for path in paths]
    assert all("Question 0?" in text for text in texts)
    suite = ET.fromstring(texts[2]).find("testsuite")
    assert (suite.get("tests"), suite.get("failures")) == ("3", "1")


def test_run_is_reported_with_its_failures_and_errors(golden_run):
    cases = [
        {"id": f"c{n}", "query": "Is | <b>this</b> *bold*?", "category": "x"} for n in range(4)
    ]
    run = golden_run({"relevance": [0.1, 0.9, None, 0.9]}, cases=cases, errors={3})
    suite = ET.fromstring(run_junit(run)).find("testsuite")
    counts = [suite.get(name) for name in ("tests", "failures", "errors", "skipped")]
    assert counts == ["4", "1", "1", "1"]
    page = as_markdown(run_page(run))
    assert "1 of 2 passed (50.0 %), 1 app error, 1 without a score" in page
    assert r"Is \| \<b\>this\</b\> \*bold\*?" in page
    assert "no_claim 1" in page.replace("\\", "")
    html = as_html(run_page(run))
    assert "&lt;b&gt;this&lt;/b&gt;" in html
    assert "no index" in html


def test_gate_without_changes_is_a_short_report(golden_run):
    run = golden_run({"relevance": [0.9] * 3})
    report = decide(run, run)
    assert "Changed cases" not in as_markdown(gate_page(report))
    assert ET.fromstring(gate_junit(report)).find("testsuite").get("failures") == "0"
