"""The lease: one owner at a time, and whoever lost it writes nothing."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from monitor.errors import LeaseLostError
from monitor.store.engine import acquire, current_owner, fence, release


def fenced(store, lease):
    with store.write() as connection:
        fence(connection, lease)


def test_second_owner_waits(store):
    assert acquire(store, "scheduler", "a", ttl_s=60).token == 1
    assert acquire(store, "scheduler", "b", ttl_s=60) is None


def test_owner_keeps_its_token_when_it_renews(store):
    first = acquire(store, "scheduler", "a", ttl_s=60)
    assert acquire(store, "scheduler", "a", ttl_s=60) == first


def test_expired_lease_is_taken_over_with_a_new_token(store):
    acquire(store, "scheduler", "a", ttl_s=-1)
    assert acquire(store, "scheduler", "b", ttl_s=60).token == 2


def test_lease_from_before_the_clock_was_set_back_is_free(store):
    acquire(store, "scheduler", "a", ttl_s=86_400)  # as if made for seconds, a day ahead
    assert acquire(store, "scheduler", "b", ttl_s=15).token == 2


def test_owner_that_lost_the_lease_writes_nothing(store):
    lost = acquire(store, "scheduler", "a", ttl_s=-1)
    acquire(store, "scheduler", "b", ttl_s=60)
    with pytest.raises(LeaseLostError):
        fenced(store, lost)


def test_owner_that_comes_back_has_another_token(store):
    old = acquire(store, "scheduler", "a", ttl_s=-1)
    acquire(store, "scheduler", "b", ttl_s=-1)
    new = acquire(store, "scheduler", "a", ttl_s=60)
    fenced(store, new)
    with pytest.raises(LeaseLostError):
        fenced(store, old)


def test_released_lease_is_free_at_once(store):
    release(store, acquire(store, "scheduler", "a", ttl_s=60))
    with store.read() as connection:
        assert current_owner(connection, "scheduler") is None
    assert acquire(store, "scheduler", "b", ttl_s=60) is not None


def test_only_one_of_many_concurrent_owners_gets_the_lease(store):
    with ThreadPoolExecutor(8) as pool:
        taken = list(pool.map(lambda n: acquire(store, "s", f"o{n}", ttl_s=60), range(8)))
    assert sum(lease is not None for lease in taken) == 1
