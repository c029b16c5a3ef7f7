"""
Apps that fall together: a pooled stream of all apps that share an evaluator, a model or a release.

Every sample of app a bets against that app's own null m_a, the limit below which it has certainly
fallen (at least the warning threshold), on "all fell by the same share": q = m_a (1 - r), for five
shares r. One Shiryaev-Roberts sum over all apps and shares is the evidence.

Validity: while no app is below its own null, each payoff has a mean of at most 1 given all that
came before, whatever the levels of the apps, however they differ and however they depend on each
other. So the theorem of `monitor.stats.evidence` holds for the pool as for any stream, and the pool
is one more key of the same budget. Two conditions only take alarms away:

- *Breadth*: without its two loudest apps, the leading bet has still gained a factor of 1,000 since
  it began. One app alone, or two, are never called a fall of the fleet.
- *Level*: the posterior of a shift of the log odds that is common to all apps puts 9 in 10 of the
  pooled rate below the warning threshold. Its quantiles are the figures that are shown.

Limits: an app whose incident is open, or whose normal rate is unknown, is not in the pool. Half of
the apps falling by little is not seen, as the pooled rate stays above the threshold.
Not proven: the end of an incident, for which all samples count as those of one stream.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from monitor.models import Status
from monitor.rolling.evidence_state import (
    CLEAR_GAIN,
    CLEAR_SLACK,
    LEAST_LOG_P,
    N_RISES,
    RISES,
    SILENT_BUCKETS,
    Bets,
    Count,
    EvidenceState,
    held,
    short_row,
)
from monitor.rolling.looks import Looks, stakes_of
from monitor.rolling.policies import LEAST_APPS, Rules, status_of
from monitor.stats.evidence import NOTHING, log_mean, log_payoffs, sample_log_payoffs

Floats = NDArray[np.float64]

#: Shares by which all may have fallen.
_FALLS: Final = np.array([0.06, 0.12, 0.22, 0.45, 0.90])
#: Common shifts of the log odds, with a flat prior. None is 0: what neither gains nor loses would
#: grow with time alone, and hide a fall.
_SHIFTS: Final = -np.linspace(0.1, 4.1, 41)
_LOUDEST: Final = 2
_LOG_BREADTH: Final = math.log(1000.0)
#: Log evidence beyond an alarm's that is remembered: a fleet that settled lower may rise again.
_BEYOND: Final = 3.0
#: Levels of the bounds that are shown and that decide; below the critical threshold the stricter.
_LOW, _HIGH, _STRICT = 0.05, 0.90, 0.95
#: What is known of the normal rate of an app that has no reference above the threshold.
_KNOWN_N: Final = 500.0


class AppNews(NamedTuple):
    """What one look brought of one app, and what the app was known to be before it."""

    app: str
    state: EvidenceState  #: before the look
    looks: Looks


class PoolMember(NamedTuple):
    """What is known of an app: the null of its bets, and its samples of about a day."""

    null: float
    weight: float


class PoolIncident(NamedTuple):
    """
    A fall of the fleet, from its alarm to its end.

    ``counted`` is of all apps since ``counted.from_s``, when the fall is thought to have begun;
    ``log_p`` the posterior of the common shift; ``members`` and ``lead`` are those of the alarm;
    ``rises`` and ``gain`` the evidence of a recovery.
    """

    status: Status
    status_s: float
    high: float
    low: float
    lead: int
    counted: Count
    members: Mapping[str, PoolMember]
    log_p: Floats
    rises: Floats
    gain: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """
    What is remembered of a pool between two looks.

    ``bets`` are on the five falls, ``log_q`` the sums of the shifts, shape (41,), and ``gained`` is
    each app's part of the bets' gain.
    """

    at_s: float
    bets: Bets = field(default_factory=lambda: Bets.none(_FALLS.size, 0.0))
    log_q: Floats = field(default_factory=lambda: np.full(_SHIFTS.size, NOTHING))
    gained: Mapping[str, Floats] = field(default_factory=dict)
    incident: PoolIncident | None = None


class FleetFinding(NamedTuple):
    """The figures of a fall: rates in [0, 1], epoch seconds; apps that fell, the loudest first."""

    status: Status
    status_s: float
    pass_rate: float
    low: float
    high: float
    n: int
    since_s: float
    fell: tuple[str, ...]
    n_apps: int


def member_of(state: EvidenceState, now_s: float, rules: Rules) -> PoolMember | None:
    """Return what an app bets against; None where its normal rate is unknown."""
    baseline = state.baseline
    limits = baseline.fallen_below if rules.use_reference else ()
    if not limits and (baseline.n < _KNOWN_N or (baseline.rate or 0.0) < rules.warning_rate):
        return None
    null = limits[int(now_s // 3600) % len(limits)] if limits else rules.warning_rate
    return PoolMember(max(null, rules.warning_rate), max(state.n_day, 1.0))


def advance_pool(pool: Pool, news: Sequence[AppNews], now_s: float, rules: Rules) -> Pool:
    """
    Take a pool through one look at *now_s*, in epoch seconds, not before the last one.

    *news* holds one item an app, also of those without new samples: they are known to be there.
    The budget in *rules* is that of the pool.
    """
    if pool.incident is not None:
        return _in_incident(pool, pool.incident, news, now_s, rules)
    members = {
        one.app: member
        for one in news
        if not one.state.alarmed and (member := member_of(one.state, now_s, rules)) is not None
    }
    if len(members) < LEAST_APPS:
        return replace(pool, at_s=now_s)
    inside = [one for one in news if one.app in members]
    null = np.array([members[one.app].null for one in inside])
    each, shifted, total = _payoffs(inside, null)
    stake = float(stakes_of(np.array(pool.at_s), np.array(now_s), rules.bucket_s))
    bets = pool.bets.after(each.sum(axis=0), total, stake, now_s)
    with np.errstate(divide="ignore"):
        log_q = np.clip(np.logaddexp(pool.log_q, np.log(stake)) + shifted, NOTHING, -NOTHING)
    gained = {app: parts * (bets.gain > 0.0) for app, parts in _gained(pool, inside, each).items()}
    alarm = log_mean(bets.log_r) >= rules.log_threshold()
    most = np.minimum(bets.log_r, rules.log_threshold() + _BEYOND)
    moved = Pool(
        at_s=now_s,
        bets=bets._replace(log_r=most),
        log_q=log_q,
        gained={app: parts for app, parts in gained.items() if parts.any()},
    )
    # Open an incident, if the evidence is broad and the pooled rate below the threshold.
    lead = int(most.argmax())
    broad = sum(sorted(parts[lead] for parts in moved.gained.values())[:-_LOUDEST])
    if not alarm or broad < _LOG_BREADTH:
        return moved
    low, high = _bounds(log_q, members, rules)
    if high >= rules.warning_rate:
        return moved
    count = bets.since(lead)
    high = float(held(np.array(high), np.array(count.rate), Status.WARNING, rules))
    rises = np.full(N_RISES, NOTHING), np.zeros(N_RISES)
    opened = PoolIncident(
        status_of(high, rules), now_s, high, min(low, high), lead, count, members,
        log_q - log_q.max(), *rises,
    )  # fmt: skip
    return replace(moved, incident=opened)


def _in_incident(
    pool: Pool, incident: PoolIncident, news: Sequence[AppNews], now_s: float, rules: Rules
) -> Pool:
    """Go on with the posterior of those that were in the pool; end it by evidence of a recovery."""
    inside = [one for one in news if one.app in incident.members and one.looks.time_s.size]
    if not inside:
        silent = now_s - pool.at_s > SILENT_BUCKETS * rules.bucket_s
        return Pool(at_s=now_s) if silent else pool
    members = incident.members
    each, shifted, total = _payoffs(inside, np.array([members[one.app].null for one in inside]))
    count = incident.counted.plus(*(float(value) for value in total))
    log_p = incident.log_p + shifted
    log_p -= log_p.max()
    low, high = _bounds(log_p, members, rules)
    high = float(held(np.array(high), np.array(count.rate), incident.status, rules))
    line = rules.warning_rate - CLEAR_SLACK
    good, bad = (
        np.array(sum(values)) for values in zip(*(_effective(one) for one in inside), strict=True)
    )
    paid = log_payoffs(good, bad, line, 1.0 - (1.0 - line) * (1.0 - RISES))
    stake = stakes_of(np.array(pool.at_s), np.array(now_s), rules.bucket_s)
    with np.errstate(divide="ignore"):
        rises = np.maximum(np.logaddexp(incident.rises, np.log(stake)) + paid, NOTHING)
    gain = np.maximum(incident.gain + paid, 0.0)
    recovered = log_mean(rises) >= rules.log_clear and gain[rises.argmax()] >= CLEAR_GAIN
    status = status_of(high, rules)
    if status is Status.HEALTHY or recovered:
        return Pool(at_s=now_s)
    status_s = incident.status_s if status is incident.status else now_s
    goes_on = PoolIncident(
        status, status_s, high, min(low, high), incident.lead, count, members,
        np.maximum(log_p, LEAST_LOG_P), rises, gain,
    )  # fmt: skip
    return replace(pool, at_s=now_s, gained=_gained(pool, inside, each), incident=goes_on)


def _gained(pool: Pool, inside: Sequence[AppNews], each: Floats) -> dict[str, Floats]:
    """Return what each app has gained, its news included."""
    news = {one.app: parts for one, parts in zip(inside, each, strict=True)}
    return {**pool.gained, **{app: pool.gained.get(app, 0.0) + news[app] for app in news}}


def finding_of(pool: Pool) -> FleetFinding | None:
    """Return the figures of an open incident, and the apps that were seen to fall."""
    incident = pool.incident
    if incident is None:
        return None
    parts = {app: float(gained[incident.lead]) for app, gained in pool.gained.items()}
    fell = (app for app in parts if parts[app] > 0.0)
    return FleetFinding(
        incident.status,
        incident.status_s,
        min(incident.counted.rate, incident.high),
        min(incident.low, incident.counted.rate),
        incident.high,
        round(incident.counted.n),
        incident.counted.from_s,
        tuple(sorted(fell, key=lambda app: (-round(parts[app], 3), app))),
        len(incident.members),
    )


def _effective(one: AppNews) -> tuple[float, float]:
    """Return the passes and failures that independent samples would be worth as much as."""
    passed, size = float(one.looks.passed.sum()), float(one.looks.size.sum())
    return passed / one.state.baseline.effect, (size - passed) / one.state.baseline.effect


def _payoffs(inside: Sequence[AppNews], null: Floats) -> tuple[Floats, Floats, Floats]:
    """
    Return the log payoffs of bets by app, shape (apps, 5), and of shifts together, shape (41,).

    The third is what was counted: samples, what they are worth, and what part of that passed.
    """
    good, bad = np.array([_effective(one) for one in inside]).T
    m = null[:, None]
    each = log_payoffs(good, bad, m, m * (1.0 - _FALLS))
    for row, one in enumerate(inside):
        if one.looks.samples is not None:
            m_row = m[row : row + 1]
            q = m_row * (1.0 - _FALLS)
            paid = sample_log_payoffs(one.looks.samples, m_row, q, one.looks.worth)
            each[row] = paid.sum(axis=0) / one.state.baseline.effect
    shifted = log_payoffs(good, bad, m, expit(logit(np.clip(m, 1e-6, 1 - 1e-6)) + _SHIFTS))
    total = np.array(
        [[float(column.sum()) for column in one.looks[1:4]] for one in inside], dtype=np.float64
    ).sum(axis=0)
    return each, np.clip(shifted.sum(axis=0), -300.0, 300.0), total


def _bounds(log_p: Floats, members: Mapping[str, PoolMember], rules: Rules) -> tuple[float, float]:
    """Return the bounds of the pooled rate, weighted by traffic."""
    null, weight = np.array(list(members.values())).T
    rates = expit(logit(np.clip(null, 1e-6, 1 - 1e-6))[:, None] + _SHIFTS)
    # Shifts run down, so that the rate rises from the last to the first.
    pooled = (np.average(rates, axis=0, weights=weight))[::-1]
    p = np.exp(log_p - log_p.max())[::-1]
    cdf = np.cumsum(p) / p.sum()
    low, usual, strict = (
        float(pooled[min(int(np.searchsorted(cdf, level - 1e-12)), cdf.size - 1)])
        for level in (_LOW, _HIGH, _STRICT)
    )
    return low, max(usual, min(strict, rules.critical_rate))


def pool_to_json(pool: Pool) -> dict[str, Any]:
    """Return a pool as plain values: about forty bytes an app beside half a kilobyte."""
    incident = pool.incident
    return {
        "at_s": pool.at_s,
        "sums": [short_row(row) for row in (pool.bets.log_r, pool.log_q, pool.bets.gain)],
        "counts": [short_row(row) for row in (pool.bets.at_s, *pool.bets[2:5])],
        "gained": {app: short_row(parts) for app, parts in pool.gained.items()},
        "incident": incident
        and {
            **incident._asdict(),
            "status": incident.status.value,
            "counted": list(incident.counted),
            "members": {app: list(member) for app, member in incident.members.items()},
            **{name: short_row(getattr(incident, name)) for name in ("log_p", "rises", "gain")},
        },
    }


def pool_from_json(value: Mapping[str, Any]) -> Pool:
    """Read a pool."""
    log_r, log_q, gain = (np.array(row, dtype=np.float64) for row in value["sums"])
    at_s, n, size, passed = np.array(value["counts"], dtype=np.float64)
    incident = value["incident"]
    return Pool(
        at_s=value["at_s"],
        bets=Bets(log_r, gain, n, size, passed, at_s),
        log_q=log_q,
        gained={app: np.array(row, dtype=np.float64) for app, row in value["gained"].items()},
        incident=incident
        and PoolIncident(
            **incident
            | {
                "status": Status(incident["status"]),
                "counted": Count(*incident["counted"]),
                "members": {app: PoolMember(*pair) for app, pair in incident["members"].items()},
            }
            | {name: np.array(incident[name]) for name in ("log_p", "rises", "gain")}
        ),
    )
