"""``groundwatch forget``: delete one person's data, and keep what was counted."""

from __future__ import annotations

import getpass
from contextlib import closing
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.text import Text

from monitor.cli.console import open_store, out
from monitor.queue.consumer import connect
from monitor.settings import Settings
from workers.context import Context
from workers.forget import forget_user


def forget(
    user_id: Annotated[str, typer.Option(help="The user_id that the app gave with its samples.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count what there is.")] = False,
) -> None:
    """Delete the texts of one user: samples, what was said of them, what still waits."""
    if not user_id:
        raise typer.BadParameter("which user? Give the user_id that the app sends")
    settings = Settings.from_env()
    with closing(open_store(settings)) as store, closing(connect(settings.broker_url)) as client:
        done = forget_user(
            client,
            store,
            user_id,
            rules=Context(settings).rules,
            who=getpass.getuser(),
            now=datetime.now(UTC),
            dry_run=dry_run,
        )
    said = ", ".join(f"{what} {n:,}" for what, n in done.items() if n) or "nothing"
    out.print(Text(("would delete: " if dry_run else "deleted: ") + said))
    if done and not dry_run:
        out.print("backups, and messages that were delivered, may still hold some of it")
