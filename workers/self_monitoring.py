"""
Self-monitoring: how the monitor itself does, as verdicts that alerts are made from.

`JudgeWatch` and `QueueWatch` say whether the monitor is blind: its judge unavailable, its
budget reached, nothing scored. `VitalsReader` reads those and the vitals of every app.
`DeadMansSwitch` tells somebody outside that all is well, who notices when nothing does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, Self

import redis
import structlog
from pydantic import SecretStr
from sqlalchemy import Connection, func, select

from alerts.channels.base import HttpClient
from alerts.conditions import (
    APP_CONDITIONS,
    SELF,
    SYSTEM_CONDITIONS,
    AppVitals,
    SystemVitals,
    app_conditions,
    system_conditions,
    verdicts_on,
)
from alerts.outbox import dead_letters_since, oldest_waiting
from monitor.errors import DeliveryError, QueueUnavailableError
from monitor.format import duration, points
from monitor.models import Verdict
from monitor.queue.consumer import Backlog, backlog, translated
from monitor.report.words import proof_sentence
from monitor.scoring.limits.budget import Budget, caps_from
from monitor.scoring.limits.limiter import endpoint_name
from monitor.scoring.limits.rate import CircuitBreaker
from monitor.settings import Settings
from monitor.store.agreement import moved_judges
from monitor.store.engine import Store, database_time
from monitor.store.ledger import Booking, Kind, read_between
from monitor.store.samples import evaluations_of
from monitor.store.tables import counts, evaluations, hooks, streams
from monitor.store.verdicts import read_proofs
from workers.context import Clocks

_log = structlog.get_logger("groundwatch.alerts")
#: Conditions look at this much of the past.
SPAN_S = 900
_READ_EVERY_S = 30.0
_ASK_REDIS_EVERY_S = 300.0
_WEEK_S = 7 * 86_400
_DAY_S = 86_400
#: From then on a hook is silent.
_SILENT_S = 60.0
#: The hook of an app that is up less than this share of the day's hours is not missed.
_USUAL_HOURS = 12
#: A pause between evaluations is reported for so long after it.
_PAUSE_REPORTED_S = 900.0
#: A judge that moved is shown for so long.
_MOVED_SHOWN_FOR = timedelta(days=7)
_LATEST = 50
_MOSTLY = 0.5
#: A sample that has waited this long makes the monitor blind; so does a Redis that is away for
#: the second time, after which nobody expects it back from a restart.
BLIND_AFTER_S, AWAY_AFTER_S = 300.0, 120.0
_SWITCH_TIMEOUT_S = 5.0
_SUCCESS = range(200, 300)


class JudgeState(NamedTuple):
    """The state of the judge: what makes the monitor blind, and what is only noted."""

    trouble: str | None = None
    note: str | None = None
    away: str | None = None  #: why the judge is unavailable
    budget: str | None = None  #: which cap is reached, and for how long


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeWatch:
    """Reads what the workers share about the judge: its circuit breaker and its budget."""

    breaker: CircuitBreaker | None
    budget: Budget | None
    local_goes_on: bool  #: samples are scored locally when a budget is reached

    @classmethod
    def make(cls, settings: Settings, client: redis.Redis) -> Self:
        """Return a watch for the settings' judge; a scorer without one is never in trouble."""
        if not settings.asks_judge:
            return cls(breaker=None, budget=None, local_goes_on=True)
        caps = caps_from(settings)
        return cls(
            breaker=CircuitBreaker(client, endpoint_name(settings)),
            budget=Budget(client, caps) if caps else None,
            local_goes_on=settings.judge_budget.budget_policy == "local",
        )

    def look(self) -> JudgeState:
        """Return what is the matter now; that Redis is unreachable is reported elsewhere."""
        try:
            away = self.breaker.outage() if self.breaker is not None else None
            charges = self.budget.charges() if self.budget is not None else []
        except QueueUnavailableError:
            return JudgeState()
        reached = next((charge for charge in charges if charge.reached), None)
        budget, said, until = None, "", ""
        if reached is not None:
            setting = f"GROUNDWATCH_BUDGET_USD_PER_{reached.cap.period.upper()}"
            said = f"{reached.cap.words} is reached"
            until = f"for the next {duration(reached.left_s)}; {setting} raises it"
            budget = f"{said} {until}"
        if away is not None:
            reason = away.reason
            return JudgeState(trouble=f"judge away: {reason}", away=reason, budget=budget)
        if reached is None:
            return JudgeState()
        if self.local_goes_on:
            return JudgeState(note=f"{said}: local scores only {until}", budget=budget)
        return JudgeState(trouble=f"{said}: samples are skipped {until}", budget=budget)


