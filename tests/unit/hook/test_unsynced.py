"""What Redis confirmed a moment ago is kept, within bounds, until it cannot be lost any more."""

import pytest

from monitor.hook.delivery import SYNCED_AFTER_S, Batch, Unsynced


def batch(sent, *, size_bytes=10, entries=1):
    return Batch([{b"n": b"%d" % sent}] * entries, [], sent, 0, size_bytes)


@pytest.fixture
def unsynced():
    return Unsynced()


def lost(unsynced, arrived):
    unsynced.compare(arrived)
    return [found.sent for found in unsynced.lost]


def test_batches_that_did_not_arrive_are_lost_oldest_first(unsynced):
    for n in (1, 2, 3, 4):
        unsynced.confirm(batch(n), 0.0)
    assert lost(unsynced, 2) == [3, 4]


def test_what_arrived_can_still_be_lost_in_the_next_trouble(unsynced):
    for n in (1, 2, 3):
        unsynced.confirm(batch(n), 0.0)
    assert [lost(unsynced, 2), lost(unsynced, 1)] == [[3], [2, 3]]


def test_batch_is_kept_until_an_answer_comes_three_seconds_after_it(unsynced):
    unsynced.confirm(batch(1), 0.0)
    unsynced.confirm(batch(2), SYNCED_AFTER_S - 0.1)
    assert lost(unsynced, 0) == [1, 2]
    unsynced = Unsynced()
    unsynced.confirm(batch(1), 0.0)
    unsynced.confirm(batch(1, entries=0), SYNCED_AFTER_S)
    assert lost(unsynced, 0) == []


def test_no_more_than_four_megabytes_are_kept_the_newest(unsynced):
    for n in range(1, 8):
        unsynced.confirm(batch(n, size_bytes=1_000_000), 0.0)
    assert lost(unsynced, 0) == [4, 5, 6, 7]


def test_batch_that_is_sent_again_and_lost_again_is_sent_once_more(unsynced):
    for n in (1, 2):
        unsynced.confirm(batch(n), 0.0)
    assert lost(unsynced, 0) == [1, 2]
    unsynced.confirm(unsynced.lost[0], 1.0)
    assert lost(unsynced, 0) == [1, 2]


def test_nothing_is_pending_once_all_has_been_sent_again(unsynced):
    unsynced.confirm(batch(1), 0.0)
    unsynced.doubtful = True
    assert unsynced.pending
    assert lost(unsynced, 0) == [1]
    assert unsynced.pending
    unsynced.confirm(unsynced.lost[0], 1.0)
    assert not unsynced.pending
