"""The sample rates that the hooks of each app were asked for, and what their tuning remembers."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, func, select, tuple_

from monitor.models.insight import SampleRate
from monitor.store.engine import put, rows_of
from monitor.store.tables import epoch_ms, matches, sample_rates, samples, time_of

#: A reference of eight days weighs its samples by them.
_KEPT = timedelta(days=10)
_NEWEST = 100
_FIELDS = ("rate", "own", "reason", "until", "set_by")

#: What was asked for last, and the state of its tuning; None where a person set it.
Asked = tuple[SampleRate, Mapping[str, Any] | None]
#: From when until when which rate was asked for, and the app's own; times in epoch seconds.
AskedSpan = tuple[float, float, float, float]


def read_sample_rates(connection: Connection, app: str | None = None) -> dict[str, Asked]:
    """Return what was asked for last, by app."""
    c = sample_rates.c
    newest = select(c.app, func.max(c.since_ms)).where(matches(c.app, app)).group_by(c.app)
    query = select(sample_rates).where(tuple_(c.app, c.since_ms).in_(newest))
    return {
        row["app"]: (
            SampleRate(
                **{name: row[name] for name in _FIELDS}, since=time_of(row["since_ms"]),
                follows_evidence=row["tuning"] is not None,
            ),
            row["tuning"],
        )
        for row in rows_of(connection, query)
    }  # fmt: skip


def read_asked_spans(connection: Connection) -> dict[str, list[AskedSpan]]:
    """Return all that was asked for in the last days, by app."""
    found: dict[str, list[AskedSpan]] = {}
    c = sample_rates.c
    for app, since_ms, until, rate, own in connection.execute(
        select(c.app, c.since_ms, c.until, c.rate, c.own).order_by(c.app, c.since_ms)
    ):
        found.setdefault(app, []).append((since_ms / 1000, until.timestamp(), rate, own))
    return found


def save_sample_rate(
    connection: Connection, app: str, asked: SampleRate, tuning: Mapping[str, Any] | None
) -> None:
    """Keep what was asked for; the one before it ends, and what is older than ten days goes."""
    c, since_ms = sample_rates.c, epoch_ms(asked.since)
    earlier = (c.app == app) & (c.since_ms < since_ms)
    ends = sample_rates.update().where(earlier, c.until > asked.since)
    connection.execute(ends.values(until=asked.since))
    connection.execute(sample_rates.delete().where(earlier, c.until < asked.since - _KEPT))
    row = {name: getattr(asked, name) for name in _FIELDS}
    kept = None if tuning is None else dict(tuning)
    put(connection, sample_rates, [row | {"app": app, "since_ms": since_ms, "tuning": kept}])


def own_rate(connection: Connection, app: str) -> float | None:
    """Return the commonest sample rate of an app's newest samples; None without any."""
    c = samples.c
    newest = (
        select(c.sample_rate)
        .where(c.app == app)
        .order_by(c.occurred_at_ms.desc())
        .limit(_NEWEST)
        .subquery()
    )
    rate = newest.c.sample_rate
    query = select(rate).group_by(rate).order_by(func.count().desc(), rate).limit(1)
    found = connection.execute(query).scalar()
    return None if found is None else float(found)
