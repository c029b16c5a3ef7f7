"""Delete from alerts what they quoted of one person's samples."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection, Table, select, update

from alerts.escaping import plain
from alerts.snapshot import SAMPLE_CHARS
from monitor.store.alert_tables import alert_events, outbox

_NOTE = "(deleted)"


def forget_quotes(connection: Connection, explanations: Iterable[str], *, dry_run: bool) -> int:
    """
    Blank every quote of these explanations in timelines and messages; say how many had one.

    What was delivered before is in other hands.
    """
    quotes = {plain(text, SAMPLE_CHARS) for text in explanations}
    if not quotes:
        return 0
    return sum(
        _forget(connection, table, key, quotes, dry_run=dry_run)
        for table, key in ((alert_events, "event_id"), (outbox, "delivery_id"))
    )


def _forget(
    connection: Connection, table: Table, key: str, quotes: set[str], *, dry_run: bool
) -> int:
    found = 0
    for name, snapshot in connection.execute(select(table.c[key], table.c.snapshot)).all():
        quoted = snapshot.get("samples") or []
        if quotes.isdisjoint(quoted):
            continue
        found += 1
        if not dry_run:
            kept = [_NOTE if text in quotes else text for text in quoted]
            mine = table.c[key] == name
            connection.execute(
                update(table).where(mine).values(snapshot={**snapshot, "samples": kept})
            )
    return found
