"""
What insights cost a minute at 60 unhealthy keys: python benchmarks/insights.py [--samples 200000].

Thirty apps with two metrics and six dimensions, samples of seven days, the last six hours bad. Then
an hour goes on so, minute by minute. CPU beside a floor: reading what changed in that minute.
"""

from collections import defaultdict
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial

import numpy as np
from common import new_store, print_head, print_row, script
from made import LONG, Maker, scheduler_of, write
from samples import cpu_s

from monitor.settings import Settings
from monitor.store.drift import bins_by_bucket
from monitor.store.engine import Store
from monitor.store.query import active_streams
from monitor.store.verdicts import read_verdicts
from workers.context import Components

_APPS, _DAYS, _BAD = 30, 7, timedelta(hours=6)
_MINUTE, _MINUTES, _FIRST = timedelta(minutes=1), 65, 5


def fill(store: Store, maker: Maker, end: datetime, n: int) -> None:
    """Write the samples of a week, bad ones in the end."""
    every, batch = timedelta(days=_DAYS) / n, 500
    for first in range(0, n, batch):
        times = [end - (n - k) * every for k in range(first, min(n, first + batch))]
        write(
            store, [maker.result(at, good=8.0 if at < end - _BAD else 2.0) for at in times], batch
        )


def read_news(store: Store, now: datetime) -> None:
    """Read which streams there are, and the histograms of the newest minute."""
    with store.read() as connection:
        found = active_streams(connection, since_s=now.timestamp() - 172_800, segment=None)
        ids, to_s = [stream.stream_id for stream in found], int(now.timestamp())
        bins_by_bucket(connection, ids, from_s=to_s - 60, to_s=to_s)


@script
def main(*, samples: int = 200_000) -> None:
    """Print CPU a minute, on average over an hour."""
    now, took_s = datetime(2026, 1, 8, 12, tzinfo=UTC), defaultdict[str, list[float]](list)
    maker, a_minute = Maker(replace(LONG, apps=_APPS)), round(samples / _DAYS / 1440)
    with new_store() as store:
        settings = Settings.from_env({"GROUNDWATCH_DATABASE_URL": str(store.engine.url)})
        context = Components(settings)
        evaluator, explainer, lease = scheduler_of(context)
        fill(store, maker, now, samples)
        for minute in range(_MINUTES):
            times = [now + k * _MINUTE / a_minute for k in range(a_minute)]
            write(store, [maker.result(at, good=2.0) for at in times], a_minute)
            now += _MINUTE
            for name, step in {
                "insights": partial(explainer.run, lease, now=now),
                "a look at the statuses": partial(evaluator.run, lease, now=now),
                "floor": partial(read_news, store, now),
            }.items():
                began_s = cpu_s(store)
                step()
                if minute >= _FIRST:  # the first sum the week, and take everything in
                    took_s[name].append(cpu_s(store) - began_s)
        with store.read() as connection:
            verdicts = read_verdicts(connection).values()
        context.close()
    unwell = {(v.app, v.metric) for v in verdicts if v.status in {"warning", "critical"}}
    print(f"{samples:,} samples, {len(unwell)} keys unhealthy")
    print_head("CPU in s a minute", "mean", "median", "most")
    for name, each in took_s.items():
        print_row(name, *(f"{of(each):.3f}" for of in (np.mean, np.median, np.max)))
