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


def test_oldest_unconfirmed_batches_are_lost_first(unsynced):
    for n in (1, 2, 3, 4):
        unsynced.confirm(batch(n), 0.0)
    assert lost(unsynced, 2) == [3, 4]


def test_confirmed_batches_can_still_be_lost_in_the_next_outage(unsynced):
    for n in (1, 2, 3):
        unsynced.confirm(batch(n), 0.0)
    assert [lost(unsynced, 2), lost(unsynced, 1)] == [[3], [2, 3]]


def test_batch_is_kept_until_a_confirmation_three_seconds_later(unsynced):
    unsynced.confirm(batch(1), 0.0)
    unsynced.confirm(batch(2), SYNCED_AFTER_S - 0.1)
    assert lost(unsynced, 0) == [1, 2]
    unsynced = Unsynced()
    unsynced.confirm(batch(1), 0.0)
    unsynced.confirm(batch(1, entries=0), SYNCED_AFTER_S)
    assert lost(unsynced, 0) == []


def test_only_the_newest_four_megabytes_are_kept(unsynced):
    for n in range(1, 8):
        unsynced.confirm(batch(n, size_bytes=1_000_000), 0.0)
    assert lost(unsynced, 0) == [4, 5, 6, 7]


def test_batch_lost_twice_is_sent_a_third_time(unsynced):
    for n in (1, 2):
        unsynced.confirm(batch(n), 0.0)
    assert lost(unsynced, 0) == [1, 2]
    unsynced.confirm(unsynced.lost[0], 1.0)
    assert lost(unsynced, 0) == [1, 2]


def test_no_batch_is_pending_after_resending_all(unsynced):
    unsynced.confirm(batch(1), 0.0)
    unsynced.doubtful = True
    assert unsynced.pending
    assert lost(unsynced, 0) == [1]
    assert unsynced.pending
    unsynced.confirm(unsynced.lost[0], 1.0)
    assert not unsynced.pending
