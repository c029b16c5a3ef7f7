"""Keep what the policy ``anytime`` remembers of every stream: read, go on, write back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple

import numpy as np
from sqlalchemy import Connection

from monitor.models import Verdict
from monitor.rolling.anytime import advance_all
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
from monitor.rolling.looks import (
    Looks,
    goes_by_samples,
    looks_of,
    stream_sample,
    weighted_looks,
)
from monitor.rolling.policies import Rules
from monitor.stats.changepoint import find_onset
from monitor.store.query import Stream, bucket_sums
from monitor.store.verdicts import (
    StoredScore,
    read_states,
    save_states,
    scores_since,
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
#: In milliseconds: a transaction that took longer to commit may come too late to be looked at.
_COMMIT_MS: Final = 20_000
#: Scores that arrived since then are read for all streams at once.
_TOGETHER_S: Final = 40.0
_NOTHING_NEW: Final = Looks(*np.zeros((4, 0)))


class _Seen(NamedTuple):
    """What a stream had counted at the last look."""

    n: float = 0.0
    sum_w: float = 0.0
    sum_w2: float = 0.0
    sum_wy: float = 0.0
    received_ms: int = 0  #: of samples that are looked at one by one, the newest arrival

    @classmethod
    def of(cls, stream: Stream, received_ms: int = 0) -> _Seen:
        sums = (float(stream.n_total), stream.sum_w, stream.sum_w2, stream.sum_wy)
        return cls(*sums, received_ms)


class _Stored(NamedTuple):
    state: EvidenceState
    seen: _Seen


class StreamToJudge(NamedTuple):
    """A stream to look at, and the verdict that its key has so far."""

    stream: Stream
    previous: Verdict | None


class _Begun(NamedTuple):
    """A stream before its looks: what was stored of it, and what is new."""

    stream: Stream
    stored: _Stored
    state: EvidenceState
    looks: Looks  #: none where nothing is new
    seen: _Seen


class Advanced(NamedTuple):
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

    def begin(self) -> None:
        """Begin an evaluation."""
        self._changed, self._may_learn = set(), _LEARN_AT_ONCE
        self._read_from_ms, self._scores = math.inf, {}

    def advance(
        self, connection: Connection, asked: Sequence[StreamToJudge], rules: Rules, *, now: datetime
    ) -> list[Advanced]:
        """Take the streams that share *rules* to *now*, those with little news at once."""
        now_s = now.timestamp()
        begun = [self._begun(connection, one, rules, now_s) for one in asked]
        moved = advance_all([one.state for one in begun], [one.looks for one in begun], rules)
        return [
            Advanced(one.state, one.looks, self._ended(connection, one, state, now_s, rules))
            for one, (state, _) in zip(begun, moved, strict=True)
        ]

    def _begun(
        self, connection: Connection, asked: StreamToJudge, rules: Rules, now_s: float
    ) -> _Begun:
        """Find what is new of a stream."""
        stream, previous = asked
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
            columns = np.array(rows, dtype=np.float64).reshape(-1, 7).T
            history = History((columns[0] // self.bucket_s).astype(np.int64), *columns[1:])
            state = relearn(state, history, now_s, rules)
        if stream.n_total == stored.seen.n:
            return _Begun(stream, stored, state, _NOTHING_NEW, stored.seen)
        if goes_by_samples(
            stream.key.evaluator_version, n=stream.n_total, sum_w=stream.sum_w, sum_w2=stream.sum_w2
        ):
            return self._by_samples(connection, stream, stored, state, now_s, paused=paused)
        pieces = self._pieces(connection, stream, state, stored.seen, now_s, paused=paused)
        time_s, n, sum_w, sum_w2, sum_wy = np.array(pieces).T
        looks = weighted_looks(
            np.maximum(time_s, state.at_s), n, sum_w, sum_w2, sum_wy, state.baseline
        )
        return _Begun(stream, stored, state, looks, _Seen.of(stream))

    def _by_samples(
        self,
        connection: Connection,
        stream: Stream,
        stored: _Stored,
        state: EvidenceState,
        now_s: float,
        *,
        paused: bool,
    ) -> _Begun:
        """Find the samples that arrived since the last look, each of them once."""
        seen = stored.seen
        after_ms = seen.received_ms
        if not after_ms:
            # What was looked at as sums is not looked at again.
            from_s = state.at_s if state.n_day > 0 else now_s - _FIRST * self.bucket_s
            after_ms = round(from_s * 1000)
        width_s = self.bucket_s
        known = self._looked_at.get(stream.stream_id, {})
        # In this process what was looked at is known by its id; after a restart by its arrival.
        began_ms = self._looked_from_ms.setdefault(stream.stream_id, after_ms)
        from_ms = max(began_ms, after_ms - _COMMIT_MS)
        new = [
            score
            for score in self._arrived(connection, stream, from_ms, now_s)
            if score.received_at_ms > from_ms
            and score.evaluation_id not in known
            and score.received_at_ms / 1000 - score.occurred_at_ms // 1000 // width_s * width_s
            <= self.news_s + width_s
        ]
        if not new:
            return _Begun(stream, stored, state, _NOTHING_NEW, seen)
        newest_ms = max(after_ms, *(score.received_at_ms for score in new))
        self._looked_at[stream.stream_id] = {
            key: at_ms
            for key, at_ms in (known | {s.evaluation_id: s.received_at_ms for s in new}).items()
            if at_ms > newest_ms - _COMMIT_MS
        }
        found = [
            stream_sample(
                score.received_at_ms / 1000,
                score.occurred_at_ms / 1000,
                passed=score.passed,
                weight=1.0 / score.sample_rate,
                noted=score.metadata,
            )
            for score in new
        ]
        looked_s = [
            min(now_s, s.at_s // width_s * width_s + width_s) if paused else now_s for s in found
        ]
        looked_s = np.maximum.accumulate(np.maximum(looked_s, state.at_s)).tolist()
        looks = looks_of(found, looked_s, state.baseline)
        return _Begun(stream, stored, state, looks, _Seen.of(stream, newest_ms))

    def _arrived(
        self, connection: Connection, stream: Stream, from_ms: float, now_s: float
    ) -> Sequence[StoredScore]:
        """Read scores: those of the last minutes for all streams at once, older ones for one."""
        app, metric, _, version = stream.key
        if from_ms < (now_s - _TOGETHER_S) * 1000:
            scores = scores_since(connection, after_ms=round(from_ms), app=app, metric=metric)
        else:
            if from_ms < self._read_from_ms:
                self._read_from_ms = round((now_s - _TOGETHER_S) * 1000)
                self._scores = scores_since(connection, after_ms=round(self._read_from_ms))
            scores = self._scores
        return scores.get((app, metric, version), ())

    def _ended(
        self,
        connection: Connection,
        begun: _Begun,
        state: EvidenceState,
        now_s: float,
        rules: Rules,
    ) -> EvidenceState:
        """Note what is to be remembered of a stream."""
        stream = begun.stream
        if state.alarmed and not begun.state.alarmed:
            rows = np.array(self._rows(connection, stream, now_s, _ONSET)).reshape(-1, 7)
            weight = rows[:, 2]
            worth = np.divide(rows[:, 1], weight, out=np.zeros_like(weight), where=weight > 0)
            onset = find_onset(rows[:, 0], np.clip(rows[:, 4], 0, weight) * worth, rows[:, 1])
            state = state.but(onset=onset)
        state, _ = idle(state, now_s, rules)
        stored = _Stored(state, begun.seen)
        changed = state is not begun.stored.state or stored.seen != begun.stored.seen
        if changed or stream.stream_id not in self._stored:
            self._stored[stream.stream_id] = stored
            self._changed.add(stream.stream_id)
        return state

    def save(self, connection: Connection, *, now: datetime) -> None:
        """Write what changed, in the transaction that is fenced by the lease."""
        rows = {}
        for key in self._changed:
            state, seen = self._stored[key]
            rises = evidence_rises(state)
            rows[key] = {"memory": to_json(state), "seen": list(seen), "rises": rises}
        save_states(connection, rows, now=now)

    def _pieces(
        self,
        connection: Connection,
        stream: Stream,
        state: EvidenceState,
        seen: _Seen,
        now_s: float,
        *,
        paused: bool,
    ) -> list[tuple[float, ...]]:
        """List time, n, sum_w, sum_w2 and sum_wy of what is new: at once, or by buckets."""
        total = _Seen.of(stream)
        rest = [total[i] - seen[i] for i in range(4)]
        if not paused:
            return [(now_s, *rest)]
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
