"""How the pass rate went before an alert, for the course drawn in messages."""

from __future__ import annotations

from sqlalchemy import Connection, select

from monitor.models.status import Verdict
from monitor.store.query import series
from monitor.store.tables import streams

_STEPS = 24
_WINDOWS = 2


def read_trend(connection: Connection, verdict: Verdict) -> tuple[float | None, ...]:
    """
    Read the pass rates of the last two windows in 24 steps, the oldest first.

    A step without scores is None; without any the answer is empty.
    """
    step_s = max(1, _WINDOWS * verdict.window_s // _STEPS)
    last_s = int(verdict.evaluated_at.timestamp()) // step_s * step_s
    first_s = last_s - (_STEPS - 1) * step_s
    stream_id = connection.execute(
        select(streams.c.stream_id).where(
            streams.c.app == verdict.app,
            streams.c.metric == verdict.metric,
            streams.c.segment == verdict.segment,
            streams.c.evaluator_version == verdict.evaluator_version,
        )
    ).scalar()
    if stream_id is None:
        return ()
    found = series(connection, [stream_id], from_s=first_s, step_s=step_s).get(stream_id, {})
    rates = []
    for at_s in range(first_s, last_s + 1, step_s):
        tally = found.get(at_s)
        weighed = tally is not None and tally.sum_w > 0
        # Estimates of passes may lie a little outside of what a rate can be.
        rates.append(min(1.0, max(0.0, tally.sum_wy / tally.sum_w)) if tally and weighed else None)
    return tuple(rates) if any(rate is not None for rate in rates) else ()
