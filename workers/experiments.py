"""How an app's traffic is to be split over the variants of its experiments: learned, published."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from typing import Final

import numpy as np
import redis
from sqlalchemy import Connection, select

from monitor.models.status import OTHER, segment_name
from monitor.queue import names
from monitor.queue.consumer import translated
from monitor.rolling.tallies import window_stats
from monitor.settings import Settings
from monitor.stats.multiplicity import thompson_shares
from monitor.store.engine import Store
from monitor.store.lease import Lease
from monitor.store.query import active_streams, window_tallies
from monitor.store.tables import dimensions

EVERY_S: Final = 10.0
#: Scores that count: a variant may be better today than it was a month ago.
_SPAN_S: Final = 7 * 86_400
#: Without a scheduler the split is even again after this time.
_KEPT_S: Final = 3_600
_DIGITS: Final = 4
#: A tag with more values is not an experiment.
_MOST_VARIANTS: Final = 20


class ExperimentJob:
    """The scheduler's part of `groundwatch.choose`: shares from stored scores, into Redis."""

    def __init__(self, client: redis.Redis, store: Store, settings: Settings) -> None:
        self._client, self._store, self._settings = client, store, settings

    def run(self, lease: Lease) -> int:  # noqa: ARG002  # publishing twice does no harm
        """Do one round; return how many apps have experiments."""
        with self._store.read() as connection:
            found = self._shares(connection, int(time.time()))
        with translated(), self._client.pipeline(transaction=False) as pipe:
            for app, experiments in found.items():
                pipe.set(names.experiments(app), json.dumps(experiments), ex=_KEPT_S)
            pipe.execute()
        return len(found)

    def _shares(self, connection: Connection, now_s: int) -> dict[str, dict[str, dict[str, float]]]:
        """Return the shares by app, experiment and variant, of those with two variants or more."""
        metric = self._settings.metrics[0]
        query = select(dimensions.c.app, dimensions.c.dimension).where(
            dimensions.c.dimension.in_(self._settings.experiments)
        )
        found: dict[str, dict[str, dict[str, float]]] = defaultdict(dict)
        from_s = now_s - _SPAN_S
        for app, experiment in connection.execute(query).all():
            prefix = segment_name(experiment, "")
            variants: dict[str, tuple[float, float]] = {}
            streams = [
                stream
                for stream in active_streams(connection, since_s=from_s, segment=None, app=app)
                if stream.key.metric == metric and stream.key.segment.startswith(prefix)
            ]
            for stream in streams if len(streams) <= _MOST_VARIANTS else ():
                value = stream.key.segment.removeprefix(prefix)
                tallies = window_tallies(
                    connection, from_s=from_s, app=app, segment=stream.key.segment, histograms=False
                )
                if value != OTHER and stream.stream_id in tallies:
                    variants[value] = window_stats(tallies[stream.stream_id]).counts()
            if len(variants) > 1:
                counts = np.array(list(variants.values()))
                shares = thompson_shares(counts[:, 0], counts[:, 1])
                found[app][experiment] = {
                    name: round(float(share), _DIGITS)
                    for name, share in zip(variants, shares, strict=True)
                }
        return found
