"""
What a policy would have said of a past stream, and how soon it sees falls.

Those to come, which `detections` draws, and those that `planted_delays_s` plants in the stream as
it was. All by exactly the code that runs live.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from functools import cache
from heapq import heappop, heappush
from itertools import groupby
from operator import itemgetter
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from monitor.models import ROOT, Status, StreamKey, Tally
from monitor.models.status import TALLY_SUMS
from monitor.rolling.anytime import advance, advance_all
from monitor.rolling.baseline import Baseline, History
from monitor.rolling.evidence_state import (
    ALARMED,
    EvidenceState,
    StatusTurn,
    idle,
    learn_due_s,
    relearn,
)
from monitor.rolling.looks import (
    Looks,
    StreamSample,
    goes_by_weights,
    history_columns,
    looks_of,
    weighted_looks,
)
from monitor.rolling.policies import EvidencePolicy, Policy, Rules, Thresholds, find_policy
from monitor.rolling.tallies import window_stats
from monitor.rolling.verdicts import WindowData, judge_window

Floats = NDArray[np.float64]
Changes = list[tuple[float, Status]]
_USUAL_WINDOW_S: Final = 3600
_HISTORY_BUCKETS: Final = 9 * 1440
_INTEGERS: Final = {field.name for field in fields(Tally) if field.type == "int"}
_UNNAMED: Final = StreamKey("", "", ROOT, "")


def backtest(  # noqa: PLR0913 - options of one policy, by keyword
    times_s: ArrayLike,
    scores: ArrayLike,
    passed: ArrayLike,
    policy: str = "anytime",
    *,
    warning_rate: float = 0.85,
    critical_rate: float = 0.70,
    min_n: int = 30,
    bucket_s: int = 60,
    window_s: int = _USUAL_WINDOW_S,
    false_alarms_per_month: float = 0.1,
) -> list[tuple[float, Status]]:
    """
    Replay a stream through a policy, and list how its status went.

    Causal: each status depends only on the samples up to it, in the order in which they are
    given, so cutting the stream changes nothing before the cut. The stream begins fresh: the
    policy learns its reference and the dependence between samples as it goes.

    Parameters
    ----------
    times_s
        When each interaction happened, in epoch seconds, shape (n,), in the order in which the
        evaluations arrived. Late ones lie before their predecessors.
    scores
        In [0, 1], shape (n,). Samples without a valid score count nowhere.
    passed
        Whether each passed: 0 or 1 or bool, shape (n,).
    policy
        ``anytime``, ``anytime_strict``, ``wilson``, ``point_min_n``, ``point`` or a policy of
        your own by its name.
    warning_rate, critical_rate
        The thresholds, in [0, 1].
    min_n
        Samples needed before a status is given.
    bucket_s
        Width of a bucket, in seconds.
    window_s
        Width of the window for policies that look at windows, in seconds.
    false_alarms_per_month
        Budget of this stream for the ``anytime`` policies: false alarms in 30 days, on average.

    Returns
    -------
    list of (float, Status)
        Epoch seconds at which a status began, and the status; a status is a `str`. Evaluated
        after every sample.

    Raises
    ------
    ValueError
        If shapes differ or a time is not finite.
    SettingsError
        If there is no such policy.

    Examples
    --------
    >>> backtest(range(0, 6000, 60), [0.9] * 50 + [0.1] * 50, [1] * 50 + [0] * 50)[-1][1].value
    'critical'
    """
    times, score, outcome = (np.asarray(a, dtype=np.float64) for a in (times_s, scores, passed))
    if times.ndim != 1 or not times.shape == score.shape == outcome.shape:
        shapes = f"{times.shape}, {score.shape} and {outcome.shape}"
        raise ValueError(f"times_s, scores and passed should be of one length, not {shapes}")
    if not np.isfinite(times).all():
        raise ValueError("times_s: every time should be a finite number of epoch seconds")
    valid = (score >= 0) & (score <= 1)
    times, outcome = times[valid], outcome[valid]
    if not np.isin(outcome, (0.0, 1.0)).all():
        raise ValueError("passed: should hold 0 and 1 only")
    thresholds = Thresholds(warning_rate=warning_rate, critical_rate=critical_rate, min_n=min_n)
    found = find_policy(policy)
    if not times.size:
        return []
    if not isinstance(found, EvidencePolicy):
        return _replay_windows(times, outcome, found, thresholds, window_s // bucket_s, bucket_s)
    rules = Rules(
        warning_rate=warning_rate,
        critical_rate=critical_rate,
        min_n=min_n,
        bucket_s=bucket_s,
        false_alarms_per_month=false_alarms_per_month,
        use_reference=found.use_reference,
    )
    plain = np.ones_like(times)
    moments = np.floor(times / bucket_s).astype(np.int64)
    counted = History(moments, plain, plain, plain, outcome, outcome, outcome)
    # Nobody knows when a late one arrived, but not before its predecessor.
    clock = np.maximum.accumulate(times)

    def looks(some: slice, _: Baseline) -> Looks:
        return Looks(clock[some], plain[some], plain[some], outcome[some])

    return _fold(clock, looks, counted, rules)


def backtest_buckets(sums: History, ends_s: Floats, rules: Rules, *, end_s: float) -> Changes:
    """
    Replay a stream of which only sums by bucket are kept.

    Causal: a bucket is evaluated when it is over, so an alarm comes up to a bucket's width
    later than it did live; where only hours are kept, up to an hour later. The stream begins
    fresh, as in `backtest`.

    Buckets without samples may be left out; *ends_s* is when each of them was over, shape (t,). At
    *end_s*, in epoch seconds, a stream that has been silent becomes unknown.
    """
    # The last moment of a bucket belongs to it, not to the next one.
    clock = np.maximum.accumulate(ends_s - 0.001)

    def looks(some: slice, baseline: Baseline) -> Looks:
        part = sums.at(some)
        return weighted_looks(clock[some], part.n, part.sum_w, part.sum_w2, part.sum_wy, baseline)

    return _fold(clock, looks, sums, rules, end_s=end_s)


def backtest_samples(
    samples: Sequence[StreamSample],
    rules: Rules,
    *,
    end_s: float,
    every_s: float,
    news_s: float = math.inf,
    cascade: bool = False,
) -> Changes:
    """
    Replay a stream sample by sample, evaluated every *every_s* seconds as it was live.

    The same code in the same order as live, so statuses turn at the same looks where these were at
    whole multiples of *every_s*, in epoch seconds, and *samples*, in the order of their arrival,
    were committed when they arrived. What was older than *news_s* then is not news: it counts for
    the baseline only. In a *cascade* a judge was asked about some of the samples.
    """
    if not samples:
        return []
    clock = np.ceil(np.array([sample.at_s for sample in samples]) / every_s) * every_s
    clock = np.maximum.accumulate(clock)
    counted = history_columns(samples, rules.bucket_s)
    bucket_s = counted.bucket * rules.bucket_s
    is_news = np.array([s.at_s for s in samples]) - bucket_s <= news_s + rules.bucket_s
    # Until weights differ, live looks take sums; and that is known at the end of a look.
    weight = np.where(is_news, counted.sum_w, 0.0)
    n, total, squares = (np.cumsum(x) for x in (is_news * 1.0, weight, weight * counted.sum_w))
    unequal = np.flatnonzero(goes_by_weights(n, total, squares))
    by_samples_s = clock[unequal[0]] if unequal.size else math.inf
    by_samples_s = -math.inf if cascade else by_samples_s

    def looks(some: slice, baseline: Baseline) -> Looks:
        news = np.flatnonzero(is_news[some]) + some.start
        if not news.size:
            return Looks(*np.zeros((4, 0)))
        if clock[some.start] >= by_samples_s:
            return looks_of([samples[i] for i in news], clock[news].tolist(), baseline)
        time_s, place = np.unique(clock[news], return_inverse=True)
        sums = np.array([np.bincount(place, column[news]) for column in counted[1:5]], np.float64)
        return weighted_looks(time_s, sums[0], sums[1], sums[2], sums[3], baseline)

    began_s = float(min(clock[0], bucket_s[clock == clock[0]].min()))
    return _fold(
        clock, looks, counted, rules,
        end_s=end_s, every_s=every_s, began_s=began_s, cut_s=by_samples_s,
    )  # fmt: skip


def backtest_windows(
    sums: Floats,
    times_s: Floats,
    policy: str,
    thresholds: Thresholds,
    *,
    window_s: int,
    step_s: int,
    end_s: int,
) -> Changes:
    """
    Replay sums through a policy that looks at windows, every *step_s* seconds until *end_s*.

    *sums* has a row a time and a column a sum of `TALLY_SUMS`; *times_s* rise, in epoch seconds.
    """
    total = np.vstack([np.zeros(sums.shape[1]), np.cumsum(sums, axis=0)])
    changes: Changes = []
    for at_s in range(int(times_s[0]) + step_s, end_s + 1, step_s):
        begin, end = np.searchsorted(times_s, [at_s - window_s, at_s], side="left")
        row = zip(TALLY_SUMS, (total[end] - total[begin]).tolist(), strict=True)
        tally = Tally(**{k: round(v) if k in _INTEGERS else max(v, 0.0) for k, v in row})
        verdict = judge_window(
            WindowData(stream=_UNNAMED, window_s=window_s, current=tally, reference=Tally()),
            policy_name=policy,
            thresholds=thresholds,
            now=datetime.fromtimestamp(at_s, UTC),
        )
        if not changes or changes[-1][1] is not verdict.status:
            changes.append((float(at_s), verdict.status))
    return changes


def _fold(
    clock: Floats,
    looks: Callable[[slice, Baseline], Looks],
    counted: History,
    rules: Rules,
    *,
    end_s: float | None = None,
    every_s: float | None = None,
    began_s: float | None = None,
    cut_s: float = math.inf,
) -> Changes:
    """
    Take a stream from its first look to its last, learning its baseline as it goes.

    *clock* holds the time of each item, rising; *looks* gives the looks at some items, and
    *counted* what each adds to its bucket. With *every_s* a baseline is learned at the look at
    which it is due, whether that brings samples or not; *began_s* is when the stream began. What
    comes from *cut_s* on is asked for apart.
    """
    if not clock.size:
        return []
    state = EvidenceState.fresh(float(clock[0]) if began_s is None else began_s)
    changes: Changes = [(float(clock[0]), state.status)]
    start = 0
    while start < clock.size:
        due_s = learn_due_s(state, rules)
        learn_s = float(clock[start])
        if every_s is not None:
            learn_s = max(math.ceil(due_s / every_s) * every_s, float(clock[0]))
        if due_s <= learn_s <= clock[start]:
            state, silent = idle(state, learn_s, rules)
            changes += [change[:2] for change in silent]
            known = start
            if every_s is not None:
                known = int(np.searchsorted(clock, learn_s, side="right"))
            past, now = counted.at(slice(known)), int(learn_s // rules.bucket_s)
            days = (past.bucket >= now - _HISTORY_BUCKETS) & (past.bucket < now)
            state = relearn(state, past.at(days).by_bucket(), learn_s, rules)
            continue
        until_s = min(learn_due_s(state, rules), cut_s if clock[start] < cut_s else math.inf)
        end = max(start + 1, int(np.searchsorted(clock, until_s)))
        if every_s is not None:
            # What one look brings stays together.
            end = int(np.searchsorted(clock, clock[end - 1], side="right"))
        state, turned = advance(state, looks(slice(start, end), state.baseline), rules)
        changes += [change[:2] for change in turned]
        start = end
    if end_s is not None:
        _, silent = idle(state, max(end_s, float(clock[-1])), rules)
        changes += [change[:2] for change in silent]
    return changes


def _replay_windows(
    times: Floats,
    passed: Floats,
    policy: Policy,
    thresholds: Thresholds,
    buckets: int,
    bucket_s: int,
) -> Changes:
    """List how a status went, at every sample and whenever a bucket leaves the window."""

    @cache
    def status(n: int, s: int) -> Status:
        tally = Tally(n=n, passed=s, sum_w=n, sum_w2=n, sum_wy=s, sum_w2y=s, sum_w2yy=s)
        return policy(window_stats(tally), thresholds).status

    inside: dict[int, list[int]] = {}  # samples and passes by bucket
    oldest: list[int] = []  # a heap, as late samples open old buckets
    looks: list[tuple[float, Status]] = []
    n = s = 0
    begins = np.floor(times / bucket_s).astype(int)
    clock = np.maximum.accumulate(times)
    for at_s, begin, y in zip(
        clock.tolist(), begins.tolist(), passed.astype(int).tolist(), strict=True
    ):
        while oldest and (oldest[0] + buckets) * bucket_s <= at_s:
            left = heappop(oldest)
            n, s = n - inside[left][0], s - inside.pop(left)[1]
            looks.append(((left + buckets) * bucket_s, status(n, s)))
        if (begin + buckets) * bucket_s > at_s:
            if begin not in inside:
                inside[begin] = [0, 0]
                heappush(oldest, begin)
            inside[begin] = [inside[begin][0] + 1, inside[begin][1] + y]
            n, s = n + 1, s + y
        looks.append((at_s, status(n, s)))
    return [next(group) for _, group in groupby(looks, key=itemgetter(1))]


#: Sample rates that a plan compares.
RATES: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
_FALLS: Final = 200
_CHUNK: Final = 50
_MOST_SAMPLES: Final = 2_000


class Detection(NamedTuple):
    """
    When falls of one size are found at one sample rate, in seconds after the fall.

    ``median_s``, ``fast_s`` and ``slow_s`` are the 50, 10 and 90 % quantiles, infinite beyond 2,000
    samples; ``samples`` is the median number of scores until then.
    """

    sample_rate: float
    per_hour: float
    samples: float
    fast_s: float
    median_s: float
    slow_s: float


def detections(
    state: EvidenceState,
    rules: Rules,
    *,
    after: float,
    seen_per_hour: float,
    rates: Sequence[float] = RATES,
) -> list[Detection]:
    """
    Play 200 falls to pass rate *after* at each sample rate.

    *state*: of a stream without an alarm. *rules*: thresholds and false-alarm budget of the
    stream. *after*: pass rate after the fall, in [0, 1]. *seen_per_hour*: requests that the
    hook sees, above 0. They arrive as a Poisson process. *rates*: sample rates in (0, 1].

    Raise ValueError if the stream is in an alarm.
    """
    if state.alarmed:
        raise ValueError("a plan starts from a stream without an alarm")
    found = []
    for rate in rates:
        per_hour = rate * seen_per_hour
        delays = delays_s(state, rules, after, per_hour, seed=0)
        fast, median, slow = (
            float(np.quantile(delays, q, method="higher")) for q in (0.1, 0.5, 0.9)
        )
        found.append(Detection(rate, per_hour, median / 3600.0 * per_hour, fast, median, slow))
    return found


def delays_s(
    state: EvidenceState, rules: Rules, after: float, per_hour: float, seed: int
) -> Floats:
    """Return how long each of 200 falls takes to raise an alarm, in seconds; infinite if not."""
    rng = np.random.default_rng(seed)
    found = np.full(_FALLS, np.inf)
    states, rows = [state] * _FALLS, np.arange(_FALLS)
    clock = np.full(_FALLS, state.at_s)
    baseline = state.baseline
    worth = 1.0 if baseline.worth is None else min(baseline.worth * baseline.mean_weight, 1.0)
    for _ in range(_MOST_SAMPLES // _CHUNK):
        gaps = rng.exponential(3600.0 / per_hour, (len(rows), _CHUNK))
        times = clock[rows, None] + np.cumsum(gaps, axis=1)
        passed = rng.random(times.shape) < after
        size = np.full(_CHUNK, worth)
        looks = [
            Looks(t, np.ones(_CHUNK), size, size * p) for t, p in zip(times, passed, strict=True)
        ]
        moved = advance_all(states, looks, rules)
        clock[rows] = times[:, -1]
        for row, (_, turns) in zip(rows, moved, strict=True):
            found[row] = _first_alarm_s(turns) - state.at_s
        left = [i for i, row in enumerate(rows) if np.isinf(found[row])]
        states, rows = [moved[i][0] for i in left], rows[left]
        if not left:
            break
    return found


def planted_delays_s(
    looks: Looks,
    state: EvidenceState,
    rules: Rules,
    *,
    share: float,
    onsets_s: Floats,
    horizon_s: float,
    seed: int,
) -> Floats:
    """
    Return how long each of the falls planted in a stream takes to raise an alarm, in seconds.

    *looks*: at the stream as it was. *state*: without an alarm, before the first of them.
    *share*: of the samples that fail from an onset on, in [0, 1], beside those that failed anyway;
    each takes the place of another, so that predictions and odds of a cascade are those of a real
    failure. *onsets_s*: when the falls begin, in epoch seconds, in order. *horizon_s*: how long
    each is followed. *seed*: of the falls.

    Infinite where there is no alarm within the horizon, or before the stream ends; nan where the
    stream is in an alarm already.
    """
    rng = np.random.default_rng(seed)
    starts, ends = (np.searchsorted(looks.time_s, at) for at in (onsets_s, onsets_s + horizon_s))
    n = int((ends - starts).max())  # alike for all, so that they go together
    begun, at = [], 0
    for start in starts.tolist():
        state, _ = advance(state, looks.part(at, start), rules)
        begun.append(state)
        at = start
    ill = [_failing(looks.part(start, start + n), share, rng) for start in starts.tolist()]
    moved = advance_all(begun, ill, rules)
    delays = np.array([_first_alarm_s(turns) for _, turns in moved]) - onsets_s
    delays[delays > horizon_s] = np.inf
    delays[[state.alarmed for state in begun]] = np.nan
    return delays


def _first_alarm_s(turns: Sequence[StatusTurn]) -> float:
    return min((turn.time_s for turn in turns if turn.status in ALARMED), default=np.inf)


def _failing(looks: Looks, share: float, rng: np.random.Generator) -> Looks:
    """Return looks in which a *share* of the samples fails as well."""
    samples = looks.samples
    if samples is None:
        n_passed = np.rint(looks.n * looks.passed / np.maximum(looks.size, 1e-12)).astype(np.int64)
        kept = 1.0 - rng.binomial(n_passed, share) / np.maximum(n_passed, 1)
        return looks._replace(passed=looks.passed * kept)
    ill = rng.random(samples.look.size) < share
    failed = np.flatnonzero(samples.asked & ~samples.passed)
    prediction, probability = samples.prediction.copy(), samples.probability.copy()
    if failed.size:
        odds = 1.0 / probability[failed]
        like = rng.choice(failed, int(ill.sum()), p=odds / odds.sum())
        prediction[ill], probability[ill] = prediction[like], probability[like]
    asked = np.where(ill, rng.random(ill.size) < probability, samples.asked)
    planted = samples._replace(
        prediction=prediction, probability=probability, asked=asked, passed=samples.passed & ~ill
    )
    return Looks.of_samples(looks.time_s, planted, looks.worth)
