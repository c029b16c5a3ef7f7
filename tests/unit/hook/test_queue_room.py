"""The queue has two limits: samples and megabytes."""

from monitor.hook.delivery import QueueRoom


def room(**limits):
    return QueueRoom(**{"limit": 100, "limit_megabytes": 1} | limits)


def test_queue_is_full_at_its_sample_limit():
    watched = room()
    assert [watched.look(n) for n in (99, 100)] == [False, True]


def test_queue_reopens_only_with_a_margin_of_room():
    watched = room()
    assert [watched.look(n) for n in (100, 95, 89, 95)] == [True, True, False, False]


def test_large_samples_fill_the_queue_sooner():
    watched = room()
    watched.sent(10, 10 * 50_000)
    assert [watched.look(n) for n in (19, 20)] == [False, True]


def test_mean_sample_size_follows_recent_batches():
    watched = room()
    watched.sent(1, 100_000)
    for _ in range(40):
        watched.sent(25, 25 * 1_000)
    assert watched.mean_bytes < 1_100


def test_heartbeat_without_samples_does_not_change_the_mean_size():
    watched = room()
    watched.sent(0, 0)
    assert watched.mean_bytes == 0
