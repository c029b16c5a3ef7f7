"""
Ask the hooks of an app for a sample rate, and say so in the store: once, or as the evidence moves.

`RateTuner` is the scheduler's part. It asks again and again for two minutes each: when no scheduler
runs any more, or Redis is away, hooks go back to their own rate by themselves.
"""

from __future__ import annotations

import math
from collections import Counter
from datetime import datetime, timedelta
from typing import Final, NamedTuple

import redis
import structlog
from sqlalchemy import Connection

from monitor.models.insight import SampleRate
from monitor.queue import names
from monitor.queue.consumer import translated
from monitor.rolling.baseline import LEAST_N
from monitor.rolling.evidence_state import from_json
from monitor.rolling.tuning import (
    AppEvidence,
    RateDecision,
    TuningState,
    decide_rate,
    suspicion,
)
from monitor.settings import Settings
from monitor.store.drift import first_seen
from monitor.store.engine import Lease, Store, database_now, fence
from monitor.store.ledger import Booking, Kind, read_totals
from monitor.store.query import active_streams
from monitor.store.verdicts import (
    own_rate,
    read_release_marks,
    read_sample_rates,
    read_states,
    save_sample_rate,
)

TUNE_EVERY_S: Final = 15.0
#: An asked rate ends by itself after so long.
LEASE_S: Final = 120
_DAY_S, _RELEASES_S = 86_400, 6 * 3_600
#: A sampling rate ends by itself unless it is set again: workers that die throttle nobody for ever.
RATE_KEPT_S = 3_600

log = structlog.get_logger("groundwatch.scheduler")


class RateRequest(NamedTuple):
    """The rate that somebody wants for an app, in [0, 1]."""

    app: str
    rate: float
    set_by: str
    now: datetime


class TunedBy(NamedTuple):
    """What a rate that follows the evidence watches, and the app's traffic."""

    metric: str
    seen_per_hour: float


def ask_rate(
    client: redis.Redis, store: Store, settings: Settings, request: RateRequest, kept_s: int,
    tuned: TunedBy | None = None,
) -> SampleRate:  # fmt: skip
    """
    Ask the hooks of an app for a rate for *kept_s* seconds; return what was asked for.

    If it is to be *tuned*, for as long as a scheduler runs that asks again.
    """
    kept_s = LEASE_S if tuned else kept_s
    asked = set_rate(client, request.app, request.rate, settings, kept_s=kept_s)
    with store.write() as connection:
        known, state = read_sample_rates(connection, request.app), None
        own = known[request.app][0].own if known else own_rate(connection, request.app)
        if tuned:
            seen, sampled = _counters(connection, request.app)
            state = TuningState.begin(
                tuned.metric, per_hour=asked * tuned.seen_per_hour,
                seen_per_hour=tuned.seen_per_hour, seen=seen, sampled=sampled,
                now_s=request.now.timestamp(),
            )._asdict()  # fmt: skip
        found = SampleRate(
            rate=asked, own=own or settings.sample_rate, reason="planned", since=request.now,
            until=request.now + timedelta(seconds=kept_s), set_by=request.set_by,
            follows_evidence=tuned is not None,
        )  # fmt: skip
        save_sample_rate(connection, request.app, found, state)
    return found


def end_rate(
    client: redis.Redis, store: Store, app: str, *, set_by: str, now: datetime
) -> None:  # fmt: skip
    """Let the hooks of *app* go back to their own rate, and end its tuning."""
    with store.write() as connection:
        if app in (known := read_sample_rates(connection, app)):
            own = known[app][0].own
            found = SampleRate(
                rate=own, own=own, reason="reset", since=now, until=now, set_by=set_by,
                follows_evidence=False,
            )  # fmt: skip
            save_sample_rate(connection, app, found, None)
    clear_rate(client, app)


def set_rate(
    client: redis.Redis, app: str, rate: float, settings: Settings, *, kept_s: int = RATE_KEPT_S
) -> float:
    """
    Ask the hooks of *app* to sample with the probability *rate* for *kept_s* seconds.

    They follow with their next batch or heartbeat, within ten seconds, each within the limits it
    was given itself; every record carries the probability in force. Return the rate that was asked
    for: *rate* within ``min_rate`` and ``max_rate``. Raise ValueError if it is not a number in
    [0, 1], QueueUnavailableError if Redis does not answer.
    """
    if not (math.isfinite(rate) and 0 <= rate <= 1):
        raise ValueError(f"a sampling rate is a number from 0 to 1, not {rate}")
    asked = min(max(rate, settings.min_rate), settings.max_rate)
    with translated():
        client.set(names.rate(app), repr(float(asked)), ex=kept_s)
    return asked


