"""What a policy would have said of a past stream, by exactly the code that runs live."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from monitor.models import Status
from monitor.rolling.anytime import advance, idle, learn_due_s, relearn
from monitor.rolling.baseline import History
from monitor.rolling.budget import Rules
from monitor.rolling.choice import EvidencePolicy, find_policy
from monitor.rolling.evidence_state import EvidenceState, Looks
from monitor.rolling.policies import Thresholds
from monitor.rolling.window_replay import replay_windows

Floats = NDArray[np.float64]
_USUAL_WINDOW_S: Final = 3600


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
        The lines, in [0, 1].
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
        Epoch seconds at which a status began, and the status; a status is a `str`. Looked at
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
    times, outcome = _checked(times_s, scores, passed)
    lines = Thresholds(warning_rate=warning_rate, critical_rate=critical_rate, min_n=min_n)
    found = find_policy(policy)
    if not times.size:
        return []
    if not isinstance(found, EvidencePolicy):
        return replay_windows(
            times, outcome, found, lines=lines, bucket_s=bucket_s, window_s=window_s
        )
    rules = Rules(
        warning_rate=warning_rate,
        critical_rate=critical_rate,
        min_n=min_n,
        bucket_s=bucket_s,
        false_alarms_per_month=false_alarms_per_month,
        use_reference=found.use_reference,
    )
    return _Replay(times, outcome, rules).run()


class _Replay:
    """One stream under an ``anytime`` policy."""

    def __init__(self, times: Floats, passed: Floats, rules: Rules) -> None:
        self._rules = rules
        self._passed = passed
        # Nobody knows when a late one arrived, but not before the one ahead of it.
        self._clock = np.maximum.accumulate(times)
        bucket = np.floor(times / rules.bucket_s).astype(np.int64)
        self._bucket, self._place = np.unique(bucket, return_inverse=True)
        self._sums = np.zeros((2, self._bucket.size))

    def run(self) -> list[tuple[float, Status]]:
        clock = self._clock
        memory = EvidenceState.fresh(float(clock[0]))
        changes = [(float(clock[0]), memory.status)]
        start = 0
        while start < clock.size:
            due_s = learn_due_s(memory, self._rules)
            if clock[start] >= due_s:
                now_s = float(clock[start])
                memory, silent = idle(memory, now_s, self._rules)
                changes += [(change.time_s, change.status) for change in silent]
                memory = relearn(memory, self._history(now_s), now_s, self._rules)
                due_s = learn_due_s(memory, self._rules)
            end = int(np.searchsorted(clock, due_s))
            memory, turned = advance(memory, self._looks(start, end), self._rules)
            changes += [(change.time_s, change.status) for change in turned]
            self._count(start, end)
            start = end
        return changes

    def _looks(self, start: int, end: int) -> Looks:
        part = slice(start, end)
        one = np.ones(end - start)
        return Looks(self._clock[part], one, one, self._passed[part])

    def _count(self, start: int, end: int) -> None:
        place = self._place[start:end]
        first, last = int(place.min()), int(place.max()) + 1
        size = last - first
        self._sums[0, first:last] += np.bincount(place - first, minlength=size)
        weights = self._passed[start:end]
        self._sums[1, first:last] += np.bincount(place - first, weights, minlength=size)

    def _history(self, now_s: float) -> History:
        now = int(now_s // self._rules.bucket_s)
        first, last = np.searchsorted(self._bucket, [now - 9 * 1440, now])
        n, s = self._sums[:, first:last]
        return History(self._bucket[first:last], n, n, n, s, s, s)


def _checked(times_s: ArrayLike, scores: ArrayLike, passed: ArrayLike) -> tuple[Floats, Floats]:
    times, score, outcome = (np.asarray(a, dtype=np.float64) for a in (times_s, scores, passed))
    if times.ndim != 1 or not times.shape == score.shape == outcome.shape:
        shapes = f"{times.shape}, {score.shape} and {outcome.shape}"
        raise ValueError(f"times_s, scores and passed should be of one length, not {shapes}")
    if not np.isfinite(times).all():
        raise ValueError("times_s: every time should be a finite number of epoch seconds")
    valid = (score >= 0) & (score <= 1)
    if not np.isin(outcome[valid], (0.0, 1.0)).all():
        raise ValueError("passed: should hold 0 and 1 only")
    return times[valid], outcome[valid]
