"""What the judge is expected to say at a local score: a monotone map, learnt as it answers."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
import redis
from scipy.optimize import isotonic_regression

from monitor.errors import QueueUnavailableError
from monitor.models.passing import Direction, PassRule
from monitor.queue import names
from monitor.queue.consumer import translated

BINS = 20
_FORGET_ABOVE = 4_000  # verdicts; then all counts are halved, so that old ones fade
_PRIOR = 2.0  # verdicts that each bin begins with, at the default map
_STEEPNESS = 6.0  # of the default map around the pass score
_EDGE = 0.02  # never quite certain: what is expected of a bin stays this far from 0 and 1
_FRESH_S = 2.0
_KEPT_S = 90 * 86_400

_LEARN = """
redis.call('HINCRBYFLOAT', KEYS[1], 'n:' .. ARGV[1], 1)
redis.call('HINCRBYFLOAT', KEYS[1], 'p:' .. ARGV[1], ARGV[2])
redis.call('HINCRBYFLOAT', KEYS[1], 's:' .. ARGV[1], ARGV[3])
local total = tonumber(redis.call('HINCRBYFLOAT', KEYS[1], 'total', 1))
if total > tonumber(ARGV[4]) then
  local all = redis.call('HGETALL', KEYS[1])
  for i = 1, #all, 2 do
    redis.call('HSET', KEYS[1], all[i], string.format('%.6f', all[i + 1] / 2))
  end
end
redis.call('EXPIRE', KEYS[1], ARGV[5])
return 0
"""


class Expected(NamedTuple):
    """The judge's expected pass, as a probability, and its expected score, both in [0, 1]."""

    passes: float
    score: float

    @property
    def spread(self) -> float:
        """How undecided a pass is: the standard deviation of one that happens so often."""
        return math.sqrt(self.passes * (1 - self.passes))


@dataclass(slots=True)
class Counts:
    """What the judge said so far, by the bin of the local score; float arrays of shape (20,)."""

    n: list[float] = field(default_factory=lambda: [0.0] * BINS)
    passed: list[float] = field(default_factory=lambda: [0.0] * BINS)
    score: list[float] = field(default_factory=lambda: [0.0] * BINS)


def expectations(
    counts: Counts, *, pass_score: float, direction: Direction = Direction.HIGHER
) -> tuple[Expected, ...]:
    """
    Fit what the judge is expected to say in each bin of the local score.

    The least-squares monotone fit, weighted by the number of verdicts, each bin
    beginning with two at a default map: the local score itself, and a logistic curve
    around the pass score; where lower is better the share that passes falls with the score.
    Estimates that rest on it stay unbiased whatever it says,
    as long as it was learnt from other samples.

    References
    ----------
    .. [1] M. Ayer et al., "An empirical distribution function for sampling with
       incomplete information", Annals of Mathematical Statistics 26 (1955), 641-647.
    """
    middles = [(position + 0.5) / BINS for position in range(BINS)]
    above = [1 / (1 + math.exp(-_STEEPNESS * (middle - pass_score))) for middle in middles]
    if direction is Direction.LOWER:
        failed = [n - passed for n, passed in zip(counts.n, counts.passed, strict=True)]
        passes = [1 - share for share in _monotone(failed, counts.n, above)]
    else:
        passes = _monotone(counts.passed, counts.n, above)
    scores = _monotone(counts.score, counts.n, middles)
    return tuple(map(Expected, passes, scores))


def _monotone(sums: Sequence[float], n: Sequence[float], default: Sequence[float]) -> list[float]:
    weights = np.asarray(n) + _PRIOR
    means = (np.asarray(sums) + _PRIOR * np.asarray(default)) / weights
    fitted = isotonic_regression(means, weights=weights).x
    return [float(value) for value in np.clip(fitted, _EDGE, 1 - _EDGE)]


def bin_of(local_score: float) -> int:
    """Give the bin of a local score in [0, 1]."""
    return min(BINS - 1, max(0, int(local_score * BINS)))


class Memory(Protocol):
    """Where counts are kept between samples."""

    def read(self, app: str, metric: str) -> Counts:
        """Give the counts of one app and metric."""

    def add(self, app: str, metric: str, position: int, *, passed: bool, score: float) -> None:
        """Count one verdict."""


class OwnMemory:
    """Counts of this process alone, for runs without a server."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], Counts] = {}

    def read(self, app: str, metric: str) -> Counts:
        """Give the counts of one app and metric."""
        return self._counts.setdefault((app, metric), Counts())

    def add(self, app: str, metric: str, position: int, *, passed: bool, score: float) -> None:
        """Count one verdict."""
        counts = self.read(app, metric)
        counts.n[position] += 1
        counts.passed[position] += passed
        counts.score[position] += score


class SharedMemory:
    """Counts in Redis, for all workers; forgotten with Redis, and learnt again."""

    def __init__(self, client: redis.Redis, version: str) -> None:
        self._redis: Any = client
        self._version = version
        self._add = self._redis.register_script(_LEARN)

    def read(self, app: str, metric: str) -> Counts:
        """Give the counts of one app and metric."""
        with translated():
            found = self._redis.hgetall(names.calibration(app, metric, self._version))
        counts = Counts()
        for name, target in (("n", counts.n), ("p", counts.passed), ("s", counts.score)):
            for position in range(BINS):
                target[position] = float(found.get(f"{name}:{position}".encode(), 0.0))
        return counts

    def add(self, app: str, metric: str, position: int, *, passed: bool, score: float) -> None:
        """Count one verdict."""
        key = names.calibration(app, metric, self._version)
        arguments = [position, int(passed), score, _FORGET_ABOVE, _KEPT_S]
        with translated():
            self._add(keys=[key], args=arguments)


class Calibration:
    """
    Expectations by app and metric, read anew every two seconds; for threads.

    When Redis is away the last ones known go on: any map will do.
    """

    def __init__(
        self,
        memory: Memory,
        *,
        pass_score: float,
        rules: Mapping[str, PassRule] | None = None,
    ) -> None:
        self._memory = memory
        self._pass_score = pass_score
        self._rules = rules or {}
        self._known: dict[tuple[str, str], tuple[float, tuple[Expected, ...]]] = {}
        self._lock = threading.Lock()

    def expect(self, app: str, metric: str, local_score: float) -> Expected:
        """Say what the judge is expected to say at *local_score*."""
        with self._lock:
            read_s, known = self._known.get((app, metric), (-_FRESH_S, ()))
            now_s = time.monotonic()
            if not known or now_s - read_s >= _FRESH_S:
                known = self._read(app, metric) or known
                self._known[app, metric] = now_s, known
        return known[bin_of(local_score)]

    def learn(self, app: str, metric: str, local_score: float, judged_score: float) -> None:
        """Learn from a verdict, for samples to come."""
        passed = self._rule(metric).passes(judged_score)
        try:
            self._memory.add(app, metric, bin_of(local_score), passed=passed, score=judged_score)
        except QueueUnavailableError:
            return

    def _read(self, app: str, metric: str) -> tuple[Expected, ...]:
        try:
            counts = self._memory.read(app, metric)
        except QueueUnavailableError:
            if (app, metric) in self._known:
                return ()
            counts = Counts()
        rule = self._rule(metric)
        return expectations(counts, pass_score=rule.line, direction=rule.direction)

    def _rule(self, metric: str) -> PassRule:
        return self._rules.get(metric, PassRule(self._pass_score))
