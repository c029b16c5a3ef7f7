"""What the judge cost, summed from buckets, hours and days."""

from __future__ import annotations

from sqlalchemy import Connection, func, select

from monitor.models import ROOT
from monitor.store.levels import Piece, pieces, read_marks
from monitor.store.tables import streams

_MICRO = 1e6


def cost_usd_since(connection: Connection, since_s: float) -> float:
    """
    Sum what was spent on evaluations of samples since *since_s*, in US dollars.

    Where the buckets are gone, the hour or the day that holds *since_s* counts whole.
    """
    found = pieces(int(since_s), None, read_marks(connection))
    return sum(_microusd(connection, piece) for piece in found) / _MICRO


def _microusd(connection: Connection, piece: Piece) -> float:
    sums = piece.level.sums.c
    # By way of the streams, so that their rows are found by key.
    query = (
        select(func.sum(sums.cost_microusd))
        .select_from(streams.join(piece.level.sums, streams.c.stream_id == sums.stream_id))
        # What a segment cost is in the whole app's sum already.
        .where(
            streams.c.segment == ROOT,
            streams.c.last_bucket_s >= piece.from_s,
            sums.start_s >= piece.from_s,
        )
    )
    if piece.to_s is not None:
        query = query.where(sums.start_s < piece.to_s)
    return float(connection.execute(query).scalar() or 0)
