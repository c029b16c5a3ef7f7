"""Statuses as rules would have given them on history, and the messages that follow from them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError
from sqlalchemy import Connection

from alerts.backtest import Point, ReplayedAlert, replay
from alerts.model import AlertKey
from alerts.state import Timers, timers_from, timers_of_evidence
from monitor.errors import RecordError, SettingsError
from monitor.models import ROOT, Status, StreamKey
from monitor.models.evaluation import OWN_LEARNT_AT, PassRule, own_line
from monitor.models.status import TALLY_SUMS, score_bin
from monitor.rolling import backtest as rolling_backtest
from monitor.rolling.backtesting import backtest_buckets, backtest_samples, backtest_windows
from monitor.rolling.baseline import History
from monitor.rolling.looks import CASCADE, StreamSample, goes_by_samples
from monitor.rolling.policies import (
    EVIDENCE_POLICIES,
    POLICIES,
    EvidencePolicy,
    budget_keys,
    find_policy,
    rules_of,
    stream_budget,
    thresholds_of,
)
from monitor.rolling.tuning import RateSchedule
from monitor.scoring.metric_config import read_toml
from monitor.scoring.registry import resolve_metrics
from monitor.settings import Settings
from monitor.store.drift import scores_since
from monitor.store.query import (
    BASELINE_SUMS,
    DAY_S,
    HOUR_S,
    HOURS,
    active_streams,
    read_marks,
    series,
    shared_values,
)
from workers.stream_states import read_schedules, sample_of

#: The settings that a file of rules may change.
CHANGEABLE = (
    *("pass_score", "warning_rate", "critical_rate", "min_n", "false_alarms_per_month"),
    *("status_policy", "status_window_s", "warning_for_s", "critical_for_s", "resolve_after_s"),
    *("repeat_after_s", "warning_repeat_after_s", "reopen_within_s"),
)
#: The policies that come with the product.
POLICY_NAMES = (*EVIDENCE_POLICIES, *POLICIES)
_STEPS_A_WINDOW = 12
#: More samples than this are replayed by buckets, unless sums do not determine payoffs.
_MOST_SAMPLES = 200_000
#: Part of the samples that must be kept to replay a stream by them.
_KEPT = 0.9
_COUNTED = ("n", "failed", "skipped")


@dataclass(frozen=True, slots=True, kw_only=True)
class BacktestRules:
    """All that decides about notifications."""

    settings: Settings
    policy: str
    timers: Timers
    pass_rules: Mapping[str, PassRule]  #: of the metrics that are configured

    @property
    def window_s(self) -> int:
        """The width of the status window."""
        return self.settings.windows.status_window_s

    @property
    def step_s(self) -> int:
        """How often statuses are evaluated; each step brings a twelfth of the window."""
        return max(1, self.window_s // _STEPS_A_WINDOW)


@dataclass(frozen=True, slots=True)
class Scores:
    """The scores of one app and metric, in [0, 1], with their times in epoch seconds."""

    times_s: NDArray[np.float64]
    scores: NDArray[np.float64]


def rules_from(settings: Settings, path: Path | None = None) -> BacktestRules:
    """
    Read the rules from the settings, with what the file at *path* changes.

    Raise SettingsError if the file cannot be read, or has a setting that is wrong or is not a rule.
    """
    if path is not None:
        raw = read_toml(path)
        if unknown := [name for name in raw if name not in CHANGEABLE]:
            there = ", ".join(CHANGEABLE)
            raise SettingsError(f"{path}: {unknown[0]} is not a rule; there are {there}")
        try:
            settings = Settings.model_validate(dict(settings) | raw)
        except ValidationError as error:
            lines = [
                f"{path}: {'.'.join(map(str, e['loc']))}: {e['msg'].removeprefix('Value error, ')}"
                for e in error.errors()
            ]
            raise SettingsError("\n".join(lines)) from None
    timers = timers_from(settings)
    # A step is longer than the evaluations of a running monitor are apart, and no gap.
    gap_s = max(timers.max_gap_s, 3.0 * settings.windows.status_window_s / _STEPS_A_WINDOW)
    return BacktestRules(
        settings=settings,
        policy=settings.status_policy,
        timers=replace(timers, max_gap_s=gap_s),
        pass_rules={each.name: each.rule for each in resolve_metrics(settings)},
    )


def of_store(
    connection: Connection, rules: BacktestRules, *, begin: datetime, end: datetime
) -> list[ReplayedAlert]:
    """
    Replay what the store has of [begin, end), stream by stream.

    Sample by sample where these are kept, and then as it was live; by buckets before.
    """
    from_s, end_s = int(begin.timestamp()), int(end.timestamp())
    streams = active_streams(connection, since_s=from_s)
    policy = find_policy(rules.policy)
    shared = shared_values(connection, since_s=end_s - DAY_S)
    n_keys = budget_keys((stream.key for stream in streams), shared)
    bucket_s, found = rules.settings.windows.bucket_s, []
    for stream in streams:
        history = read_history(
            connection, stream.stream_id, from_s=from_s, to_s=end_s, bucket_s=bucket_s
        )
        if not history.times_s.size:
            continue
        last_s = min(end_s, int(history.times_s[-1]) + rules.window_s)
        if not isinstance(policy, EvidencePolicy):
            timers = rules.timers
            changes = backtest_windows(
                history.sums, history.times_s, rules.policy, thresholds_of(rules.settings),
                window_s=rules.window_s, step_s=rules.step_s, end_s=last_s,
            )  # fmt: skip
        else:
            timers = timers_of_evidence(rules.timers)
            limits = rules_of(rules.settings, keys=n_keys, use_reference=policy.use_reference)
            samples = read_samples(
                connection, stream.key, history, from_s=from_s, end_s=end_s, plain=True
            )
            changes = (
                backtest_samples(
                    samples,
                    limits,
                    end_s=last_s,
                    every_s=rules.settings.evaluate_every_s,
                    news_s=rules.window_s,
                    cascade=stream.key.evaluator_version.startswith(CASCADE),
                )
                if samples
                else backtest_buckets(history.buckets(), history.ends_s, limits, end_s=last_s)
            )
        counts = history.sums[:, [TALLY_SUMS.index(n) for n in _COUNTED]].sum(axis=1)
        points = _stepped(changes, history.ends_s, counts, rules, last_s)
        found.append(replay(AlertKey(*stream.key[:3], rules.window_s), points, timers))
    return found


def read_samples(
    connection: Connection, key: StreamKey, history: ScoreHistory, *, from_s: int, end_s: int,
    plain: bool = False,
) -> list[StreamSample]:  # fmt: skip
    """
    Read the samples of a stream; none where most are gone: buckets must do.

    Those whose sums determine payoffs only if *plain*, and not where there are too many.
    """
    n, sum_w, sum_w2 = (
        float(history.sums[:, TALLY_SUMS.index(name)].sum()) for name in ("n", "sum_w", "sum_w2")
    )
    needed = goes_by_samples(key.evaluator_version, n=n, sum_w=sum_w, sum_w2=sum_w2)
    if not needed and (not plain or n > _MOST_SAMPLES):
        return []
    scores = scores_since(connection, after_ms=from_s * 1000 - 1, app=key.app, metric=key.metric)
    rates = read_schedules(connection).get(key.app, RateSchedule())
    found = [
        sample_of(score, rates)
        for score in scores.get((key.app, key.metric, key.evaluator_version), ())
        if score.received_at_ms < end_s * 1000
    ]
    return found if len(found) >= _KEPT * n else []


def _stepped(
    changes: Sequence[tuple[float, Status]],
    times_s: NDArray[np.float64],
    counts: NDArray[np.float64],
    rules: BacktestRules,
    end_s: float,
) -> Iterator[Point]:
    """Yield the status whenever it changes and at every step, as a running monitor sees it."""
    if not changes:
        return
    total = np.concatenate([[0.0], np.cumsum(counts)])
    turned_s = np.array([at_s for at_s, _ in changes])
    steps_s = np.arange(turned_s[0] + rules.step_s, end_s + 1, rules.step_s)
    for at_s in np.union1d(turned_s, steps_s):
        status = changes[int(np.searchsorted(turned_s, at_s, side="right")) - 1][1]
        seen = int(np.searchsorted(times_s, at_s + 0.002, side="right"))
        yield Point(datetime.fromtimestamp(float(at_s), UTC), status, int(total[seen]))


def of_scores(
    history: Mapping[tuple[str, str], Scores], rules: BacktestRules
) -> list[ReplayedAlert]:
    """Replay scores, by app and metric."""
    found, timers = [], rules.timers
    budget = stream_budget(rules.settings.false_alarms_per_month, roots=len(history))
    if isinstance(find_policy(rules.policy), EvidencePolicy):
        timers = timers_of_evidence(timers)
    for (app, metric), scores in sorted(history.items()):
        rule = rules.pass_rules.get(metric, PassRule(rules.settings.pass_score))
        passed, bins = np.zeros(scores.scores.size, dtype=bool), Counter[int]()
        for i, value in enumerate(scores.scores.tolist()):
            passed[i] = rule.passes(value)
            # An app's own pass line is learnt as its scores come.
            if rule.own and i < OWN_LEARNT_AT[-1]:
                bins[score_bin(value)] += 1
                if i + 1 in OWN_LEARNT_AT:
                    rule = rule._replace(line=own_line(bins))
        judged = rolling_backtest(
            scores.times_s,
            scores.scores,
            passed,
            policy=rules.policy,
            **asdict(thresholds_of(rules.settings)),
            bucket_s=rules.settings.windows.bucket_s,
            window_s=rules.window_s,
            false_alarms_per_month=budget,
        )
        counts = np.ones_like(scores.times_s)
        statuses = _stepped(judged, scores.times_s, counts, rules, float(scores.times_s[-1]))
        found.append(replay(AlertKey(app, metric, ROOT, rules.window_s), statuses, timers))
    return found


def scores_of(path: Path) -> dict[tuple[str, str], Scores]:
    """
    Read scores from JSON lines: ``{"timestamp", "app", "metric", "score"}`` each, or what
    ``groundwatch evaluate -o`` writes.

    Raise RecordError if a line cannot be read; the message says which and what it should be.
    """
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeError):
        raise RecordError(f"cannot read {path}") from None
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
            app = str(record.get("app", "default"))
            for each in record.get("evaluations", [record]):
                if isinstance(score := each.get("score"), int | float):
                    metric = str(each.get("metric") or each.get("evaluator_name"))
                    at = datetime.fromisoformat(record.get("timestamp") or each["timestamp"])
                    at = at if at.tzinfo else at.replace(tzinfo=UTC)
                    found.setdefault((app, metric), []).append((at.timestamp(), float(score)))
        except (ValueError, KeyError, TypeError, AttributeError):
            raise RecordError(
                f'{path}, line {number}: should be {{"timestamp": "2026-03-01T12:00:00Z",'
                ' "app": "shop", "metric": "groundedness", "score": 0.93}'
            ) from None
    return {
        key: Scores(*np.array(sorted(pairs), dtype=np.float64).T) for key, pairs in found.items()
    }


@dataclass(frozen=True, slots=True)
class ScoreHistory:
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

    def buckets(self) -> History:
        """Return what evidence is collected from."""
        columns = [self.sums[:, TALLY_SUMS.index(name)] for name in BASELINE_SUMS]
        return History((self.starts_s // self.bucket_s).astype(np.int64), *columns)


def read_history(
    connection: Connection, stream_id: int, *, from_s: int, to_s: int, bucket_s: int
) -> ScoreHistory:
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
    return ScoreHistory(starts, ends, sums, bucket_s)
