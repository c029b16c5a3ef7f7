"""Keep the pools of apps that share an evaluator, and say which of them fell together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from sqlalchemy import Connection

from monitor.models.status import FleetFall
from monitor.rolling.fleet import (
    LEAST_APPS,
    AppNews,
    FleetFinding,
    Pool,
    advance_pool,
    finding_of,
    pool_from_json,
    pool_to_json,
)
from monitor.rolling.policies import Rules
from monitor.store.insights import read_marks
from monitor.store.verdicts import PoolKey, read_pools, save_pools

#: So long before a fall a release may have gone out that explains it.
_BEFORE: Final = timedelta(minutes=15)


@dataclass(slots=True)
class FleetPools:
    """The pools, by metric and evaluator version, kept for as long as one lease lasts."""

    _pools: dict[PoolKey, Pool] = field(default_factory=dict)
    _falls: dict[PoolKey, FleetFall] = field(default_factory=dict)

    def read(self, connection: Connection) -> None:
        """Read what is remembered."""
        found = read_pools(connection)
        self._pools = {key: pool_from_json(state) for key, state in found.items()}

    def advance(
        self,
        connection: Connection,
        news: Mapping[PoolKey, Sequence[AppNews]],
        rules: Rules,
        *,
        now: datetime,
    ) -> list[FleetFall]:
        """Take every pool to *now*; return the falls that go on, the worst first."""
        now_s = now.timestamp()
        self._pools = {
            key: advance_pool(self._pools.get(key, Pool(at_s=now_s)), apps, now_s, rules)
            for key, apps in news.items()
            if len(apps) >= LEAST_APPS or key in self._pools
        }
        self._falls = {
            key: _fall(connection, key, found)
            for key, pool in self._pools.items()
            if (found := finding_of(pool)) is not None
        }
        return sorted(self._falls.values(), key=lambda fall: (fall.high, fall.metric))

    def save(self, connection: Connection, *, now: datetime) -> None:
        """Write the pools, in the transaction that is fenced by the lease."""
        states = {key: pool_to_json(pool) for key, pool in self._pools.items()}
        save_pools(connection, states, self._falls, now=now)


def _fall(connection: Connection, key: PoolKey, found: FleetFinding) -> FleetFall:
    since, status_since = (
        datetime.fromtimestamp(at_s, UTC) for at_s in (found.since_s, found.status_s)
    )
    # The pool is of one version of the evaluator, so a judge of another name explains
    # nothing, and nothing else is blamed without a change that was seen.
    apps = set(found.fell)
    releases = Counter(
        mark.release
        for mark in read_marks(connection, since=since - _BEFORE)
        if mark.app in apps and mark.at <= status_since
    )
    release, n = next(iter(releases.most_common(1)), ("", 0))
    cause = f"release {release} went out to {n} of them at that time"
    if n <= len(apps) / 2:
        cause = (
            "cause unknown: the evaluator's version is the same as before, and no release went out"
            " to most of them"
        )
    names = ("status", "pass_rate", "low", "high", "n", "fell", "n_apps")
    return FleetFall(
        metric=key[0], evaluator_version=key[1], status_since=status_since, since=since,
        cause=cause, **{name: getattr(found, name) for name in names},
    )  # fmt: skip
