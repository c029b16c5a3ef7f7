"""
What can be wrong with the monitor itself: one alert a condition, each saying what to do; pure.

Every condition is an ordinary alert of the app that it makes blind, so that the app's
routes and silences hold for it; what concerns no app in particular is an alert of the
app `groundwatch`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from alerts.routing import MONITOR_PREFIX
from monitor.models.status import Status, Verdict
from monitor.report.format import duration

#: The app of what concerns no app in particular.
SELF = "groundwatch"
#: Statuses cannot be trusted; reserved, as are all metrics that begin so.
BLIND = "monitor:blind"
JUDGE_CHANGED = "monitor:judge_changed"

_SEES = "the monitor sees every metric of this app"
_LEAST_SEEN = 20
_MOST_DROPPED = 0.01
_LEAST_COVERAGE = 0.5
_MOST_FAILED = 0.10
_MOST_SKIPPED = 0.5
_SILENT_AFTER_S = 300.0
_LAG_AFTER_S = 300.0
_UNDELIVERED_AFTER_S = 300.0
_MOST_SKEW_S = 5.0


class Condition(NamedTuple):
    """The words of one condition."""

    ill: str
    well: str
    advice: str


#: Of `BLIND`, which each verdict's own reason explains.
BLINDNESS = Condition(
    "the monitor cannot judge this app", "the monitor can judge this app again", ""
)
CONDITIONS: Mapping[str, Condition] = {
    "monitor:traffic_stopped": Condition(
        "the app answers nobody, though it did at this hour a week ago",
        "the app answers again",
        "look whether the app, or what leads people to it, is down; the monitor is well",
    ),
    "monitor:hook_silent": Condition(
        "nothing is heard of the hook in the app",
        "the hook is heard of again",
        "is the app up, GROUNDWATCH_ENABLED not false, and Redis within its reach?"
        " Try: groundwatch doctor hook",
    ),
    "monitor:samples_dropped": Condition(
        "the hook drops samples",
        "the hook drops nothing any more",
        "start more workers, or lower GROUNDWATCH_SAMPLE_RATE; groundwatch doctor names the reason",
    ),
    "monitor:coverage_low": Condition(
        "much of what the hook sends is never scored",
        "what the hook sends is scored again",
        "look at the workers' log, and at the queue: groundwatch doctor",
    ),
    "monitor:queue_lag": Condition(
        "samples wait for too long to be scored",
        "the queue is short again",
        "start more workers, or a faster scorer; are the workers up? groundwatch doctor",
    ),
    "monitor:judge_errors": Condition(
        "the scorer fails on many samples",
        "the scorer works again",
        "look at the judge's endpoint, key, quota and model; groundwatch report lists the errors",
    ),
    "monitor:judge_away": Condition(
        "the judge answers nobody, so samples wait for it",
        "the judge answers again",
        "look at its key, account, model and endpoint; samples wait, and are scored when it is"
        " back: groundwatch doctor",
    ),
    "monitor:budget_reached": Condition(
        "the judge's budget is used up, so samples go without it",
        "there is budget again",
        "raise the budget, or sample less; statuses rest on fewer scores until then",
    ),
    "monitor:contexts_missing": Condition(
        "samples come without the passages that their answers should rest on",
        "samples have their passages again",
        "hand contexts= to monitor.sample; without them groundedness cannot be judged",
    ),
    JUDGE_CHANGED: Condition(
        "another judge scores now: its scores are not compared with those before",
        "the judge has stayed the same for a window",
        "if nobody meant that, set GROUNDWATCH_JUDGE_MODEL and the version as they were",
    ),
    "monitor:evaluator_stale": Condition(
        "statuses were not computed for a while",
        "statuses are computed on time again",
        "look at the scheduler's log; is the machine or the database overloaded?",
    ),
    "monitor:channel_failing": Condition(
        "a channel takes no messages",
        "all channels take messages again",
        "try it: groundwatch alerts test CHANNEL; then groundwatch alerts outbox ls",
    ),
    "monitor:dead_letters": Condition(
        "messages were given up",
        "no message is given up that nobody looked after",
        "groundwatch alerts outbox ls --dead, then retry or drop each",
    ),
    "monitor:store_unsafe": Condition(
        "what the monitor keeps may get lost",
        "what the monitor keeps is safe again",
        "correct what is named under why; groundwatch doctor checks it again",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AppVitals:
    """What is known of how one app is watched, over the last quarter of an hour or so."""

    app: str
    heartbeat_age_s: float | None = None  #: of the hook last heard of
    seen: int = 0
    seen_a_week_ago: int = 0  #: in the same stretch of time
    sampled: int = 0
    sent: int = 0
    dropped: Mapping[str, int] = field(default_factory=dict)  #: by reason
    scored: int = 0
    failed: Mapping[str, int] = field(default_factory=dict)
    skipped: Mapping[str, int] = field(default_factory=dict)
    judges_before: Mapping[str, str] = field(
        default_factory=dict
    )  #: by metric, in the window before
    judges_now: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemVitals:
    """What is known of the monitor as a whole."""

    oldest_waiting_s: float | None = None  #: in the queue
    waiting: int = 0
    since_evaluation_s: float | None = None
    evaluate_every_s: float = 5.0
    undelivered_s: Mapping[str, float] = field(default_factory=dict)  #: oldest message, by channel
    dead_letters: int = 0
    unsafe: tuple[str, ...] = ()
    clock_skew_s: float = 0.0
    judge_away: str | None = None  #: why it answers nobody
    budget_reached: str | None = None  #: which cap, and for how long


def app_conditions(vitals: AppVitals) -> dict[str, str]:
    """Say what is wrong with how an app is watched: a reason for each condition."""
    found = (*_of_hook(vitals), *_of_scoring(vitals))
    return {kind: reason for kind, reason in found if reason is not None}


def system_conditions(vitals: SystemVitals) -> dict[str, str]:
    """Say what is wrong with the monitor as a whole: a reason for each condition."""
    return {kind: reason for kind, reason in _of_system(vitals) if reason is not None}


def blindness(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """Return a verdict of each app and window: a warning when any of its metrics is blind."""
    groups: dict[tuple[str, int], list[Verdict]] = defaultdict(list)
    for verdict in verdicts:
        if not verdict.metric.startswith(MONITOR_PREFIX):
            groups[verdict.app, verdict.window_s].append(verdict)
    found = []
    for (app, window_s), group in groups.items():
        blind = sorted(
            (verdict for verdict in group if verdict.status is Status.BLIND),
            key=lambda verdict: (verdict.metric, verdict.segment),
        )
        status = Status.WARNING if blind else Status.HEALTHY
        now = max(verdict.evaluated_at for verdict in group)
        more = f" (and {len(blind) - 1} more like it)" if len(blind) > 1 else ""
        reason = f"{blind[0].metric}: {blind[0].reason}{more}" if blind else _SEES
        found.append(
            Verdict(
                app=app,
                metric=BLIND,
                window_s=window_s,
                policy="any_blind",
                status=status,
                point_status=status,
                reason=reason,
                n=0,
                n_failed=sum(verdict.n_failed for verdict in blind),
                evaluated_at=now,
                since=now,
                status_since=min((verdict.status_since for verdict in blind), default=now),
            )
        )
    return found


def verdicts_on(
    app: str, ill: Mapping[str, str], kinds: Iterable[str], *, window_s: int, now: datetime
) -> list[Verdict]:
    """Write conditions as verdicts: a warning with its reason, or healthy."""
    return [
        Verdict(
            app=app,
            metric=kind,
            window_s=window_s,
            policy="condition",
            status=Status.WARNING if kind in ill else Status.HEALTHY,
            point_status=Status.WARNING if kind in ill else Status.HEALTHY,
            reason=ill.get(kind, CONDITIONS[kind].well),
            n=0,
            evaluated_at=now,
            since=now,
            status_since=now,
        )
        for kind in kinds
    ]


APP_KINDS = (
    "monitor:traffic_stopped",
    "monitor:hook_silent",
    "monitor:samples_dropped",
    "monitor:coverage_low",
    "monitor:judge_errors",
    "monitor:budget_reached",
    "monitor:contexts_missing",
    JUDGE_CHANGED,
)
SYSTEM_KINDS = (
    "monitor:judge_away",
    "monitor:budget_reached",
    "monitor:queue_lag",
    "monitor:evaluator_stale",
    "monitor:channel_failing",
    "monitor:dead_letters",
    "monitor:store_unsafe",
)


def _of_hook(vitals: AppVitals) -> Iterator[tuple[str, str | None]]:
    age_s = vitals.heartbeat_age_s
    silent = age_s is not None and age_s >= _SILENT_AFTER_S
    stopped = not silent and vitals.seen == 0 and vitals.seen_a_week_ago >= _LEAST_SEEN
    yield (
        "monitor:hook_silent",
        f"the last sign of life is {duration(age_s)} old" if silent and age_s else None,
    )
    yield (
        "monitor:traffic_stopped",
        f"0 requests; {vitals.seen_a_week_ago:,} at this time a week ago" if stopped else None,
    )
    dropped, offered = sum(vitals.dropped.values()), max(vitals.sampled, vitals.sent)
    many = dropped > _MOST_DROPPED * max(offered, 1) and dropped >= 1
    yield (
        "monitor:samples_dropped",
        f"{dropped:,} of {max(offered, dropped):,} samples: {_worst(vitals.dropped)}"
        if many
        else None,
    )


def _of_scoring(vitals: AppVitals) -> Iterator[tuple[str, str | None]]:
    failed, skipped = sum(vitals.failed.values()), sum(vitals.skipped.values())
    done = vitals.scored + failed + skipped
    thin = vitals.sent >= _LEAST_SEEN and done < _LEAST_COVERAGE * vitals.sent
    yield (
        "monitor:coverage_low",
        f"{done:,} of {vitals.sent:,} samples were looked at" if thin else None,
    )
    tried = vitals.scored + failed
    fails = tried >= _LEAST_SEEN and failed > _MOST_FAILED * tried
    yield (
        "monitor:judge_errors",
        f"{failed:,} of {tried:,} failed: {_worst(vitals.failed)}" if fails else None,
    )
    for kind, word in (("budget_reached", "budget"), ("contexts_missing", "context")):
        found = sum(n for reason, n in vitals.skipped.items() if word in reason)
        many = found >= _LEAST_SEEN and (word == "budget" or found > _MOST_SKIPPED * done)
        yield f"monitor:{kind}", f"{found:,} of {done:,} samples" if many else None
    changed = {
        metric: (before, vitals.judges_now[metric])
        for metric, before in vitals.judges_before.items()
        if vitals.judges_now.get(metric, before) != before
    }
    listed = "; ".join(f"{m} went from {old} to {new}" for m, (old, new) in sorted(changed.items()))
    yield JUDGE_CHANGED, listed or None


def _of_system(vitals: SystemVitals) -> Iterator[tuple[str, str | None]]:
    yield "monitor:judge_away", vitals.judge_away
    yield "monitor:budget_reached", vitals.budget_reached
    age_s = vitals.oldest_waiting_s or 0.0
    yield (
        "monitor:queue_lag",
        f"{vitals.waiting:,} wait, the oldest for {duration(age_s)}"
        if age_s >= _LAG_AFTER_S
        else None,
    )
    pause_s = vitals.since_evaluation_s or 0.0
    late = pause_s > max(60.0, 3 * vitals.evaluate_every_s)
    yield (
        "monitor:evaluator_stale",
        f"for {duration(pause_s)} nothing was evaluated;"
        f" every {vitals.evaluate_every_s:g} s is meant"
        if late
        else None,
    )
    stuck = {c: s for c, s in vitals.undelivered_s.items() if s >= _UNDELIVERED_AFTER_S}
    listed = ", ".join(f"{name} for {duration(s)}" for name, s in sorted(stuck.items()))
    yield "monitor:channel_failing", f"messages wait on {listed}" if stuck else None
    dead = vitals.dead_letters
    yield "monitor:dead_letters", f"{dead:,} in the last week" if dead else None
    skew_s = vitals.clock_skew_s
    unsafe = list(vitals.unsafe)
    if abs(skew_s) > _MOST_SKEW_S:
        unsafe.append(f"the clock here and the database's differ by {duration(abs(skew_s))}")
    yield "monitor:store_unsafe", "; ".join(unsafe) or None


def _worst(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{reason} {n:,}" for reason, n in Counter(counts).most_common(2))