@dataclass(slots=True)
class QueueWatch:
    """Reads the state of the queue, and remembers when it last could."""

    client: redis.Redis
    last: Backlog | None = None  #: what was found; None while Redis is away
    _answered_at: datetime | None = None

    def trouble(self, now: datetime) -> str | None:
        """Return why statuses cannot be trusted now, as a sentence; None when they can."""
        if self._answered_at is None:
            self._answered_at = now
        try:
            found = backlog(self.client)
        except QueueUnavailableError:
            self.last = None
            away_s = (now - self._answered_at).total_seconds()
            return (
                f"Redis has been unreachable for {duration(away_s)}"
                if away_s >= AWAY_AFTER_S
                else None
            )
        self._answered_at, self.last = now, found
        # What was left for later is history: it waits until nothing new does.
        if found.news_age_s is None or found.news_age_s < BLIND_AFTER_S:
            return None
        return f"{found.waiting:,} samples wait, the oldest for {duration(found.news_age_s)}"


@dataclass(slots=True, kw_only=True)
class VitalsReader:
    """Reads the vitals every half minute, and in between repeats what it found."""

    store: Store
    settings: Settings
    queue: QueueWatch
    judge: Callable[[], JudgeState] = JudgeState  #: what is known of the judge
    clocks: Callable[[], Clocks] = Clocks.now
    _found: list[Verdict] = field(default_factory=list)
    _read_at: datetime | None = None
    _evaluated_s: float | None = None  #: by the steady clock: the calendar may jump
    _paused_s: float = 0.0
    _paused_at_s: float | None = None
    _unsafe: tuple[str, ...] = ()
    _asked_redis_at: datetime | None = None

    def __call__(self, now: datetime) -> list[Verdict]:
        """Return a verdict on each condition of the monitor itself and of every app."""
        now_s = self.clocks().steady_s
        before_s, self._evaluated_s = self._evaluated_s, now_s
        if self._paused_at_s is not None and now_s - self._paused_at_s > _PAUSE_REPORTED_S:
            self._paused_s, self._paused_at_s = 0.0, None
        pause_s = 0.0 if before_s is None else now_s - before_s
        if pause_s > max(self._paused_s, 60.0, 3 * self.settings.evaluate_every_s):
            self._paused_s, self._paused_at_s = pause_s, now_s
        # A clock that was set back must not keep what was found in the future.
        read_at = self._read_at or now - timedelta(seconds=_READ_EVERY_S)
        if not 0 <= (now - read_at).total_seconds() < _READ_EVERY_S:
            window_s = self.settings.windows.status_window_s
            with self.store.read() as connection:
                backlog = self.queue.last
                skew_s = datetime.now(UTC).timestamp() - database_time(connection)
                waiting = oldest_waiting(connection)
                judge = self.judge()
                asked_at = self._asked_redis_at or now - timedelta(seconds=_ASK_REDIS_EVERY_S)
                if not 0 <= (now - asked_at).total_seconds() < _ASK_REDIS_EVERY_S:
                    self._asked_redis_at = now
                    with suppress(QueueUnavailableError):
                        self._unsafe = unsafe_redis(self.queue.client)
                system = SystemVitals(
                    judge_away=judge.away,
                    budget_reached=judge.budget,
                    oldest_waiting_s=None if backlog is None else backlog.oldest_age_s,
                    waiting=0 if backlog is None else backlog.waiting,
                    since_evaluation_s=self._paused_s or None,
                    evaluate_every_s=self.settings.evaluate_every_s,
                    undelivered_s={c: (now - at).total_seconds() for c, at in waiting.items()},
                    dead_letters=dead_letters_since(connection, now - timedelta(seconds=_WEEK_S)),
                    unsafe=self._unsafe,
                    clock_skew_s=skew_s,
                )
                ill = system_conditions(system)
                found = verdicts_on(SELF, ill, SYSTEM_CONDITIONS, window_s=window_s, now=now)
                for vitals in read_apps(
                    connection, now, status_window_s=window_s, asks_judge=self.settings.asks_judge
                ):
                    ill = app_conditions(vitals)
                    found += verdicts_on(
                        vitals.app, ill, APP_CONDITIONS, window_s=window_s, now=now
                    )
            self._found, self._read_at = found, now
        return [v.model_copy(update={"evaluated_at": now}) for v in self._found]


