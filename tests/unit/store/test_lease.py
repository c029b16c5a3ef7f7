"""Whose a lease is by the database's clock, and the names of those that may have it."""

import os
from datetime import UTC, datetime, timedelta

from monitor.store.engine import (
    acquire,
    current_owner,
    database_now,
    new_owner,
    process_name,
    release,
)


def owner_of(store, name="scheduler"):
    with store.read() as connection:
        return current_owner(connection, name)


def test_owner_is_named_until_the_lease_expires(store):
    acquire(store, "scheduler", "a", ttl_s=60)
    assert owner_of(store) == "a"
    acquire(store, "scheduler", "a", ttl_s=-1)
    assert owner_of(store) is None


def test_leases_of_other_names_are_free(store):
    acquire(store, "scheduler", "a", ttl_s=60)
    assert acquire(store, "tuning", "b", ttl_s=60).token == 1
    assert (owner_of(store), owner_of(store, "tuning"), owner_of(store, "x")) == ("a", "b", None)


def test_former_owner_cannot_release_the_next_owners_lease(store):
    lost = acquire(store, "scheduler", "a", ttl_s=-1)
    acquire(store, "scheduler", "b", ttl_s=60)
    release(store, lost)
    assert owner_of(store) == "b"


def test_database_has_the_time_of_its_host(store):
    before = datetime.now(UTC)
    with store.read() as connection:
        found = database_now(connection)
    slack = timedelta(milliseconds=10)  # julianday() has a few microseconds at best
    assert before - slack <= found <= datetime.now(UTC) + slack


def test_owner_names_are_unique_and_begin_with_the_process():
    first, second = new_owner(), new_owner()
    assert first != second
    assert first.startswith(process_name(os.getpid()))
    assert len(first) == len(process_name(os.getpid())) + 8
