"""Keep the pools of apps that share an evaluator, model or release, and say which fell together."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from sqlalchemy import Connection

from monitor.models.status import FleetFall
from monitor.rolling.fleet import (
    AppNews,
    FleetFinding,
    Pool,
    advance_pool,
    finding_of,
    pool_from_json,
    pool_to_json,
    pools_of,
)
from monitor.rolling.policies import Rules
from monitor.store.insights import read_marks
from monitor.store.query import shared_values
from monitor.store.verdicts import PoolKey, read_pools, save_pools

#: So long before a fall a release may have gone out that explains it.
_BEFORE: Final = timedelta(minutes=15)
#: In seconds: how often it is read what apps share, and how old its samples may be.
_FRESH_S, _LATELY_S = 60.0, 86_400.0


@dataclass(slots=True)
class FleetPools:
    """The pools, by metric, evaluator version and what is shared, for as long as a lease lasts."""

    _pools: dict[PoolKey, dict[str, Pool]] = field(default_factory=dict)
    _falls: dict[PoolKey, FleetFall] = field(default_factory=dict)
    _shared: Mapping[str, Sequence[str]] = field(default_factory=dict)
    _shared_at_s: float = -math.inf

    def read(self, connection: Connection) -> None:
        """Read what is remembered."""
        self._pools = {
            key: {value: pool_from_json(state) for value, state in states.items()}
            for key, states in read_pools(connection).items()
        }

    def shared(self, connection: Connection, now: datetime) -> Mapping[str, Sequence[str]]:
        """Return the model and the release that each app uses now; read once a minute."""
        if not 0 <= now.timestamp() - self._shared_at_s < _FRESH_S:
            self._shared = shared_values(connection, since_s=now.timestamp() - _LATELY_S)
            self._shared_at_s = now.timestamp()
        return self._shared

    def advance(
        self,
        connection: Connection,
        news: Mapping[PoolKey, Sequence[AppNews]],
        rules: Rules,
        *,
        now: datetime,
    ) -> list[FleetFall]:
        """
        Take every pool to *now*; return the falls that go on, the worst first.

        Of an evaluator's pools that fell, the largest speaks.
        """
        now_s, shared = now.timestamp(), self.shared(connection, now)
        before, self._pools, self._falls = self._pools, {}, {}
        for key, apps in news.items():
            known = before.get(key, {})
            pools = pools_of([one.app for one in apps], shared)
            going_on = [value for value, pool in known.items() if pool.incident or not value]
            for value in dict.fromkeys([*pools, *going_on]):
                inside = [one for one in apps if value not in pools or one.app in pools[value]]
                pool = advance_pool(known.get(value, Pool(at_s=now_s)), inside, now_s, rules)
                self._pools.setdefault(key, {})[value] = pool
                found = finding_of(pool)
                known_fall = self._falls.get(key)
                if found and (known_fall is None or found.n_apps > known_fall.n_apps):
                    self._falls[key] = _fall(connection, key, value, found)
        return sorted(self._falls.values(), key=lambda fall: (fall.high, fall.metric))

    def save(self, connection: Connection, *, now: datetime) -> None:
        """Write the pools, in the transaction that is fenced by the lease."""
        states = {
            key: {value: pool_to_json(pool) for value, pool in pools.items()}
            for key, pools in self._pools.items()
        }
        save_pools(connection, states, self._falls, now=now)


def _fall(connection: Connection, key: PoolKey, shared: str, found: FleetFinding) -> FleetFall:
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
        what = "; all of them use " + shared.replace("=", " ") if shared else ""
        cause = (
            "cause unknown: the evaluator's version is the same as before, and no release went out"
            f" to most of them{what}"
        )
    names = ("status", "pass_rate", "low", "high", "n", "fell", "n_apps")
    return FleetFall(
        metric=key[0], evaluator_version=key[1], shared=shared, status_since=status_since,
        since=since, cause=cause, **{name: getattr(found, name) for name in names},
    )  # fmt: skip
