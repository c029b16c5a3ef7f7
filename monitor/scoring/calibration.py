"""What the judge said lately, by app and metric, and what it is therefore expected to say."""

from __future__ import annotations

import threading
import time
from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import redis

from monitor.errors import QueueUnavailableError
from monitor.models.passing import PassRule
from monitor.queue import names
from monitor.queue.consumer import translated
from monitor.scoring.curve import Curve, Expected, Verdict, fit_curve

KEPT = 2_000  #: verdicts an app and metric; older ones are forgotten
_ANEW = 20  # fitted again when one verdict in so many is new
_FRESH_S = 2.0
_KEPT_S = 90 * 86_400


class Learnt(NamedTuple):
    """The last verdicts of one app and metric, and how many there were in all."""

    verdicts: tuple[Verdict, ...] = ()
    total: int = 0


class Memory(Protocol):
    """Where verdicts are kept between samples."""

    def read(self, app: str, metric: str) -> Learnt:
        """Give what is known of one app and metric."""

    def add(self, app: str, metric: str, verdict: Verdict) -> None:
        """Keep one verdict."""


@dataclass(slots=True)
class _Last:
    """A window on the verdicts of one app and metric."""

    verdicts: deque[Verdict] = field(default_factory=lambda: deque(maxlen=KEPT))
    total: int = 0
    position: bytes = b"0"  #: of the last one read from the stream

    def add(self, verdict: Verdict) -> None:
        self.verdicts.append(verdict)
        self.total += 1

    def learnt(self) -> Learnt:
        return Learnt(tuple(self.verdicts), self.total)


class OwnMemory:
    """Verdicts of this process alone, for runs without a server; for threads."""

    def __init__(self) -> None:
        self._last: defaultdict[tuple[str, str], _Last] = defaultdict(_Last)
        self._lock = threading.Lock()

    def read(self, app: str, metric: str) -> Learnt:
        """Give what is known of one app and metric."""
        with self._lock:
            return self._last[app, metric].learnt()

    def add(self, app: str, metric: str, verdict: Verdict) -> None:
        """Keep one verdict."""
        with self._lock:
            self._last[app, metric].add(verdict)


class SharedMemory:
    """
    Verdicts in streams of Redis, for all workers; forgotten with Redis, and learnt again.

    Only what is new is read. *version* names what shapes local score and verdict.
    """

    def __init__(self, client: redis.Redis, version: str) -> None:
        self._redis: Any = client
        self._version = version
        self._last: defaultdict[tuple[str, str], _Last] = defaultdict(_Last)
        self._lock = threading.Lock()

    def read(self, app: str, metric: str) -> Learnt:
        """Give what is known of one app and metric."""
        key = names.calibration(app, metric, self._version)
        with self._lock:
            last = self._last[app, metric]
            with translated():
                found = self._redis.xread({key: last.position})
            for last.position, fields in found[0][1] if found else ():
                last.add(_decoded(fields[b"v"].decode()))
            return last.learnt()

    def add(self, app: str, metric: str, verdict: Verdict) -> None:
        """Keep one verdict."""
        key = names.calibration(app, metric, self._version)
        with translated(), self._redis.pipeline(transaction=False) as pipe:
            pipe.xadd(key, {"v": _encoded(verdict)}, maxlen=KEPT, approximate=True)
            pipe.expire(key, _KEPT_S)
            pipe.execute()


def _encoded(verdict: Verdict) -> str:
    places = " ".join(map(str, verdict.places))
    return f"{verdict.local_score:.4f} {verdict.passed:d} {verdict.score:.4f} {places}"


def _decoded(text: str) -> Verdict:
    local_score, passed, score, *places = text.split()
    return Verdict(float(local_score), passed == "1", float(score), tuple(map(int, places)))


class Calibration:
    """
    Expectations by app and metric, brought up to date every two seconds; for threads.

    When Redis is away the last ones known go on: any will do.
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
        self._known: dict[tuple[str, str], _Known] = {}
        self._lock = threading.Lock()

    def expect(
        self, app: str, metric: str, local_score: float, places: tuple[int, ...] = ()
    ) -> Expected:
        """Say what the judge is expected to say at *local_score* in *places*."""
        with self._lock:
            known = self._known.get((app, metric))
            now_s = time.monotonic()
            if known is None or now_s - known.read_s >= _FRESH_S:
                known = self._renewed(app, metric, known)._replace(read_s=now_s)
                self._known[app, metric] = known
        return known.curve.expect(local_score, places)

    def learn(self, app: str, metric: str, verdict: Verdict) -> None:
        """Learn from a verdict, for samples to come."""
        try:
            self._memory.add(app, metric, verdict)
        except QueueUnavailableError:
            return

    def _renewed(self, app: str, metric: str, known: _Known | None) -> _Known:
        try:
            learnt = self._memory.read(app, metric)
        except QueueUnavailableError:
            if known is not None:
                return known
            learnt = Learnt()
        if known is not None and learnt.total - known.total <= len(learnt.verdicts) // _ANEW:
            return known
        rule = self._rules.get(metric, PassRule(self._pass_score))
        return _Known(fit_curve(learnt.verdicts, rule), learnt.total)


class _Known(NamedTuple):
    curve: Curve
    total: int  #: verdicts, when it was fitted
    read_s: float = 0.0
