"""Look for drift in every stream: sequentially in the mean, and chunk by chunk in the shape."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection

from monitor.models import ROOT, StreamKey, Tally
from monitor.models.insight import DriftFinding
from monitor.rolling.baseline import ReferenceSpan
from monitor.rolling.drift import chunk_tests, moments, score_reference
from monitor.rolling.score_drift import (
    DOWN,
    HOUR_BUCKETS,
    LEAST_REFERENCE,
    Alarm,
    ScoreDetector,
    ScoreDriftState,
    ScoreReference,
    take_in,
    threshold,
)
from monitor.settings import Settings
from monitor.stats.multiplicity import e_detector_bh, stream_shares
from monitor.store.insights import bins_by_bucket, read_states
from monitor.store.query import Stream, series, window_tallies
from workers.drift_reference import References, locate_onset, measure_design_effect

#: Of the budget of false findings, the rest is for drift of the inputs.
SCORES_SHARE = 0.8
#: Two directions of the mean, two tests of the shape.
_TESTS = 4
_MONTH_S = 30 * 86_400
_SETTLE_BUCKETS = 2
_CHUNK_BUCKETS, _CHUNK_LEAST, _CHUNK_MOST = 60, 50, 24
_LOOK_BACK_BUCKETS = 48 * 60
#: Streams that fell behind together share so many buckets a look, so that none takes long.
_MOST_AT_ONCE = 100_000


class Watched(NamedTuple):
    """What a look at all streams gave: where they stand now, and what was found."""

    states: dict[int, dict[str, Any]]
    findings: list[DriftFinding]


class _News(NamedTuple):
    """Buckets that a stream has not taken in yet, and up to when they were read."""

    buckets: Mapping[int, Counter[int]]
    to_s: int


class _Measured(NamedTuple):
    effect: float  #: design effect
    by_hour: bool  #: like hours are to be compared


class DriftWatch:
    """One look at all streams, within the transaction that reads them."""

    def __init__(
        self,
        connection: Connection,
        settings: Settings,
        references: References,
        streams: Sequence[Stream],
        now_s: float,
    ) -> None:
        self._connection = connection
        self._references = references
        self._streams = streams
        self._known: dict[StreamKey, _Measured] = {}
        self._bucket_s = settings.windows.bucket_s
        self._chunk_s = _CHUNK_BUCKETS * settings.windows.bucket_s
        self._now = datetime.fromtimestamp(now_s, UTC)
        self._settled_s = (int(now_s) // self._bucket_s - _SETTLE_BUCKETS) * self._bucket_s
        roots = sum(stream.key.segment == ROOT for stream in streams)
        self._segments = len(streams) - roots
        shares = stream_shares(roots, self._segments)
        budget = settings.drift.drift_budget * SCORES_SHARE / _TESTS
        self._root_budget, self._segment_budget = (share * budget for share in shares)

    def look(self) -> Watched:
        """Take in what is new, and tell what was found in it."""
        stored = read_states(self._connection, [stream.stream_id for stream in self._streams])
        states = {
            stream.stream_id: self._state(stream, stored.get(stream.stream_id))
            for stream in self._streams
        }
        findings: list[DriftFinding] = []
        # Read what streams have not taken in yet; those that stand at one place together.
        together: dict[int, list[int]] = defaultdict(list)
        for stream_id, state in states.items():
            together[state.at_s].append(stream_id)
        news: dict[int, _News] = {}
        for at_s, stream_ids in together.items():
            most = max(1, _MOST_AT_ONCE // len(stream_ids)) * self._bucket_s
            to_s = min(self._settled_s, at_s + most)
            bins = bins_by_bucket(self._connection, stream_ids, from_s=at_s, to_s=to_s)
            news |= {stream_id: _News(bins.get(stream_id, {}), to_s) for stream_id in stream_ids}
        for stream in self._streams:
            buckets, to_s = news[stream.stream_id]
            state, alarms = take_in(
                states[stream.stream_id],
                buckets,
                to_s=to_s,
                bucket_s=self._bucket_s,
                line=threshold(self._bucket_s, self._budget(stream)),
            )
            states[stream.stream_id] = state
            findings += [self._of_alarm(stream, alarm) for alarm in alarms]
        findings += self._together(states)
        findings += self._chunks(states)
        return Watched({key: state.stored() for key, state in states.items()}, findings)

    def _budget(self, stream: Stream) -> float:
        return self._root_budget if stream.key.segment == ROOT else self._segment_budget

    def _state(self, stream: Stream, stored: Mapping[str, Any] | None) -> ScoreDriftState:
        """Read the state, begin one, or take its reference again."""
        if stored is None:
            chunk_s = self._settled_s // self._chunk_s * self._chunk_s
            state = ScoreDriftState(
                at_s=self._settled_s,
                began_s=self._settled_s,
                baseline=ScoreReference(0.0, 0.0, 0),
                baseline_at_s=0,
                chunk_from_s=chunk_s,
            )
        else:
            oldest_s = self._settled_s - _LOOK_BACK_BUCKETS * self._bucket_s
            state = ScoreDriftState.read(stored)
            state = replace(
                state,
                at_s=max(state.at_s, oldest_s),
                chunk_from_s=max(state.chunk_from_s, oldest_s // self._chunk_s * self._chunk_s),
            )
        if self._settled_s - state.baseline_at_s < self._bucket_s * state.refresh_buckets:
            return state
        root = self._measured(stream)
        window = ReferenceSpan(state.at_s, state.at_s + HOUR_BUCKETS * self._bucket_s)
        reference = self._references.of(stream, window, by_hour=root.by_hour).tally
        return replace(
            state,
            baseline=score_reference(reference),
            baseline_at_s=self._settled_s,
            design_effect=root.effect,
            by_hour=root.by_hour,
        )

    def _measured(self, stream: Stream) -> _Measured:
        """Measure the whole app: its sessions and its days are those of its segments."""
        key = stream.key._replace(segment=ROOT)
        if key not in self._known:
            roots = [item for item in self._streams if item.key == key]
            from_s = self._settled_s - _LOOK_BACK_BUCKETS * self._bucket_s
            effects = (
                measure_design_effect(
                    self._connection, root, from_s=from_s, bucket_s=self._bucket_s
                )
                for root in roots
            )
            by_hour = any(self._references.goes_by_hour(root, self._settled_s) for root in roots)
            self._known[key] = _Measured(max(effects, default=1.0), by_hour)
        return self._known[key]

    def _together(self, states: dict[int, ScoreDriftState]) -> list[DriftFinding]:
        """Find segments that fall together: each needs less evidence than one alone."""
        segments = [stream for stream in self._streams if stream.key.segment != ROOT]
        if not segments:
            return []
        levels = [states[stream.stream_id].down.level for stream in segments]
        budget = self._segment_budget * len(segments)
        looks = _MONTH_S / self._bucket_s
        findings = []
        for stream, is_listed in zip(
            segments, e_detector_bh(levels, looks=looks, budget=budget), strict=True
        ):
            state = states[stream.stream_id]
            if not is_listed or state.at_s < state.quiet_to_s[0]:
                continue
            alarm = Alarm(DOWN, state.at_s, state.began_s, state.down.level, state.baseline)
            quiet_s = state.at_s + 24 * self._chunk_s
            states[stream.stream_id] = replace(
                state, down=ScoreDetector(), quiet_to_s=(quiet_s, state.quiet_to_s[1])
            )
            findings.append(self._of_alarm(stream, alarm))
        return findings

    def _chunks(self, states: dict[int, ScoreDriftState]) -> list[DriftFinding]:
        to_s = self._settled_s // self._chunk_s * self._chunk_s
        begins = {
            state.chunk_from_s
            for state in states.values()
            if state.chunk_from_s + self._chunk_s <= to_s
        }
        sums = {
            from_s: window_tallies(self._connection, from_s=from_s, to_s=to_s, segment=None)
            for from_s in begins
        }
        findings: list[DriftFinding] = []
        for stream in self._streams:
            state = states[stream.stream_id]
            from_s = state.chunk_from_s
            if from_s not in sums:
                continue
            chunk = sums[from_s].get(stream.stream_id, Tally())
            if chunk.n < _CHUNK_LEAST and to_s - from_s < _CHUNK_MOST * self._chunk_s:
                continue
            states[stream.stream_id] = replace(state, chunk_from_s=to_s)
            if chunk.n >= _CHUNK_LEAST:
                span = ReferenceSpan(from_s, to_s)
                reference = self._references.of(stream, span, by_hour=state.by_hour).tally
                if reference.n < LEAST_REFERENCE:
                    of_chunk = []
                else:
                    alpha = self._budget(stream) * (span.to_s - span.from_s) / _MONTH_S
                    of_chunk = [
                        DriftFinding(
                            **_whose(stream),
                            test=found.test,
                            from_s=span.from_s,
                            found_at=self._now,
                            mean_before=moments(reference).mean,
                            mean_after=moments(chunk).mean,
                            n=chunk.n,
                            p_value=found.p_value,
                        )
                        for found in chunk_tests(
                            reference, chunk, alpha=alpha, design_effect=state.design_effect
                        )
                        if found.worth_it and found.p_value <= alpha
                    ]
                findings += of_chunk
        return findings

    def _of_alarm(self, stream: Stream, alarm: Alarm) -> DriftFinding:
        onset = locate_onset(
            self._connection,
            stream,
            reference=self._references.of(stream, ReferenceSpan(alarm.at_s, alarm.at_s)).tally,
            from_s=max(alarm.from_s, alarm.at_s - 24 * self._chunk_s),
            to_s=alarm.at_s,
        )
        since = Tally()
        if onset is not None:
            from_s = int(onset.at.timestamp())
            sums = series(
                self._connection,
                [stream.stream_id],
                from_s=from_s,
                to_s=alarm.at_s,
                step_s=self._bucket_s,
            )
            since = sum(sums.get(stream.stream_id, {}).values(), start=since)
        mean = since.sum_x / since.n if since.n else math.nan
        return DriftFinding(
            **_whose(stream),
            test=alarm.test,
            from_s=alarm.at_s,
            found_at=self._now,
            mean_before=alarm.baseline.mean,
            mean_after=alarm.baseline.mean if math.isnan(mean) else mean,
            n=since.n,
            level=alarm.level,
            threshold=threshold(self._bucket_s, self._budget(stream)),
            onset=onset.at if onset else None,
            onset_low=onset.low if onset else None,
            onset_high=onset.high if onset else None,
        )


def _whose(stream: Stream) -> dict[str, str]:
    return {
        "app": stream.key.app,
        "metric": stream.key.metric,
        "segment": stream.key.segment,
    }
