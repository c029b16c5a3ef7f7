"""
Keep what the policy ``anytime`` remembers: read, go on, write back.

`StreamStates` of every stream, `FleetPools` of the apps that share an evaluator, model or release.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

import numpy as np
from sqlalchemy import Connection

from monitor.models import Verdict
from monitor.models.status import FleetFall
from monitor.rolling.anytime import advance_all, onset_of_fall
from monitor.rolling.baseline import History
from monitor.rolling.evidence_state import (
    EvidenceState,
    evidence_rises,
    from_json,
    idle,
    learn_due_s,
    relearn,
    to_json,
)
from monitor.rolling.fleet import (
    AppNews,
    FleetFinding,
    Pool,
    advance_pool,
    finding_of,
    pool_from_json,
    pool_to_json,
)
from monitor.rolling.looks import (
    Looks,
    StreamSample,
    goes_by_samples,
    looks_of,
    stream_sample,
    weighted_looks,
)
from monitor.rolling.policies import Rules, pools_of
from monitor.rolling.tuning import RateSchedule
from monitor.store.drift import StoredScore, scores_since
from monitor.store.query import Stream, bucket_sums, shared_values
from monitor.store.verdicts import (
    PoolKey,
    read_asked_spans,
    read_pools,
    read_release_marks,
    read_states,
    save_pools,
    save_states,
)

#: In buckets: what a baseline needs, what a first look takes up, and where an onset is sought.
_HISTORY: Final = 9 * 1440
_FIRST: Final = 1440
_ONSET: Final = 2 * 1440
#: A pause of more than so many buckets is made up for bucket by bucket.
_PAUSE: Final = 2
#: From so many buckets baselines are learned in one evaluation; what is left waits for the next.
_LEARN_AT_ONCE: Final = 600_000
#: No arrival is older than this.
_FIRST_MS: Final = 1_000_000_000_000
#: In milliseconds: a transaction that took longer to commit may come too late to be read.
_COMMIT_MS: Final = 20_000
#: Scores that arrived since then are read for all streams at once.
_TOGETHER_S: Final = 40.0
#: So long before a fall of the fleet a release may have gone out that explains it.
_BEFORE: Final = timedelta(minutes=15)
#: In seconds: how often it is read what apps share, and how old its samples may be.
_FRESH_S, _LATELY_S = 60.0, 86_400.0
_NOTHING_NEW: Final = Looks(*np.zeros((4, 0)))


class _Seen(NamedTuple):
    """What a stream had counted at the last look."""

    n: float = 0.0
    sum_w: float = 0.0
    sum_w2: float = 0.0
    sum_wy: float = 0.0
    received_ms: int = 0  #: of samples that are read one by one, the newest arrival

    @classmethod
    def of(cls, stream: Stream, received_ms: int = 0) -> _Seen:
        sums = (float(stream.n_total), stream.sum_w, stream.sum_w2, stream.sum_wy)
        return cls(*sums, received_ms)


class _Stored(NamedTuple):
    state: EvidenceState
    seen: _Seen


def sample_of(score: StoredScore, rates: RateSchedule = RateSchedule()) -> StreamSample:  # noqa: B008
    """Return a stored score as the evidence that it is, sampled while *rates* were in force."""
    return stream_sample(
        score.received_at_ms / 1000, score.occurred_at_ms / 1000, passed=score.passed,
        weight=rates.weight(score.occurred_at_ms / 1000, score.sample_rate), noted=score.metadata,
    )  # fmt: skip


def read_schedules(connection: Connection) -> dict[str, RateSchedule]:
    """Return the rates that were in force in the last days, of the apps that were asked for any."""
    spans = read_asked_spans(connection)
    return {app: RateSchedule.of(asked) for app, asked in spans.items()}


class _Begun(NamedTuple):
    """A stream before its looks: what was stored, its state now, and what is new."""

    stream: Stream
    stored: _Stored
    state: EvidenceState
    looks: Looks  #: none where nothing is new
    seen: _Seen


class AdvancedStream(NamedTuple):
    """A stream before and after its newest looks."""

    before: EvidenceState
    looks: Looks  #: none where nothing is new
    state: EvidenceState


@dataclass(slots=True)
class StreamStates:
    """
    The states of all streams, kept between evaluations for as long as one lease lasts.

    A look costs one row a stream: what arrived since the last one is the difference of the
    stream's sums, whichever buckets it fell into. So a late sample counts once, when it arrives.
    """

    bucket_s: int
    news_s: float  #: what is older than this when it arrives is not news
    _stored: dict[int, _Stored] = field(default_factory=dict)
    _changed: set[int] = field(default_factory=set)
    _may_learn: int = 0
    _scores: dict[tuple[str, str, str], list[StoredScore]] = field(default_factory=dict)
    _read_from_ms: float = math.inf
    _looked_at: dict[int, dict[str, int]] = field(default_factory=dict)
    _looked_from_ms: dict[int, int] = field(default_factory=dict)
    _rates: dict[str, RateSchedule] = field(default_factory=dict)

    def read(self, connection: Connection) -> None:
        """Read what is remembered."""
        self._stored = {}
        for stream_id, row in read_states(connection).items():
            state = from_json(row["memory"])
            if state is not None:
                seen = _Seen(*row["seen"])
                if seen.received_ms <= _FIRST_MS:  # in a former form it meant something else
                    seen = seen._replace(received_ms=0)
                self._stored[stream_id] = _Stored(state, seen)
        self._looked_at, self._looked_from_ms = {}, {}

    def begin(self, connection: Connection) -> None:
        """Begin an evaluation."""
        self._changed, self._may_learn = set(), _LEARN_AT_ONCE
        self._rates = read_schedules(connection)
        self._read_from_ms, self._scores = math.inf, {}

    def advance(
        self,
        connection: Connection,
        asked: Sequence[tuple[Stream, Verdict | None]],
        rules: Rules,
        *,
        now: datetime,
    ) -> list[AdvancedStream]:
        """
        Take the streams that share *rules* to *now*, those with little news at once.

        *asked* has with each stream the verdict of its key so far.
        """
        now_s = now.timestamp()
        begun = [self._begun(connection, *one, rules, now_s) for one in asked]
        moved = advance_all([one.state for one in begun], [one.looks for one in begun], rules)
        found = []
        for one, turned in zip(begun, moved, strict=True):
            stream, state = one.stream, turned[0]
            if state.alarmed and not one.state.alarmed:
                rows = np.array(self._rows(connection, stream, now_s, _ONSET)).reshape(-1, 7)
                state = state.but(onset=onset_of_fall(rows, state.count, self.bucket_s))
            state, _ = idle(state, now_s, rules)
            found.append(AdvancedStream(one.state, one.looks, state))
            changed = state is not one.stored.state or one.stored.seen != one.seen
            if changed or stream.stream_id not in self._stored:
                self._stored[stream.stream_id] = _Stored(state, one.seen)
                self._changed.add(stream.stream_id)
        return found

    def _begun(
        self, connection: Connection, stream: Stream, previous: Verdict | None, rules: Rules,
        now_s: float,
    ) -> _Begun:  # fmt: skip
        """Find what is new of a stream."""
        stored = self._stored.get(stream.stream_id)
        paused = (
            stored is None
            or previous is None
            or previous.evaluator_version != stream.key.evaluator_version
            or now_s - previous.evaluated_at.timestamp() > _PAUSE * self.bucket_s
        )
        if stored is None:
            # Begin with the last day of the buckets, so that old trouble is not news.
            rows = self._rows(connection, stream, now_s, _FIRST)
            n, w, w2, wy = (sum(row[i] for row in rows) for i in (1, 2, 3, 4))
            begun_s = min(now_s, rows[0][0]) if rows else now_s
            total = _Seen.of(stream)
            # The buckets also hold what was no news when it came; the sums of the stream do not.
            all_news_is_here = n >= total.n
            before = _Seen(total.n - n, total.sum_w - w, total.sum_w2 - w2, total.sum_wy - wy)
            stored = _Stored(EvidenceState.fresh(begun_s), _Seen() if all_news_is_here else before)
        state = stored.state
        if now_s >= learn_due_s(state, rules) and self._may_learn > 0:
            rows = self._rows(connection, stream, now_s, _HISTORY)
            self._may_learn -= len(rows)
            rates = self._rates.get(stream.key.app, RateSchedule())
            weighed = rates.rows(rows, width_s=self.bucket_s)
            columns = np.array(weighed, dtype=np.float64).reshape(-1, 7).T
            history = History((columns[0] // self.bucket_s).astype(np.int64), *columns[1:])
            state = relearn(state, history, now_s, rules)
        if stream.n_total == stored.seen.n:
            return _Begun(stream, stored, state, _NOTHING_NEW, stored.seen)
        if stream.key.app in self._rates or goes_by_samples(
            stream.key.evaluator_version, n=stream.n_total, sum_w=stream.sum_w, sum_w2=stream.sum_w2
        ):
            return self._by_samples(connection, stream, stored, state, now_s, paused=paused)
        total = _Seen.of(stream)
        rest = [total[i] - stored.seen[i] for i in range(4)]
        pieces = [(now_s, *rest)]
        if paused:
            pieces = self._pieces(connection, stream, state, rest, now_s)
        time_s, n, sum_w, sum_w2, sum_wy = np.array(pieces).T
        looks = weighted_looks(
            np.maximum(time_s, state.at_s), n, sum_w, sum_w2, sum_wy, state.baseline
        )
        return _Begun(stream, stored, state, looks, _Seen.of(stream))

    def _by_samples(
        self, connection: Connection, stream: Stream, stored: _Stored, state: EvidenceState,
        now_s: float, *, paused: bool,
    ) -> _Begun:  # fmt: skip
        """Find the samples that arrived since the last look, each of them once."""
        seen = stored.seen
        after_ms = seen.received_ms
        if not after_ms:
            # What was read as sums is not read again.
            from_s = state.at_s if state.n_day > 0 else now_s - _FIRST * self.bucket_s
            after_ms = round(from_s * 1000)
        width_s = self.bucket_s
        known = self._looked_at.get(stream.stream_id, {})
        # In this process samples already read are known by id; after a restart by arrival.
        began_ms = self._looked_from_ms.setdefault(stream.stream_id, after_ms)
        from_ms = max(began_ms, after_ms - _COMMIT_MS)
        app, metric, _, version = stream.key
        # Scores of the last minutes are read for all streams at once, older ones for one.
        if from_ms < (now_s - _TOGETHER_S) * 1000:
            arrived = scores_since(connection, after_ms=round(from_ms), app=app, metric=metric)
        else:
            if from_ms < self._read_from_ms:
                self._read_from_ms = round((now_s - _TOGETHER_S) * 1000)
                self._scores = scores_since(connection, after_ms=round(self._read_from_ms))
            arrived = self._scores
        new = [
            score
            for score in arrived.get((app, metric, version), ())
            if score.received_at_ms > from_ms
            and score.sample_id not in known
            and score.received_at_ms / 1000 - score.occurred_at_ms // 1000 // width_s * width_s
            <= self.news_s + width_s
        ]
        if not new:
            return _Begun(stream, stored, state, _NOTHING_NEW, seen)
        newest_ms = max(after_ms, *(score.received_at_ms for score in new))
        self._looked_at[stream.stream_id] = {
            key: at_ms
            for key, at_ms in (known | {s.sample_id: s.received_at_ms for s in new}).items()
            if at_ms > newest_ms - _COMMIT_MS
        }
        rates = self._rates.get(app, RateSchedule())
        found = [sample_of(score, rates) for score in new]
        looked_s = [
            min(now_s, s.at_s // width_s * width_s + width_s) if paused else now_s for s in found
        ]
        looked_s = np.maximum.accumulate(np.maximum(looked_s, state.at_s)).tolist()
        looks = looks_of(found, looked_s, state.baseline)
        return _Begun(stream, stored, state, looks, _Seen.of(stream, newest_ms))

    def save(self, connection: Connection, *, now: datetime) -> None:
        """Write what changed, in the transaction that is fenced by the lease."""
        rows = {}
        for key in self._changed:
            state, seen = self._stored[key]
            rises = evidence_rises(state, bucket_s=self.bucket_s)
            rows[key] = {"memory": to_json(state), "seen": list(seen), "rises": rises}
        save_states(connection, rows, now=now)

    def _pieces(
        self, connection: Connection, stream: Stream, state: EvidenceState, rest: list[float],
        now_s: float,
    ) -> list[tuple[float, ...]]:  # fmt: skip
        """List time, n, sum_w, sum_w2 and sum_wy of the *rest* that is new, by buckets."""
        pieces: list[tuple[float, ...]] = []
        at_s = state.at_s
        # The newest first: what is beyond the news was a backlog, and stands in older buckets.
        for start_s, *sums in reversed(self._rows(connection, stream, now_s, _FIRST)):
            if state.n_day > 0 and start_s <= state.at_s // self.bucket_s * self.bucket_s:
                break
            at_s = min(now_s, start_s + self.bucket_s - 0.001)
            if sums[0] > rest[0]:
                break
            pieces.append((at_s, *sums[:4]))
            rest = [left - used for left, used in zip(rest, sums[:4], strict=True)]
            at_s = state.at_s
        if rest[0] > 0:
            # What is left arrived late, or belongs to the bucket of the last look or of a backlog.
            pieces.append((at_s, *rest))
        return [piece for piece in reversed(pieces) if piece[1] > 0] or [(now_s, *rest)]

    def _rows(
        self, connection: Connection, stream: Stream, now_s: float, n_buckets: int
    ) -> list[tuple[float, ...]]:
        from_s = int(now_s) - n_buckets * self.bucket_s
        return bucket_sums(connection, stream.stream_id, from_s=from_s, to_s=int(now_s) + 1)


@dataclass(slots=True)
class FleetPools:
    """The pools, by metric, evaluator version and what is shared, for as long as a lease lasts."""

    _pools: dict[PoolKey, dict[str, Pool]] = field(default_factory=dict)
    _falls: dict[PoolKey, FleetFall] = field(default_factory=dict)
    _shared: Mapping[str, Sequence[str]] = field(default_factory=dict)
    _shared_at_s: float = -math.inf

    def read(self, connection: Connection) -> None:
        """Read what is remembered."""
        self._pools = {
            key: {value: pool_from_json(state) for value, state in states.items()}
            for key, states in read_pools(connection).items()
        }

    def shared(self, connection: Connection, now: datetime) -> Mapping[str, Sequence[str]]:
        """Return the model and the release that each app uses now; read once a minute."""
        if not 0 <= now.timestamp() - self._shared_at_s < _FRESH_S:
            self._shared = shared_values(connection, since_s=now.timestamp() - _LATELY_S)
            self._shared_at_s = now.timestamp()
        return self._shared

    def advance(
        self,
        connection: Connection,
        news: Mapping[PoolKey, Sequence[AppNews]],
        rules: Rules,
        *,
        now: datetime,
    ) -> list[FleetFall]:
        """
        Take every pool to *now*; return the falls that go on, the worst first.

        Of an evaluator's pools that fell, the largest speaks.
        """
        now_s, shared = now.timestamp(), self.shared(connection, now)
        before, self._pools, self._falls = self._pools, {}, {}
        for key, apps in news.items():
            known = before.get(key, {})
            pools = pools_of([one.app for one in apps], shared)
            going_on = [value for value, pool in known.items() if pool.incident or not value]
            for value in dict.fromkeys([*pools, *going_on]):
                inside = [one for one in apps if value not in pools or one.app in pools[value]]
                pool = advance_pool(known.get(value, Pool(at_s=now_s)), inside, now_s, rules)
                self._pools.setdefault(key, {})[value] = pool
                found = finding_of(pool)
                known_fall = self._falls.get(key)
                if found and (known_fall is None or found.n_apps > known_fall.n_apps):
                    self._falls[key] = _fall(connection, key, value, found)
        return sorted(self._falls.values(), key=lambda fall: (fall.high, fall.metric))

    def save(self, connection: Connection, *, now: datetime) -> None:
        """Write the pools, in the transaction that is fenced by the lease."""
        states = {
            key: {value: pool_to_json(pool) for value, pool in pools.items()}
            for key, pools in self._pools.items()
        }
        save_pools(connection, states, self._falls, now=now)


def _fall(connection: Connection, key: PoolKey, shared: str, found: FleetFinding) -> FleetFall:
    since, status_since = (
        datetime.fromtimestamp(at_s, UTC) for at_s in (found.since_s, found.status_s)
    )
    # The pool is of one version of the evaluator, so a judge of another name explains
    # nothing, and nothing else is blamed without a change that was seen.
    apps = set(found.fell)
    releases = Counter(
        mark.release
        for mark in read_release_marks(connection, since=since - _BEFORE)
        if mark.app in apps and mark.at <= status_since
    )
    release, n = next(iter(releases.most_common(1)), ("", 0))
    cause = f"release {release} went out to {n} of them at that time"
    if n <= len(apps) / 2:
        what = "; all of them use " + shared.replace("=", " ") if shared else ""
        cause = (
            "cause unknown: the evaluator's version is the same as before, and no release went out"
            f" to most of them{what}"
        )
    names = ("status", "pass_rate", "low", "high", "n", "fell", "n_apps")
    return FleetFall(
        metric=key[0], evaluator_version=key[1], shared=shared, status_since=status_since,
        since=since, cause=cause, **{name: getattr(found, name) for name in names},
    )  # fmt: skip
