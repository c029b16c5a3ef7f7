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
    from monitor.errors import GroundwatchError  # noqa: PLC0415 - see above
    from monitor.testsets import TestSet  # noqa: PLC0415

    if not marker.args:
        raise pytest.UsageError(f"{metafunc.definition.nodeid}: testset needs the path of a file")
    beside = metafunc.definition.path.parent / marker.args[0]
    path = beside if beside.exists() else metafunc.config.rootpath / marker.args[0]
    try:
        tests = TestSet.read(path)
    except GroundwatchError as error:
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
    from monitor.testsets import EvaluationRunner, TestSet  # noqa: PLC0415

    options = dict(request.node.get_closest_marker("testset").kwargs)
    app, metrics = options.pop("app", None), options.pop("metrics", None)
    rubric = {} if metrics is None else {"rubric": metrics}
    return EvaluationRunner(TestSet("case"), agent=app, **rubric, **options).run_test(case)


@pytest.fixture
def assert_grounded() -> Callable[..., Any]:
    """Return `monitor.testsets.assert_grounded`."""
    from monitor.testsets import assert_grounded as check  # noqa: PLC0415

    return check
