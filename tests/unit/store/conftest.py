"""An empty SQLite store: for claims that do not depend on which database it is."""

import pytest

from monitor.store.engine import Store


@pytest.fixture
def store(sqlite_url):
    store = Store(sqlite_url)
    yield store
    store.close()


@pytest.fixture
def connection(store):
    with store.write() as connection:
        yield connection
