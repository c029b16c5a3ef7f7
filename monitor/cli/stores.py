"""The store as commands that only look at it open it: it has to be there already."""

from __future__ import annotations

from monitor.errors import StoreError
from monitor.settings import Settings
from monitor.store.engine import Store
from monitor.store.migrate import check_schema


def open_store(settings: Settings) -> Store:
    """
    Open the store that `up` or `migrate` made; looking makes none.

    Raises
    ------
    StoreError
        If there is none, or its tables are not those this program knows.
    """
    file = settings.home / "groundwatch.db"
    if settings.database_url is None and not file.exists():
        raise StoreError(
            f"there is no store at {file} yet; start everything with: groundwatch up"
            " (or make only the store with: groundwatch migrate)"
        )
    store = Store(settings.sql_url)
    check_schema(store)
    return store
