"""What the store keeps of one stream, bucket by bucket, and hours where buckets are gone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from monitor.models.tally import TALLY_SUMS
from monitor.rolling.bucket_replay import BucketSums
from monitor.store.levels import HOUR_S, HOURS, read_marks
from monitor.store.query import BASELINE_SUMS, series


@dataclass(frozen=True, slots=True)
class History:
    """
    The sums of one stream, oldest first, each bucket at a time at which it is complete.

    ``sums`` has a row a bucket and a column a sum of `TALLY_SUMS`; times in epoch seconds.
    """

    starts_s: NDArray[np.float64]
    ends_s: NDArray[np.float64]
    sums: NDArray[np.float64]
    bucket_s: int

    @property
    def times_s(self) -> NDArray[np.float64]:
        """The last bucket-wide stretch of each row: what is read up to its end is complete."""
        return self.ends_s - self.bucket_s

    def buckets(self) -> BucketSums:
        """Give what evidence is collected from."""
        columns = [self.sums[:, TALLY_SUMS.index(name)] for name in BASELINE_SUMS]
        return BucketSums(self.starts_s, self.ends_s, *columns)


def read_history(
    connection: Connection, stream_id: int, *, from_s: int, to_s: int, bucket_s: int
) -> History:
    """Read what is kept of [from_s, to_s): the narrowest rows there are."""
    # Buckets are kept from here on; what lies before is summed by the hour.
    kept_from_s = -(-read_marks(connection)["bucket"].kept_from_s // HOUR_S) * HOUR_S
    rows: list[tuple[float, float, list[float]]] = []
    for begin_s, end_s, width_s in (
        (from_s, min(to_s, kept_from_s), HOURS.width_s),
        (max(from_s, kept_from_s), to_s, bucket_s),
    ):
        if begin_s < end_s:
            found = series(connection, [stream_id], from_s=begin_s, step_s=width_s)
            for start_s, tally in sorted(found.get(stream_id, {}).items()):
                if start_s < end_s:
                    values = [float(getattr(tally, name)) for name in TALLY_SUMS]
                    rows.append((start_s, start_s + width_s, values))
    rows = [row for row in rows if row[1] <= to_s]
    starts, ends = (np.array([row[i] for row in rows], dtype=np.float64) for i in (0, 1))
    sums = np.array([row[2] for row in rows], dtype=np.float64).reshape(-1, len(TALLY_SUMS))
    return History(starts, ends, sums, bucket_s)
