"""The plugin for pytest: an assertion, and the cases of a test set as tests."""

import json
import os
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

from monitor.testsets import assert_grounded

ROOT = Path(__file__).parents[3]
PASSAGES = ["Refunds take five days."]

SUITE = """
import sys
import pytest

HEAVY = {"numpy", "scipy", "pydantic", "redis", "openai", "celery", "httpx", "monitor"}
LOADED = HEAVY & set(sys.modules)

def answer(question):
    return "A refund takes five days." if "refund" in question else "Bananas grow in Peru."

def test_pytest_plugin_alone_loads_nothing():
    assert LOADED == set()

def test_answer(assert_grounded):
    assert_grounded("A refund takes five days.", ["Refunds take five days."])

@pytest.mark.testset("golden.jsonl")
def test_case(case, assert_grounded):
    assert_grounded(answer(case["query"]), case.contexts)

@pytest.mark.testset("golden.jsonl", app=answer, metrics=["groundedness"])
def test_result(case_result):
    assert case_result["evaluation"]["passed"]
"""


MISTAKE = "import pytest\n@pytest.mark.testset('no.jsonl')\ndef test(case): pass\n"


def run_pytest(folder):
    environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    plugin = [
        "-p",
        "groundwatch.pytest_plugin",
        "--strict-markers",
        "-q",
        "--continue-on-collection-errors",
        "--rootdir",
        str(folder),
    ]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *plugin, str(folder)],
        capture_output=True, text=True, check=False, env=environment, cwd=folder,
    )  # fmt: skip


def test_assertion_and_marker_run_in_a_suite_of_a_user(tmp_path):
    cases = [
        {"id": "good", "query": "How long does a refund take?", "contexts": PASSAGES},
        {"id": "bad", "query": "How long does shipping take?", "contexts": PASSAGES},
    ]
    (tmp_path / "golden.jsonl").write_text("".join(json.dumps(each) + "\n" for each in cases))
    (tmp_path / "test_bot.py").write_text(SUITE)
    (tmp_path / "test_mistake.py").write_text(MISTAKE)
    done = run_pytest(tmp_path)
    assert "2 failed, 4 passed, 1 error" in done.stdout, done.stdout + done.stderr
    assert "FAILED test_bot.py::test_case[bad] - AssertionError: groundedness 0." in done.stdout
    assert "FAILED test_bot.py::test_result[bad]" in done.stdout
    assert "no.jsonl: No such file or directory" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


def test_shadowing_module_is_named_when_the_plugin_is_used(monkeypatch):
    plugin = import_module("groundwatch.pytest_plugin")
    monkeypatch.setitem(sys.modules, "monitor.testsets", None)
    with pytest.raises(pytest.UsageError, match="a module 'monitor' of your own hides it"):
        plugin._testsets()


def test_pytest_finds_the_plugin_by_itself():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert import_module(project["entry-points"]["pytest11"]["groundwatch"]).pytest_configure


def test_ungrounded_answer_fails_with_score_threshold_and_answer():
    with pytest.raises(
        AssertionError, match=r"groundedness 0\.\d\d, expected at least 0\.\d\d: .*Bananas"
    ):
        assert_grounded("Bananas grow in Peru.", PASSAGES)
    with pytest.raises(AssertionError, match=r"at least 1\.00"):
        assert_grounded("A refund takes five days.", PASSAGES, min_score=1.0)


def test_answer_that_cannot_be_evaluated_is_not_grounded():
    with pytest.raises(AssertionError, match="groundedness was not evaluated: no_context"):
        assert_grounded("A refund takes five days.", [])
