"""
Levels that labels verify: which streams have one, and the verdicts that follow.

`Levels.read` learns an evaluator's error rates from the labels of the present release, again at set
numbers of labels only; `Levels.apply` turns the finding of a stream into one about its level.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, NamedTuple

from sqlalchemy import Connection, Row, case, select

from monitor.models import AppLevel, Status, StreamKey, Tally
from monitor.models.evaluation import OWN
from monitor.models.status import score_bin
from monitor.rolling.evidence_state import ALARMED, EvidenceState
from monitor.rolling.level import (
    BucketPasses,
    LevelEvidence,
    VerifiedLevel,
    as_levels,
    described,
    translated,
    worse_of,
)
from monitor.rolling.policies import Rules, Thresholds
from monitor.rolling.tallies import WindowStats, window_stats
from monitor.rolling.verdicts import EvidenceFinding, evidence_finding
from monitor.stats.agreement import (
    confusion,
    count_bands,
    learn,
    learn_lines,
    majority,
    renewed_at,
)
from monitor.stats.intervals import answered_probability
from monitor.store.columns import record_of
from monitor.store.query import (
    Stream,
    passes_from_bins,
    read_level_lines,
    window_tallies,
)
from monitor.store.tables import evaluations, labels, samples
from monitor.store.verdicts import read_release_marks

#: So many of the newest samples tell the present release.
_PRESENT: Final = 50
#: Labels that verify a level at first, and those that do so after a change of the release.
FIRST_LABELS, NEW_LABELS = 50, 30
#: A level expires so long after the last label that it is based on.
_EXPIRES: Final = timedelta(days=90)
#: In seconds: so often labels are read.
_FRESH_S: Final = 10.0
#: In seconds: evidence at the lines of the level begins so far back.
_REPLAYED_S: Final = 2 * 86_400
#: How versions of evaluators begin that no judge makes: the local scorer, and plain formulas.
_LOCAL: Final = "local-"
_FORMULAS: Final = ("computed-", "combined-", "screen-", "unasked-")

#: What a level needs whose evaluator labels found to be blind.
UNFIT: Final = "labels say that this evaluator does not tell good answers from bad ones here"

LevelOf = VerifiedLevel | AppLevel | None


class PlainEvidence(NamedTuple):
    """What a stream's own pass rate came to, and from what."""

    finding: EvidenceFinding
    window: WindowStats
    rules: Rules
    state: EvidenceState


class _Learnt(NamedTuple):
    """What the labels were from which a level was learnt, and the level."""

    basis: tuple[object, ...]
    level: VerifiedLevel | None  #: None: it does not tell good answers from bad ones


class DrawnLabel(NamedTuple):
    """What people say of a sample that was drawn at random, beside what its evaluator said."""

    score: float
    passed: bool
    good: bool
    release: str
    occurred_s: float
    labelled_s: float
    weight: float = 1.0  #: of a cascade, the inverse probability with which its judge answered