def read_apps(
    connection: Connection, now: datetime, *, status_window_s: int, asks_judge: bool = True
) -> list[AppVitals]:
    """Read the vitals of every app that reported within a day."""
    now_s = now.timestamp()
    # The age of each app's newest sign of life. Not grouped, and a whole number: else no database
    # goes by the index of the heartbeats.
    at_ms = hooks.c.heartbeat_at_ms
    query = select(hooks.c.app, at_ms).where(at_ms > round((now_s - _DAY_S) * 1000))
    newest_last = connection.execute(query.order_by(at_ms))
    ages_s = {app: now_s - heard_ms / 1000 for app, heard_ms in newest_last}
    recent = read_between(connection, now_s - SPAN_S, now_s + 60)
    week_ago = read_between(connection, now_s - _WEEK_S - SPAN_S, now_s - _WEEK_S)
    # By app: the judge of each metric that scored first within the window, and the newest one.
    judges: dict[str, tuple[dict[str, str], dict[str, str]]] = {}
    for app, metric, version in connection.execute(
        select(streams.c.app, streams.c.metric, streams.c.evaluator_version)
        .where(streams.c.last_bucket_s >= now_s - status_window_s, streams.c.segment == "*")
        .order_by(streams.c.stream_id)
    ):
        before, after = judges.setdefault(app, ({}, {}))
        before.setdefault(metric, version)
        after[metric] = version
    moved = judge_sentences(connection, now) if asks_judge else {}
    missed: dict[str, tuple[str, ...]] = {}
    for (app, metric), proof in sorted(read_proofs(connection).items()):
        if proof.met is False:
            said = f"{metric}: {proof_sentence(proof, now)}" if metric else proof.reason
            missed[app] = (*missed.get(app, ()), said)
    found = []
    for app in sorted(ages_s.keys() | recent.keys() | missed.keys()):
        if app == SELF:
            continue
        totals = _by_kind(recent.get(app, {}))
        age_s = ages_s.get(app)
        if age_s is not None and age_s >= _SILENT_S:
            # A silent hook is missed, unless it is that of a job that runs now and then.
            hour = counts.c.start_s - counts.c.start_s % 3600
            of_day = (counts.c.app == app) & (counts.c.start_s >= now_s - _DAY_S)
            hours = select(func.count(hour.distinct())).where(
                of_day, counts.c.kind == Kind.SEEN.value
            )
            if connection.execute(hours).scalar_one() < _USUAL_HOURS:
                age_s = None
        before, after = judges.get(app, ({}, {}))
        found.append(
            AppVitals(
                app=app,
                seen=sum(totals[Kind.SEEN].values()),
                seen_a_week_ago=sum(_by_kind(week_ago.get(app, {}))[Kind.SEEN].values()),
                sampled=sum(totals[Kind.SAMPLED].values()),
                sent=sum(totals[Kind.SENT].values()),
                dropped=totals[Kind.DROPPED],
                scored=sum(totals[Kind.SCORED].values()),
                failed=totals[Kind.FAILED],
                skipped=_skipped(connection, app, totals[Kind.SKIPPED], now_s),
                judges_before=before,
                judges_now=after,
                judges_moved=tuple(
                    said
                    for (metric, version), said in moved.items()
                    if after.get(metric) == version
                ),
                heartbeat_age_s=age_s,
                objectives_missed=missed.get(app, ()),
            )
        )
    return found


