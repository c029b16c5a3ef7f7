"""
What is alerted beside statuses: conditions of the monitor itself, and threshold rules; pure.

Every condition is an ordinary alert of the app that it concerns, so that the app's routes and
silences apply; what concerns no app in particular is an alert of the app `groundwatch`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, NamedTuple

from monitor.format import duration, percent, rate_with_interval, utc_time
from monitor.models.alerting import Severity
from monitor.models.status import FleetFall, Status, Verdict

#: Names of metrics about the monitor itself begin with this; no evaluator's may.
MONITOR_PREFIX = "monitor:"
#: The metrics of alerts that come from rules begin so; no evaluator may.
RULE_PREFIX = "rule:"
#: The app of what concerns no app in particular.
SELF = "groundwatch"
#: Statuses cannot be trusted; reserved, as are all metrics that begin so.
BLIND = "monitor:blind"
#: The policy of the verdict on an app of which every metric is blind.
ALL_BLIND = "all_blind"
JUDGE_CHANGED = "monitor:judge_changed"
#: Whether requests of an app fail, beside the quality of its answers; reserved.
ERROR_RATE = "error_rate"
#: Not about the monitor, and about no app alone.
FLEET_FELL = "monitor:fleet_fell"

_SEES = "the monitor sees every metric of this app"
_LEAST_SEEN = 20
_MOST_DROPPED = 0.01
_LEAST_COVERAGE = 0.5
_MOST_FAILED = 0.10
_SILENT_AFTER_S = 300.0
_LAG_AFTER_S = 300.0
_UNDELIVERED_AFTER_S = 300.0
_MOST_SKEW_S = 5.0
_WORSE = tuple(map(Status, ("insufficient_data", "healthy", "blind", "warning", "critical")))
Figure = Literal["average_score", "pass_rate", "error_rate"]
_MOST_NAMED = 3


class Condition(NamedTuple):
    """The words of one condition."""

    ill: str
    well: str
    advice: str


#: Of `BLIND`, which each verdict's own reason explains.
BLINDNESS = Condition(
    "the monitor cannot judge this app",
    "the monitor can judge this app again",
    "groundwatch doctor names what is broken; until it is fixed, do not trust this app's statuses",
)
#: Of an app, and how it is watched.
APP_CONDITIONS: Mapping[str, Condition] = {
    "monitor:traffic_stopped": Condition(
        "the app gets no requests, though it did at this hour a week ago",
        "the app gets requests again",
        "check the app, its gateway and its load balancer; the monitor works",
    ),
    "monitor:hook_silent": Condition(
        "no sign of life from the hook in the app",
        "the hook is alive again",
        "check that the app is up, that GROUNDWATCH_ENABLED is not false, and that the app reaches"
        " Redis: groundwatch doctor hook",
    ),
    "monitor:samples_dropped": Condition(
        "the hook drops samples",
        "the hook no longer drops samples",
        "start more workers, or lower GROUNDWATCH_SAMPLE_RATE; groundwatch doctor names the reason",
    ),
    "monitor:coverage_low": Condition(
        "many samples are never scored",
        "samples are scored again",
        "check the workers' log and the queue: groundwatch doctor",
    ),
    "monitor:judge_errors": Condition(
        "the scorer fails on many samples",
        "the scorer works again",
        "check the judge's endpoint, key, quota and model; groundwatch report lists the errors",
    ),
    "monitor:budget_reached": Condition(
        "the judge's budget is used up, so samples are not judged",
        "the judge has budget again",
        "raise the budget, or sample less; statuses are based on fewer scores until then",
    ),
    "monitor:contexts_missing": Condition(
        "samples come without the sources that their answers should be based on",
        "samples have their sources again",
        "pass contexts= to groundwatch.sample; without them groundedness cannot be judged",
    ),
    JUDGE_CHANGED: Condition(
        "another judge scores now; its scores cannot be compared with earlier ones",
        "the judge has stayed the same for a window",
        "if this was not intended, go back to the earlier GROUNDWATCH_JUDGE_MODEL and version",
    ),
    "monitor:objective_missed": Condition(
        "a fall would not be found as soon as the objective says",
        "falls would be found in time again",
        "groundwatch plan says which sample rate finds it; or state another objective",
    ),
}
#: Of the monitor as a whole.
SYSTEM_CONDITIONS: Mapping[str, Condition] = {
    "monitor:judge_away": Condition(
        "judge unavailable: samples wait for it",
        "the judge is available again",
        "check its key, account, model and endpoint; samples wait, and are scored when it is"
        " back: groundwatch doctor",
    ),
    "monitor:budget_reached": APP_CONDITIONS["monitor:budget_reached"],
    "monitor:queue_lag": Condition(
        "samples wait too long to be scored",
        "the queue is short again",
        "check that workers are up (groundwatch doctor); then start more, or use a faster scorer",
    ),
    "monitor:evaluator_stale": Condition(
        "statuses were not computed for a while",
        "statuses are computed on time again",
        "check the scheduler's log, and the load of the machine and the database",
    ),
    "monitor:channel_failing": Condition(
        "a channel takes no messages",
        "all channels take messages again",
        "run groundwatch alerts test CHANNEL; groundwatch alerts outbox ls lists what waits",
    ),
    "monitor:dead_letters": Condition(
        "messages could not be delivered and were given up",
        "there are no dead letters any more",
        "groundwatch alerts outbox ls --dead, then retry or drop each",
    ),
    "monitor:store_unsafe": Condition(
        "stored data may be lost",
        "stored data is safe again",
        "fix what Why names; groundwatch doctor checks it again",
    ),
}
CONDITIONS: Mapping[str, Condition] = {
    **APP_CONDITIONS,
    **SYSTEM_CONDITIONS,
    FLEET_FELL: Condition(
        "apps fell together",
        "the apps that fell together have recovered",
        "check first what they share: the model, the index, the gateway, a release",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AppVitals:
    """What is known of how one app is watched, over the last quarter of an hour or so."""

    app: str
    heartbeat_age_s: float | None = None  #: of the hook that reported last
    seen: int = 0
    seen_a_week_ago: int = 0  #: in the same time range
    sampled: int = 0
    sent: int = 0
    dropped: Mapping[str, int] = field(default_factory=dict)  #: by reason
    scored: int = 0
    failed: Mapping[str, int] = field(default_factory=dict)
    skipped: Mapping[str, int] = field(default_factory=dict)
    #: By metric, in the window before.
    judges_before: Mapping[str, str] = field(default_factory=dict)
    judges_now: Mapping[str, str] = field(default_factory=dict)
    judges_moved: tuple[str, ...] = ()  #: judges that changed silently, a sentence each
    objectives_missed: tuple[str, ...] = ()  #: a sentence each


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
    judge_away: str | None = None  #: why it is unavailable
    budget_reached: str | None = None  #: which cap, and for how long


def app_conditions(vitals: AppVitals) -> dict[str, str]:
    """Return what is wrong with how an app is watched: a reason by condition."""
    found: dict[str, str] = {}
    age_s = vitals.heartbeat_age_s
    if age_s is not None and age_s >= _SILENT_AFTER_S:
        found["monitor:hook_silent"] = f"the last sign of life is {duration(age_s)} old"
    elif vitals.seen == 0 and vitals.seen_a_week_ago >= _LEAST_SEEN:
        before = f"{vitals.seen_a_week_ago:,} at this time a week ago"
        found["monitor:traffic_stopped"] = f"0 requests; {before}"
    dropped, offered = sum(vitals.dropped.values()), max(vitals.sampled, vitals.sent)
    if dropped > _MOST_DROPPED * max(offered, 1):
        of = f"{dropped:,} of {max(offered, dropped):,} samples"
        found["monitor:samples_dropped"] = f"{of}: {_worst(vitals.dropped)}"
    failed, skipped = sum(vitals.failed.values()), sum(vitals.skipped.values())
    tried, done = vitals.scored + failed, vitals.scored + failed + skipped
    if vitals.sent >= _LEAST_SEEN and done < _LEAST_COVERAGE * vitals.sent:
        found["monitor:coverage_low"] = f"{done:,} of {vitals.sent:,} samples were processed"
    if tried >= _LEAST_SEEN and failed > _MOST_FAILED * tried:
        found["monitor:judge_errors"] = f"{failed:,} of {tried:,} failed: {_worst(vitals.failed)}"
    for kind, word, least in (
        ("monitor:budget_reached", "budget", _LEAST_SEEN),
        ("monitor:contexts_missing", "context", max(_LEAST_SEEN, done // 2 + 1)),
    ):
        n = sum(n for reason, n in vitals.skipped.items() if word in reason)
        if n >= least:
            found[kind] = f"{n:,} of {done:,} samples"
    changed = [
        f"{metric} went from {before} to {vitals.judges_now[metric]}"
        for metric, before in sorted(vitals.judges_before.items())
        if vitals.judges_now.get(metric, before) != before
    ]
    if changed or vitals.judges_moved:
        found[JUDGE_CHANGED] = "; ".join((*changed, *vitals.judges_moved))
    if vitals.objectives_missed:
        found["monitor:objective_missed"] = "; ".join(vitals.objectives_missed)
    return found


def system_conditions(vitals: SystemVitals) -> dict[str, str]:
    """Return what is wrong with the monitor as a whole: a reason by condition."""
    found: dict[str, str] = {}
    if vitals.judge_away is not None:
        found["monitor:judge_away"] = vitals.judge_away
    if vitals.budget_reached is not None:
        found["monitor:budget_reached"] = vitals.budget_reached
    age_s = vitals.oldest_waiting_s or 0.0
    if age_s >= _LAG_AFTER_S:
        found["monitor:queue_lag"] = f"{vitals.waiting:,} wait, the oldest for {duration(age_s)}"
    pause_s, every_s = vitals.since_evaluation_s or 0.0, vitals.evaluate_every_s
    if pause_s > max(60.0, 3 * every_s):
        found["monitor:evaluator_stale"] = (
            f"no evaluation for {duration(pause_s)}; one every {every_s:g} s is due"
        )
    stuck = sorted((c, s) for c, s in vitals.undelivered_s.items() if s >= _UNDELIVERED_AFTER_S)
    if stuck:
        listed = ", ".join(f"{name} for {duration(waits_s)}" for name, waits_s in stuck)
        found["monitor:channel_failing"] = f"messages wait on {listed}"
    if vitals.dead_letters:
        found["monitor:dead_letters"] = f"{vitals.dead_letters:,} in the last week"
    unsafe = list(vitals.unsafe)
    if abs(vitals.clock_skew_s) > _MOST_SKEW_S:
        unsafe.append(
            f"the clocks of here and the database differ by {abs(vitals.clock_skew_s):.0f} s"
        )
    if unsafe:
        found["monitor:store_unsafe"] = "; ".join(unsafe)
    return found


def _worst(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{reason} {n:,}" for reason, n in Counter(counts).most_common(2))


def blindness(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """
    Return a verdict of each app and window: a warning when any of its metrics is blind.

    Its policy is `ALL_BLIND` where every metric is, as when Redis or the judge is away: that has
    lasted for a while before it is said, and alerts need not wait as long.
    """
    groups: dict[tuple[str, int], list[Verdict]] = defaultdict(list)
    for verdict in verdicts:
        if not verdict.metric.startswith(MONITOR_PREFIX) and verdict.metric != ERROR_RATE:
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
                policy=ALL_BLIND if len(blind) == len(group) else "any_blind",
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
    """Return conditions as verdicts: a warning with its reason, or healthy."""
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


def fleet_verdict(falls: Sequence[FleetFall], *, window_s: int, now: datetime) -> Verdict:
    """Return the condition that apps fell together, the worst metric first in its reason."""
    said = []
    for fall in falls:
        more = len(fall.fell) - _MOST_NAMED
        names = ", ".join(fall.fell[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
        said.append(
            f"{len(fall.fell)} apps fell together ({names}): {fall.metric}"
            f" {rate_with_interval(fall.pass_rate, fall.low, fall.high)} of all pass,"
            f" n = {fall.n:,}, since {utc_time(fall.since, now)}; {fall.cause}"
        )
    ill = {FLEET_FELL: "; ".join(said)} if said else {}
    (verdict,) = verdicts_on(SELF, ill, [FLEET_FELL], window_s=window_s, now=now)
    # Its evidence is the hold, as of any status that is based on evidence.
    changed: dict[str, object] = {"evidence": "probable" if falls else "none"}
    if any(fall.status is Status.CRITICAL for fall in falls):
        changed["status"] = Status.CRITICAL
    return verdict.model_copy(update=changed)


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdRule:
    """
    An alert when a figure of a metric is below (or above) a threshold.

    It compares the value itself, as written, whatever the policy of statuses says: a
    metric that lives on its threshold crosses it all the time, so give it time to hold.
    """

    name: str
    metric: str  #: "*" for every metric
    of: Figure = "average_score"
    below: float | None = None
    above: float | None = None
    for_s: float = 0.0
    severity: Severity = Severity.CRITICAL
    min_n: int = 30

    def judge(self, verdict: Verdict) -> Verdict:
        """Return the verdict of this rule on the data behind *verdict*."""
        n = verdict.window_n
        value = verdict.window_pass_rate if self.of == "pass_rate" else verdict.average_score
        if self.of == "error_rate":
            n = verdict.window_n + verdict.n_failed
            value = verdict.n_failed / n if n else None
        status, reason = Status.INSUFFICIENT_DATA, f"{n} of {self.min_n} needed"
        if verdict.status is Status.BLIND:
            status, reason = Status.BLIND, verdict.reason
        elif value is not None and n >= self.min_n:
            too_low = self.below is not None and value < self.below
            too_high = self.above is not None and value > self.above
            status = Status(self.severity.value) if too_low or too_high else Status.HEALTHY
            shown, rule = f"{value:.3f}", self.threshold
            if self.of != "average_score":
                side, line = ("above", self.above) if self.below is None else ("below", self.below)
                shown, rule = percent(value), f"{side} {percent(line)}"
            reason = f"{self.of.replace('_', ' ')} {shown}; the rule: {rule}"
        changes = {
            "metric": f"{RULE_PREFIX}{self.name}", "policy": "rule", "status": status,
            "reason": f"{verdict.metric}: {reason}", "since": verdict.evaluated_at,
            "evidence": None,  # a plain comparison: its hold is time
        }  # fmt: skip
        return verdict.model_copy(update=changes)

    @property
    def threshold(self) -> str:
        """The threshold in words."""
        return f"below {self.below:g}" if self.below is not None else f"above {self.above:g}"


#: Named sets of rules.
RULE_SETS: Mapping[str, tuple[ThresholdRule, ...]] = {
    "rag": (
        ThresholdRule(name="faithfulness", metric="faithfulness", below=0.85),
        ThresholdRule(name="groundedness", metric="groundedness", below=0.80, for_s=3600),
        ThresholdRule(name="retrieval_precision", metric="context_precision", below=0.5),
        ThresholdRule(name="errors", metric="*", of="error_rate", above=0.05),
    ),
}


def judge_all(verdicts: Iterable[Verdict], rules: Sequence[ThresholdRule]) -> list[Verdict]:
    """Apply the rules: one verdict an app, rule and window, of the metric that breaks it most."""
    found: dict[tuple[str, str, str, int], Verdict] = {}
    for verdict in verdicts:
        for rule in rules:
            if verdict.metric.startswith(MONITOR_PREFIX) or verdict.metric == ERROR_RATE:
                continue
            if rule.metric in {"*", verdict.metric}:
                judged = rule.judge(verdict)
                key = (judged.app, judged.metric, judged.segment, judged.window_s)
                worst = found.setdefault(key, judged)
                if _WORSE.index(judged.status) > _WORSE.index(worst.status):
                    found[key] = judged
    return list(found.values())
