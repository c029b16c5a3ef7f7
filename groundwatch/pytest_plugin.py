"""
For pytest: answers that have to be grounded, and test sets whose cases are tests.

    def test_refund(assert_grounded):
        assert_grounded(answer("How long?"), contexts=["Refunds take five days."])

    @pytest.mark.testset("golden.jsonl", app="my.app:answer", metrics=["groundedness"])
    def test_golden(case_result):
        assert case_result["evaluation"]["passed"]

Nothing but this file is loaded before a test asks for it.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest

_MARKER = (
    "testset(path, app=None, metrics=('groundedness', 'relevance'), **options): run the test once"
    " for each case of a test set; it asks for `case`, or for `case_result`, which calls the app"
)


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line("markers", _MARKER)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make a test of each case; a path starts at the folder of the test's file, or at the root."""
    marker = metafunc.definition.get_closest_marker("testset")
    if marker is None or "case" not in metafunc.fixturenames:
        return
    if not marker.args:
        raise pytest.UsageError(f"{metafunc.definition.nodeid}: testset needs the path of a file")
    beside = metafunc.definition.path.parent / marker.args[0]
    path = beside if beside.exists() else metafunc.config.rootpath / marker.args[0]
    try:
        tests = _testsets().TestSet.read(path)
    except import_module("monitor.errors").GroundwatchError as error:
        raise pytest.UsageError(str(error)) from None
    if tests.unreadable:
        bad = ", ".join(f"{reason} {n}" for reason, n in tests.unreadable.items())
        raise pytest.UsageError(f"{path}: bad lines: {bad}")
    metafunc.parametrize("case", tests.tests, ids=[each.id for each in tests])


@pytest.fixture
def case() -> Any:
    """Return a case of the test set that the marker names."""
    pytest.fail("mark the test with @pytest.mark.testset('golden.jsonl')")


@pytest.fixture
def case_result(request: pytest.FixtureRequest, case: Any) -> dict[str, Any]:
    """Ask the app of the marker about the case; return its output, error and evaluation."""
    ours = _testsets()
    options = dict(request.node.get_closest_marker("testset").kwargs)
    app, metrics = options.pop("app", None), options.pop("metrics", None)
    rubric = {} if metrics is None else {"rubric": metrics}
    runner = ours.EvaluationRunner(ours.TestSet("case"), agent=app, **rubric, **options)
    result: dict[str, Any] = runner.run_test(case)
    return result


@pytest.fixture
def assert_grounded() -> Callable[..., Any]:
    """Return `monitor.testsets.assert_grounded`."""
    check: Callable[..., Any] = _testsets().assert_grounded
    return check


def _testsets() -> Any:
    """Return `monitor.testsets`, or say why it cannot be had."""
    try:
        ours = import_module("monitor.testsets")
        ours.assert_grounded  # noqa: B018 - what it needs is loaded at first use
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if missing.split(".")[0] == "monitor":
            why = "a module 'monitor' of your own hides it; evaluate with: groundwatch eval"
        else:
            why = f"{missing} is not installed: pip install 'groundwatch[eval]'"
        raise pytest.UsageError(f"groundwatch: {why}") from None
    return ours