def judge_sentences(connection: Connection, now: datetime) -> dict[tuple[str, str], str]:
    """Return, by metric and evaluator version, how its judge moved of late."""
    return {
        key: f"{key[0]}: the judge moved by {points(state.shift)} on {state.pairs} old samples"
        " that it judged again"
        for key, state in moved_judges(connection, since=now - _MOVED_SHOWN_FOR).items()
    }


def _by_kind(bookings: Mapping[Booking, int]) -> dict[Kind, dict[str, int]]:
    found: dict[Kind, dict[str, int]] = {kind: {} for kind in Kind}
    for (kind, reason), n in bookings.items():
        found[kind][reason] = found[kind].get(reason, 0) + n
    return found


def _skipped(
    connection: Connection, app: str, skipped: Mapping[str, int], now_s: float
) -> dict[str, int]:
    """Add what came without passages, judged by the newest evaluations of groundedness."""
    query = (
        select(evaluations.c.status, evaluations.c.reason)
        .where(
            evaluations_of(app, "groundedness"),
            evaluations.c.occurred_at_ms >= (now_s - SPAN_S) * 1000,
        )
        .order_by(evaluations.c.occurred_at_ms.desc())
        .limit(_LATEST)
    )
    latest = list(connection.execute(query))
    without = sum(tuple(row) == ("skipped", "no_context") for row in latest)
    if latest and without > _MOSTLY * len(latest):
        return {**skipped, "no_context": max(skipped.get("no_context", 0), without)}
    return dict(skipped)


def unsafe_redis(client: Any) -> tuple[str, ...]:
    """Return what in the configuration of Redis may lose samples that wait."""
    with translated():
        info = client.info()
    found = []
    if not info.get("aof_enabled"):
        found.append("Redis keeps no append-only file, so samples that wait die with it")
    policy = info.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        found.append(f"Redis evicts ({policy}), so samples that wait may vanish")
    return tuple(found)


def broken_link(
    now: datetime,
    links: Mapping[str, datetime | None],
    *,
    oldest_sample_s: float | None,
    oldest_message_at: datetime | None,
    fresh_s: float,
    patience_s: float,
) -> str | None:
    """Return what does not work; None when every one of *links* did its work lately."""
    for name, at in links.items():
        if at is None or abs(now - at) > timedelta(seconds=fresh_s):
            return f"{name} is late"
    if (oldest_sample_s or 0.0) > patience_s:
        return "samples wait"
    if oldest_message_at and now - oldest_message_at > timedelta(seconds=patience_s):
        return "messages wait"
    return None


class DeadMansSwitch:
    """
    Calls an address, such as one of Healthchecks, while the chain is whole.

    Only somebody outside who misses the call can report that the monitor itself is dead.
    """

    def __init__(self, url: SecretStr) -> None:
        self._url = url
        self._http = HttpClient("dead man's switch", timeout_s=_SWITCH_TIMEOUT_S)

    def call(self, broken: str | None) -> bool:
        """Call, unless a link is broken; say whether the call was taken."""
        if broken is not None:
            _log.warning("dead_mans_switch_held", broken=broken)
            return False
        try:
            answer = self._http.send(self._url, b"", {}, "GET")
        except DeliveryError as error:
            _log.warning("dead_mans_switch_failed", code=error.code)
            return False
        if answer.status not in _SUCCESS:
            _log.warning("dead_mans_switch_failed", code=f"http_{answer.status}")
        return answer.status in _SUCCESS
