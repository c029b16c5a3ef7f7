"""What the judge cost, summed from the buckets."""

from __future__ import annotations

from sqlalchemy import Connection, func, select

from monitor.store.tables import buckets, streams

_MICRO = 1e6


def cost_usd_since(connection: Connection, since_s: float) -> float:
    """Sum what was spent on evaluations of samples since *since_s*, in US dollars."""
    # By way of the streams, so that their buckets are found by key.
    query = (
        select(func.sum(buckets.c.cost_microusd))
        .select_from(streams.join(buckets, streams.c.stream_id == buckets.c.stream_id))
        .where(streams.c.last_bucket_s >= since_s, buckets.c.start_s >= since_s)
    )
    return float(connection.execute(query).scalar() or 0) / _MICRO
