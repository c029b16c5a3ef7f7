"""``groundwatch migrate``: bring the tables of the store up to date."""

from __future__ import annotations

import os

from rich.text import Text

from monitor.cli.console import PRIVATE, out
from monitor.settings import Settings
from monitor.store.engine import Store
from monitor.store.migrate import migrate as run_migrations


def migrate() -> None:
    """Create or upgrade the tables of the store; safe to run at any time."""
    os.umask(PRIVATE)
    store = Store(Settings.from_env().sql_url)
    before, after = run_migrations(store)
    where = store.engine.url.render_as_string(hide_password=True)
    store.close()
    if before == after:
        out.print(Text(f"{where} is up to date ({after})"))
    else:
        out.print(Text(f"{where} migrated from {before or 'nothing'} to {after}"))