def clear_rate(client: redis.Redis, app: str) -> None:
    """Let the hooks of *app* go back to the rate they were configured with."""
    with translated():
        client.delete(names.rate(app))


def _counters(connection: Connection, app: str) -> tuple[int, int]:
    """Return how many interactions of an app were seen and sampled, ever."""
    counted = read_totals(connection, app).get(app, Counter[Booking]())
    seen, sampled = (counted[Booking(kind, "")] for kind in (Kind.SEEN, Kind.SAMPLED))
    return seen, sampled


class RateTuner:
    """Decides the rates of the apps whose tuning is on, and asks their hooks for them."""

    def __init__(self, client: redis.Redis, store: Store, settings: Settings) -> None:
        self._client, self._store, self._settings = client, store, settings

    def run(self, lease: Lease) -> int:
        """Do one round; return how many apps are tuned."""
        with self._store.read() as connection:
            known = read_sample_rates(connection)
            now = database_now(connection)
            decided = {
                app: (asked, self._decide(connection, app, TuningState(**tuning), now))
                for app, (asked, tuning) in known.items()
                if tuning is not None
            }
        for app, (before, decision) in decided.items():
            asked = set_rate(self._client, app, decision.rate, self._settings, kept_s=LEASE_S)
            lapsed = not before.is_in_force(now)
            is_new = lapsed or (asked, decision.reason) != (before.rate, before.reason)
            found = before.model_copy(update={
                "rate": asked, "reason": decision.reason, "since": now if is_new else before.since,
                "until": now + timedelta(seconds=LEASE_S),
            })  # fmt: skip
            with self._store.write() as connection:
                fence(connection, lease)
                last, tuning = read_sample_rates(connection, app)[app]
                is_ours = tuning is not None and last.since == before.since
                if is_ours:
                    save_sample_rate(connection, app, found, decision.state._asdict())
            left_s = int((last.until - now).total_seconds())
            if is_ours and is_new:
                log.info("sample_rate_asked", app=app, rate=asked, reason=decision.reason)
            elif not is_ours and left_s > 0:  # somebody set or reset it meanwhile
                set_rate(self._client, app, last.rate, self._settings, kept_s=left_s)
            elif not is_ours:
                clear_rate(self._client, app)
        return len(decided)

    def _decide(
        self, connection: Connection, app: str, tuning: TuningState, now: datetime
    ) -> RateDecision:
        """Decide by what is known of the app by the metric that it is planned for."""
        now_s = now.timestamp()
        seen, sampled = _counters(connection, app)
        tuning = tuning.counted(seen=seen, sampled=sampled, now_s=now_s)
        streams = active_streams(connection, since_s=now_s - _DAY_S, app=app)
        mine = [each.stream_id for each in streams if each.key.metric == tuning.metric]
        memory = read_states(connection, mine[:1]).get(mine[0]) if mine else None
        state = from_json(memory["memory"]) if memory else None
        since = now - timedelta(seconds=_RELEASES_S)
        came = first_seen(connection, app, "release", since_s=int(since.timestamp()))
        came |= {
            mark.release: int(mark.at.timestamp())
            for mark in read_release_marks(connection, app=app, since=since)
            if mark.at <= now
        }
        newest = max(came, key=lambda name: came[name], default="")
        released = (newest, float(came.get(newest, -math.inf)))
        evidence = AppEvidence(0.0, True, False, *released)
        if state is not None:
            bucket_s = self._settings.windows.bucket_s
            suspected = suspicion(state, per_hour=tuning.per_hour, bucket_s=bucket_s)
            is_new = state.baseline.n < LEAST_N
            evidence = AppEvidence(suspected, is_new, state.alarmed, *released)
        least, most = self._settings.min_rate, self._settings.max_rate
        return decide_rate(tuning, evidence, now_s=now_s, least=least, most=most)
