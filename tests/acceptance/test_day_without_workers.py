"""A day without workers, compressed: bounded, counted, the newest first, and no stale alert."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def found():
    day = ("--day", "12", "--rate", "300", "--queue-megabytes", "2", "--redis-megabytes", "6")
    done = subprocess.run(
        [sys.executable, "-m", "support.away", "--json", *day],
        cwd=TESTS, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.timeout(700)  # for the fixture, on however busy a machine
def test_app_is_unaffected_by_the_outage(found):
    assert found["raised"] == 0
    assert found["calls"] == found["seen"] == found["sampled"] > 500
    assert set(found["dropped"]) <= {"queue_full"}


def test_redis_stays_within_its_memory_and_refuses_no_write(found):
    assert 2 < found["peak_mb"] < found["limit_mb"]
    assert found["refused_by_redis"] == 0


def test_old_samples_expire_by_age_and_for_room(found):
    assert found["ended"]["expired:too_old"] > 0
    assert found["ended"]["expired:no_room"] > 0


def test_every_sample_has_exactly_one_outcome(found):
    ended = sum(found["ended"].values()) + sum(found["dropped"].values())
    assert ended == found["sampled"]
    assert found["reconciled"]


def test_newest_samples_are_scored_first(found):
    assert found["new_scored"] > 0
    assert found["old_before_new"] < max(30, found["old_scored"] / 4)
    assert found["order_of_old"] is None or found["order_of_old"] < -0.9


def test_no_alert_is_raised_about_the_past(found):
    assert found["incidents"]["answers"] == []