@dataclass(slots=True)
class Levels:
    """The levels of all streams, kept between evaluations; made again from what is stored."""

    thresholds: Thresholds
    bucket_s: int
    _read_s: float = -math.inf
    _labels: Mapping[tuple[str, str, str], list[DrawnLabel]] = field(default_factory=dict)
    _learnt: dict[StreamKey, _Learnt] = field(default_factory=dict)
    _evidence: dict[StreamKey, tuple[VerifiedLevel, list[LevelEvidence]]] = field(
        default_factory=dict
    )

    def read(
        self, connection: Connection, streams: Sequence[Stream], now: datetime
    ) -> dict[StreamKey, LevelOf]:
        """
        Return for each stream what labels taught, or what its level still needs.

        None of plain formulas: what they compute is not an estimate of anything else.
        """
        if not 0 <= now.timestamp() - self._read_s < _FRESH_S:
            self._labels = drawn_labels(connection, since=now - _EXPIRES - _EXPIRES)
            self._read_s = now.timestamp()
        return {stream.key: self._of(connection, stream, now) for stream in streams}

    def _of(self, connection: Connection, stream: Stream, now: datetime) -> LevelOf:
        app, metric, _, version = stream.key
        if version.startswith(_FORMULAS):
            return None
        judge: Literal["judge"] | None = None if version.startswith(_LOCAL) else "judge"
        every = self._labels.get((app, metric, version), [])
        if not every:
            needs = f"label {FIRST_LABELS} answers, or ask a judge"
            return AppLevel(verified=judge is not None, by=judge, needs="" if judge else needs)
        release = present_release(connection, app)
        mine = [label for label in every if label.release == release]
        deploys = [
            mark
            for mark in read_release_marks(connection, app=app)
            if mark.release not in {"", release}
        ]
        changed_s = max((mark.at.timestamp() for mark in deploys), default=0.0)
        if not release:  # samples do not name theirs, so a deploy is what tells a new one
            mine = [label for label in mine if label.labelled_s > changed_s]
        enough = NEW_LABELS if len(every) > len(mine) else FIRST_LABELS
        used = mine[: renewed_at(len(mine))]
        unverified = AppLevel(
            verified=judge is not None, by=judge, n_labels=len(mine), release=release
        )
        if len(mine) < enough:
            what = "label" if enough == FIRST_LABELS else f"release {release or 'new'}: label"
            needs = f"{what} {enough} answers ({len(mine)} so far)"
            return unverified.model_copy(update={"needs": needs})
        until = datetime.fromtimestamp(used[-1].labelled_s, UTC) + _EXPIRES
        if now >= until:
            needs = f"labels are older than {_EXPIRES.days} days: label {NEW_LABELS} answers"
            return unverified.model_copy(update={"needs": needs})
        level = self._verified(connection, stream, used, release, until)
        if level is None:
            return unverified.model_copy(update={"needs": UNFIT, "verified": False, "by": None})
        return level

    def _verified(
        self,
        connection: Connection,
        stream: Stream,
        labels: Sequence[DrawnLabel],
        release: str,
        until: datetime,
    ) -> VerifiedLevel | None:
        """Learn the error rates; only if the labels, or the line that they teach, are others."""
        key = stream.key
        lines: tuple[int, ...] = ()
        if key.evaluator_version.endswith(OWN):
            lines = read_level_lines(connection, (key.app, key.metric, key.evaluator_version))
            if not lines:
                return None
        said = [(score_bin(label.score), label.good) for label in labels]
        weights = [label.weight for label in labels]
        counts = confusion(
            ((label.passed, label.good) for label in labels),
            weights if len(set(weights)) > 1 else None,
        )
        basis = (counts, sorted(said), release, lines, until)
        known = self._learnt.get(key)
        if known is None or known.basis != basis:
            # The passes, and all verdicts, of the time from which the labels were drawn.
            width, times_s = self.bucket_s, [int(label.occurred_s) for label in labels]
            tally = window_tallies(
                connection, from_s=min(times_s) // width * width,
                to_s=max(times_s) // width * width + width, app=key.app,
            ).get(stream.stream_id, Tally())  # fmt: skip
            scored = tally.n
            if lines:
                at_lines = learn_lines(count_bands(lines, tally.histogram, said))
            else:
                passed = (window_stats(tally).pass_rate or 0.0) * scored
                at_lines = [learn(counts, passed=passed, scored=scored, n_labels=len(labels))]
            level = VerifiedLevel(
                rates=at_lines[0], n_labels=len(labels), release=release, until=until,
                scored=scored, last_s=max(label.occurred_s for label in labels),
                lines=tuple(zip(lines, at_lines, strict=False)),
            )  # fmt: skip
            # A judge that does not tell is none; a local scorer's interval says so by itself.
            unfit = not lines and at_lines[0].tells() is False
            known = self._learnt[key] = _Learnt(basis, None if unfit else level)
        return known.level

    def apply(
        self,
        connection: Connection,
        stream: Stream,
        verified: VerifiedLevel,
        by_line: PlainEvidence,
        now: datetime,
    ) -> tuple[EvidenceFinding, AppLevel]:
        """Return the finding about the level, and what a verdict says of how it is known."""
        found, rules = by_line.finding, by_line.rules
        if not verified.lines:
            return as_levels(found, verified, self.thresholds), described(verified, found, rules)
        # Evidence at the lines of the level, which share the budget; other labels restart it.
        now_s = now.timestamp()
        known, evidence = self._evidence.get(stream.key, (None, []))
        from_s = int(now_s - _REPLAYED_S) // self.bucket_s * self.bucket_s
        if known is not verified:
            evidence = [LevelEvidence(EvidenceState.fresh(from_s)) for _ in verified.lines]
        elif evidence[0].newest:
            from_s = evidence[0].newest.start_s
        positions = [position for position, _ in verified.lines]
        rows = passes_from_bins(connection, stream.stream_id, positions, from_s=from_s)
        budget = rules.false_alarms_per_month / len(verified.lines)
        plain = replace(rules, use_reference=False, false_alarms_per_month=budget)
        levels = []
        for i, (_, rates) in enumerate(verified.lines):
            own_rules = translated(plain, rates)
            news = [BucketPasses(start_s, n, passed[i]) for start_s, n, passed in rows]
            evidence[i] = evidence[i].after(news, now_s, own_rules, by_line.state.baseline)
            own = evidence_finding(evidence[i].state, by_line.window, own_rules)
            of_line = replace(verified, rates=rates)
            levels.append(as_levels(own, of_line, self.thresholds, worst=Status.WARNING))
        self._evidence[stream.key] = (verified, evidence)
        alarmed = [level for level in levels if level.status in ALARMED]
        return worse_of(found, (alarmed or levels)[0]), described(verified, found, rules)


