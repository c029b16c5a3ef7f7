"""Failures of jobs: what is news is logged, and nothing twice within ten minutes."""

import pytest
from structlog.testing import capture_logs

from monitor.errors import QueueUnavailableError, StoreUnavailableError
from workers.context import ErrorThrottle

AWAY, FULL = StoreUnavailableError("away"), QueueUnavailableError("full")


def logged(*steps):
    """Run steps of (seconds, exception or None) of one job; give the events with their errors."""
    clock = iter([at_s for at_s, error in steps if error])
    failing = ErrorThrottle(lambda: next(clock))

    def run(error):
        if error:
            raise error

    with capture_logs() as logs:
        for _, error in steps:
            assert failing.guard("job", lambda error=error: run(error)) is error
    return [entry["event"] for entry in logs]


@pytest.mark.parametrize(
    ("steps", "events"),
    [
        ([(0, AWAY), (599, AWAY)], ["job_failed"]),
        ([(0, AWAY), (1, FULL)], ["job_failed"] * 2),
        ([(0, AWAY), (1, KeyError("x")), (2, KeyError("y"))], ["job_failed", "job_broken"]),
        ([(0, AWAY), (601, AWAY), (1200, AWAY)], ["job_failed"] * 2),
        ([(0, AWAY), (1, None), (2, None)], ["job_failed", "job_recovered"]),
        ([(0, AWAY), (1, None), (2, AWAY)], ["job_failed", "job_recovered", "job_failed"]),
    ],
)
def test_new_errors_are_logged_once(steps, events):
    assert logged(*steps) == events


def test_internal_error_is_logged_with_its_traceback():
    with capture_logs() as logs:
        ErrorThrottle().guard("job", lambda: {}["x"])
    assert isinstance(logs[0]["exc_info"], KeyError)
