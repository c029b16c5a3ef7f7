"""Where the steps join: an entry of the queue becomes rows in the store."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Self

from monitor.errors import RecordError
from monitor.models import Evaluation, Sample, ScoredSample, Tally
from monitor.models.interaction import without_texts
from monitor.models.segments import places_of
from monitor.queue import names
from monitor.queue.census import sample_id_of
from monitor.queue.consumer import Entry
from monitor.queue.wire import decode
from monitor.rolling.inputs import fingerprint
from monitor.rolling.tallies import bucket_start, stream_key, tally_of
from monitor.scoring.base import ScoresSamples
from monitor.store.engine import Store
from monitor.store.write import Contribution, DeadLetter, Result, record

#: The first time an entry is in work with others, any of which may have killed the worker; after
#: that it is alone. So one that never came back from so many hands killed its worker twice.
MAX_DELIVERIES = 3
#: Why samples expire.
TOO_OLD = "too_old"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What turns evaluations into contributions."""

    pass_score: float
    bucket_s: int
    dimensions: tuple[str, ...] = ()
    settle_s: int = 600
    news_s: int = 3600  #: what is older than the status window is no news of now
    behind_after_s: float = 300.0  #: what waits for longer makes way for what is new
    expire_after_s: float = 0.0  #: what has waited so long is of no use any more; 0: never


@dataclass(frozen=True, slots=True)
class Dead:
    """An entry that can never be scored, and why."""

    entry: Entry
    reason: str
    detail: str
    sample_id: str | None = None  #: where it can be read at all

    @classmethod
    def unreadable(cls, entry: Entry, error: RecordError) -> Self:
        """Say why an entry cannot be read."""
        return cls(entry, error.code, str(error), sample_id_of(entry.fields))


def score_entry(
    entry: Entry, scorer: ScoresSamples, rules: Rules, *, now: datetime, waited_s: float = 0.0
) -> Result | Dead:
    """
    Read and score one entry; whatever is wrong with it becomes a result, not an exception.

    *waited_s* is how long it was in the queue, by the queue's own clock.

    Raises
    ------
    JudgeOutageError, QueueUnavailableError
        If it cannot be scored now, which is no fault of the entry.
    """
    try:
        sample = decode(entry.fields)
    except RecordError as error:
        return Dead.unreadable(entry, error)
    if entry.deliveries > MAX_DELIVERIES:
        detail = f"handed out {entry.deliveries - 1} times and never finished"
        return Dead(entry, "worker_died", detail, sample.sample_id)
    if 0 < rules.expire_after_s < waited_s:
        return expired(sample, rules, now=now)
    is_test = sample.interaction.app == names.DOCTOR_APP
    evaluations = () if is_test else scorer.score(sample.interaction, key=sample.sample_id)
    return result_of(sample, evaluations, rules, now=now)


def expired(sample: Sample, rules: Rules, *, now: datetime, reason: str = TOO_OLD) -> Result:
    """Give a sample up that nobody needs any more; it is counted, and its texts are not kept."""
    result = result_of(sample, (), rules, now=now)
    bare = without_texts(sample, reason)
    scored = ScoredSample(sample=bare, evaluations=(), expired_by=reason)
    return replace(result, scored=scored)


def result_of(
    sample: Sample, evaluations: Sequence[Evaluation], rules: Rules, *, now: datetime
) -> Result:
    """Work out what the evaluations of one sample add to which buckets."""
    interaction = sample.interaction
    # A clock that runs ahead must not fill buckets that are still to come.
    occurred_at_ms = math.floor(
        min(interaction.timestamp or sample.sampled_at, now).timestamp() * 1000
    )
    start_s = bucket_start(occurred_at_ms / 1000, rules.bucket_s)
    late = int(now.timestamp() > start_s + rules.bucket_s + rules.settle_s)
    return Result(
        scored=ScoredSample(sample=sample, evaluations=tuple(evaluations)),
        start_s=start_s,
        occurred_at_ms=occurred_at_ms,
        past=now.timestamp() - start_s > rules.news_s + rules.bucket_s,
        places=places_of(interaction, rules.dimensions) if evaluations else (),
        inputs=fingerprint(interaction) if evaluations else {},
        contributions=tuple(
            Contribution(
                evaluation=evaluation,
                stream=stream_key(interaction.app, evaluation, pass_score=rules.pass_score),
                start_s=start_s,
                tally=replace(_tally(sample, evaluation, rules), late=late),
            )
            for evaluation in evaluations
        ),
    )


def _tally(sample: Sample, evaluation: Evaluation, rules: Rules) -> Tally:
    return tally_of(evaluation, sample_rate=sample.sample_rate, pass_score=rules.pass_score)


def commit(store: Store, results: Sequence[Result | Dead], rules: Rules, *, now: datetime) -> int:
    """Write results in one transaction; return how many samples were new."""
    scored = [item for item in results if isinstance(item, Result)]
    dead = [_letter(item) for item in results if isinstance(item, Dead)]
    with store.write() as connection:
        return record(connection, scored, dead, now=now, bucket_s=rules.bucket_s)


def _letter(item: Dead) -> DeadLetter:
    app = item.entry.fields.get(names.FIELD_APP.encode(), b"unknown")
    return DeadLetter(
        entry_id=item.entry.entry_id,
        sample_id=item.sample_id,
        app=_text(app)[:200],
        reason=item.reason,
        detail=item.detail,
        body=item.entry.fields.get(names.FIELD_BODY.encode(), b""),
        version=_text(item.entry.fields.get(names.FIELD_VERSION.encode(), b"")),
    )


def _text(raw: bytes) -> str:
    """Read hostile bytes as text that every database takes."""
    return raw.decode("utf-8", "replace").replace("\0", "\ufffd")
