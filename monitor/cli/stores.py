"""The store as commands that only look at it open it: it has to be there already."""

from __future__ import annotations

from datetime import UTC, datetime

from monitor.errors import SettingsError, StoreError
from monitor.report.words import harmless
from monitor.settings import Settings
from monitor.store.engine import Store
from monitor.store.migrate import check_schema
from workers.facts import read_status


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


def check_app(store: Store, settings: Settings, app: str | None) -> None:
    """
    Refuse an app that was never heard of, while others were.

    Raises
    ------
    SettingsError
        If so; it names those that there are.
    """
    known = [item.app for item in read_status(store, settings, now=datetime.now(UTC)).apps]
    if app is not None and known and app not in known:
        there = ", ".join(harmless(name, 40) for name in known[:10])
        raise SettingsError(f"nothing was heard of an app {harmless(app, 40)!r}; there is {there}")
