"""The sender waits longer and longer for Redis, and complains once a minute."""

from random import Random

from monitor.hook.delivery import HURRIED_WAIT_S, LONGEST_WAIT_S, Backoff, Complaints


def test_backoff_is_zero_before_a_failure():
    assert Backoff(Random(1)).wait_s(0.0) == 0.0


def test_backoff_doubles_with_jitter_up_to_a_limit():
    backoff, waits = Backoff(Random(1)), []
    for _ in range(30):
        backoff.failed(100.0)
        waits.append(backoff.wait_s(100.0))
    assert 0.125 <= waits[0] <= 0.25
    assert 0.25 <= waits[1] <= 0.5
    assert max(waits) <= LONGEST_WAIT_S
    assert len(set(waits[10:])) > 10


def test_backoff_ends_after_its_time_or_a_success():
    backoff = Backoff(Random(1))
    backoff.failed(100.0)
    assert backoff.wait_s(100.3) == 0.0
    backoff.failed(100.0)
    backoff.succeeded()
    assert backoff.wait_s(100.0) == 0.0


def test_backoff_restarts_after_a_success():
    backoff = Backoff(Random(1))
    for _ in range(8):
        backoff.failed(100.0)
    backoff.succeeded()
    backoff.failed(200.0)
    assert 0.125 <= backoff.wait_s(200.0) <= 0.25


def test_hurry_shortens_the_backoff_but_does_not_skip_it():
    backoff = Backoff(Random(1))
    for _ in range(8):
        backoff.failed(100.0)
    assert 0 < backoff.wait_s(100.0, hurry=True) <= HURRIED_WAIT_S


def test_complaint_reports_new_drops_once_a_minute():
    complaints = Complaints()
    assert complaints.due(100.0, {}, None) is None
    assert complaints.due(100.0, {"buffer_full": 3}, "down") == (
        'dropped="buffer_full 3" redis="down"'
    )
    assert complaints.due(130.0, {"buffer_full": 5}, "down") is None
    assert complaints.due(161.0, {"buffer_full": 5}, "down") == (
        'dropped="buffer_full 2" redis="down"'
    )
    assert complaints.due(300.0, {"buffer_full": 5}, "down") is None
