"""What a connection to the database holds."""

from sqlalchemy import text

from monitor.store.engine import Store

#: A process has up to so many, as SQLAlchemy's pool keeps them.
POOL = 5


def test_connections_to_sqlite_hold_little_memory_however_large_the_file(sqlite_url):
    store = Store(sqlite_url)
    with store.read() as connection:
        kilobytes = -connection.execute(text("PRAGMA cache_size")).scalar_one()
    store.close()
    assert 0 < kilobytes * POOL <= 10_000
