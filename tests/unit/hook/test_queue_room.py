"""The queue has two limits: samples and megabytes."""

from monitor.hook.delivery import QueueRoom


def room(**limits):
    return QueueRoom(**{"limit": 100, "limit_megabytes": 1} | limits)


def test_queue_is_full_at_its_number_of_samples():
    watched = room()
    assert [watched.look(n) for n in (99, 100)] == [False, True]


def test_queue_opens_again_only_when_there_is_some_room():
    watched = room()
    assert [watched.look(n) for n in (100, 95, 89, 95)] == [True, True, False, False]


def test_large_samples_fill_it_sooner():
    watched = room()
    watched.sent(10, 10 * 50_000)
    assert [watched.look(n) for n in (19, 20)] == [False, True]


def test_size_follows_what_is_sent_now():
    watched = room()
    watched.sent(1, 100_000)
    for _ in range(40):
        watched.sent(25, 25 * 1_000)
    assert watched.mean_bytes < 1_100


def test_heartbeat_without_samples_teaches_nothing():
    watched = room()
    watched.sent(0, 0)
    assert watched.mean_bytes == 0