def drawn_labels(
    connection: Connection, *, since: datetime
) -> dict[tuple[str, str, str], list[DrawnLabel]]:
    """
    Read the majority's labels since *since* by app, metric and evaluator version, the oldest first.

    Of samples drawn at random whose evaluation is still there; of a cascade, of those that its
    judge was asked about, which weigh the more the less likely that was.
    """
    c, e = labels.c, evaluations.c
    same = (c.sample_id == e.sample_id) & (c.metric == e.metric)
    recent = select(c.sample_id).where(c.drawn == 1, c.labelled_at >= since)
    query = (
        select(
            labels,
            e.score,
            e.occurred_at_ms,
            e.judged.label("asked"),
            case((e.judged == 1, samples.c.payload)).label("payload"),
        )
        .join(samples, samples.c.sample_id == c.sample_id)
        .join(evaluations, same & (c.evaluator_version == e.evaluator_version))
        .where(e.score.is_not(None), c.sample_id.in_(recent))
        .order_by(c.labelled_at, c.sample_id)
    )
    by_sample: dict[tuple[str, ...], list[Row[Any]]] = defaultdict(list)
    for row in connection.execute(query):
        if row.asked != 0:
            by_sample[row.app, row.metric, row.evaluator_version, row.sample_id].append(row)
    found: dict[tuple[str, str, str], list[DrawnLabel]] = defaultdict(list)
    for (app, metric, version, _), rows in by_sample.items():
        passes = sum(row.human_passed for row in rows)
        good = majority(passes, len(rows) - passes)
        if good is not None and any(row.drawn for row in rows):
            first, last = rows[0], rows[-1]
            noted = (record_of(first).get("metadata") or {}) if first.asked else {}
            probability = answered_probability(
                noted.get("judge_probability", 1.0), noted.get("answered_share", 1.0)
            )
            found[app, metric, version].append(
                DrawnLabel(
                    first.score, bool(first.judge_passed), good, first.release,
                    first.occurred_at_ms / 1000, last.labelled_at.timestamp(), 1.0 / probability,
                )
            )  # fmt: skip
    for many in found.values():
        many.sort(key=lambda label: label.labelled_s)
    return dict(found)


def present_release(connection: Connection, app: str) -> str:
    """Return the release that most of an app's newest samples are of; empty if they name none."""
    query = select(samples.c.release).where(samples.c.app == app)
    newest = connection.execute(query.order_by(samples.c.occurred_at_ms.desc()).limit(_PRESENT))
    counts = Counter(of or "" for of in newest.scalars())
    return counts.most_common(1)[0][0] if counts else ""
