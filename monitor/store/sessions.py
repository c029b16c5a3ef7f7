"""The scores of a session: its worst turn, and whether its last turn is good again."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, select

from monitor.models.passing import Direction, PassRule
from monitor.store.tables import evaluations, samples

#: Turns of one session that are read, the latest: a session id that never changes costs no more.
MOST_TURNS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionScore:
    """
    What one metric says of a conversation, from the evaluations of its sampled turns.

    ``worst`` is the score of the worst turn, which *worst_sample_id* is. ``resolved`` says
    whether the last turn with a verdict passes; None where no turn has one.
    """

    metric: str
    turns: int  #: sampled, with a score
    failed: int
    worst: float
    worst_sample_id: str
    resolved: bool | None


def session_scores(connection: Connection, *, app: str, session_id: str) -> list[SessionScore]:
    """
    Return the scores of one session of *app* by metric, in the order of their names.

    Found by an index, however long the history; of a longer session the latest 200 turns count.
    Where a turn was scored by several versions of an evaluator each of its scores counts.
    """
    turns = (
        select(samples.c.sample_id)
        .where(samples.c.session_id == session_id[:200], samples.c.app == app)
        .order_by(samples.c.occurred_at_ms.desc(), samples.c.sample_id.desc())
        .limit(MOST_TURNS)
    ).subquery()
    query = (
        select(
            evaluations.c.metric,
            evaluations.c.evaluator_version,
            evaluations.c.sample_id,
            evaluations.c.score,
            evaluations.c.passed,
        )
        .join(turns, turns.c.sample_id == evaluations.c.sample_id)
        .where(evaluations.c.score.is_not(None))
        .order_by(evaluations.c.occurred_at_ms, evaluations.c.sample_id)
    )
    found: dict[str, SessionScore] = {}
    for metric, version, sample_id, score, passed in connection.execute(query):
        rule = PassRule.read(version)
        sign = -1 if rule is not None and rule.direction is Direction.LOWER else 1
        before = found.get(metric)
        is_worst = before is None or sign * score < sign * before.worst
        verdict = None if passed is None else bool(passed)
        found[metric] = SessionScore(
            metric=metric,
            turns=1 + (before.turns if before else 0),
            failed=(verdict is False) + (before.failed if before else 0),
            worst=score if before is None or is_worst else before.worst,
            worst_sample_id=sample_id if before is None or is_worst else before.worst_sample_id,
            resolved=before.resolved if before and verdict is None else verdict,
        )
    return [found[name] for name in sorted(found)]
