"""
Judge old samples again, to tell a judge that changed from an app that did.

A steady drip, at most one call in twenty, finds slow silent changes. A burst, once for each change
of a status, says whose it is before anybody is notified: `hold_for_judge` keeps alerts about the
app waiting meanwhile, and for as long as the change is the judge's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random

import redis
import structlog
from sqlalchemy import Connection

from monitor.errors import GroundwatchError
from monitor.format import points
from monitor.models import ROOT, Evaluation, Status, Verdict
from monitor.rolling.tallies import tally_of
from monitor.scoring.pipeline import MetricPipeline
from monitor.scoring.registry import make_scorer
from monitor.settings import Settings
from monitor.stats.judge_shift import Cause, attribute_shift
from monitor.store.agreement import (
    JudgedStream,
    JudgeRecheckState,
    OldSample,
    StoredAttribution,
    VerdictPair,
    calls_since,
    newest_verdicts,
    old_samples,
    read_attributions,
    read_judge,
    save_attribution,
    save_judge,
    save_pairs,
)
from monitor.store.engine import Lease, Store, database_now, fence
from monitor.store.query import active_streams, window_tallies
from monitor.store.verdicts import read_verdicts

EVERY_S = 15.0
#: Of the judge's calls of a day, this share goes to old samples.
_DRIP_SHARE = 0.05
_DRIP_AT_ONCE = 5
_DAY = timedelta(days=1)
#: Old samples judged again for one change of a status, and verdicts since it; fewer say little.
_BURST, _LEAST = 150, 50
#: Alerts wait for a burst no longer than this.
_WAIT = timedelta(minutes=10)
_BAD = frozenset({Status.WARNING, Status.CRITICAL})

log = structlog.get_logger("groundwatch.scheduler")


@dataclass(slots=True)
class JudgeRecheck:
    """Runs under the scheduler's lease, on its thread for slow jobs; needs a judge."""

    store: Store
    settings: Settings
    client: redis.Redis | None
    rng: Random = field(default_factory=Random)

    def run(self, lease: Lease) -> None:
        """
        Do what is due: the burst of a status that has just turned, else the drip.

        The drip judges a few old samples of one app again, within the share of calls.
        """
        with self.store.read() as connection:
            now = database_now(connection)
            turned = waiting(connection, self.settings, now)
        if turned:
            self._burst(lease, turned[0], now)
            return
        cascade = self.settings.scorer == "cascade"
        settled = now - timedelta(seconds=self.settings.windows.status_window_s)
        with self.store.read() as connection:
            judged: dict[JudgedStream, int] = {}
            day_s = int((now - _DAY).timestamp())
            tallies = window_tallies(connection, from_s=day_s)
            # Of several versions the newest: another judge would tell nothing of the one before.
            streams = active_streams(connection, since_s=day_s)
            newest = {each.key[:3]: each for each in sorted(streams, key=lambda s: s.stream_id)}
            for (app, metric, segment), each in newest.items():
                if segment == ROOT and (tally := tallies.get(each.stream_id)) is not None:
                    n = tally.judged if cascade else tally.n
                    judged[JudgedStream(app, metric, each.key.evaluator_version)] = n
            by_app: dict[str, int] = {}
            for key, n in judged.items():  # one call judges all metrics of a sample
                by_app[key.app] = max(n, by_app.get(key.app, 0))
            room = _DRIP_SHARE * sum(by_app.values()) - calls_since(
                connection, now - _DAY, purpose="drip"
            )
            if room < 1 or not any(judged.values()):
                return
            (stream,) = self.rng.choices([*judged], [*judged.values()])
            state = read_judge(connection, stream.metric, stream.evaluator_version)
            found = old_samples(
                connection, stream, before=settled, since=state.found_at,
                n=min(_DRIP_AT_ONCE, int(room)), rng=self.rng, cascade=cascade,
            )  # fmt: skip
        pairs = self._judged_again(stream, found)
        if pairs:
            with self.store.write() as connection:
                fence(connection, lease)
                self._learn(connection, stream, pairs, "drip", now)

    def _burst(self, lease: Lease, verdict: Verdict, now: datetime) -> None:
        """Say whose a change of status is."""
        stream = JudgedStream(verdict.app, verdict.metric, verdict.evaluator_version)
        changed_at = verdict.onset or verdict.since
        cascade = self.settings.scorer == "cascade"
        with self.store.read() as connection:
            found = old_samples(
                connection, stream, before=changed_at, since=None, n=_BURST, rng=self.rng,
                cascade=cascade,
            )  # fmt: skip
            after = newest_verdicts(connection, stream, since=changed_at, n=_BURST, cascade=cascade)
        pairs = self._judged_again(stream, found) if len(found) >= _LEAST <= len(after) else []
        cause, judge_change, app_change = Cause.UNCLEAR, 0.0, 0.0
        if len(pairs) >= _LEAST:
            whose = attribute_shift([p.first for p in pairs], [p.second for p in pairs], after)
            cause, judge_change, app_change = whose.cause, whose.judge.change, whose.app.change
        made = StoredAttribution(
            status_since=verdict.status_since, cause=cause, judge_change=judge_change,
            app_change=app_change, pairs=len(pairs), after=len(after), made_at=now,
        )  # fmt: skip
        with self.store.write() as connection:
            fence(connection, lease)
            save_attribution(connection, stream, made)
            self._learn(connection, stream, pairs, "burst", now)
        log.info(
            "change_attributed", app=stream.app, metric=stream.metric, cause=cause.value,
            judge_change=judge_change, app_change=app_change, pairs=len(pairs),
        )  # fmt: skip

    def _judged_again(self, stream: JudgedStream, found: Sequence[OldSample]) -> list[VerdictPair]:
        """Ask the judge about samples; those that it cannot judge now are left out."""
        pairs = []
        limits = self.settings.judge_limits
        with (
            closing(judge_again(self.settings, self.client, metric=stream.metric)) as judge,
            ThreadPoolExecutor(limits.judge_concurrency, "groundwatch-recheck") as pool,
        ):
            calls = [(old, pool.submit(judge.score, old.interaction)) for old in found]
            for old, call in calls:
                try:
                    evaluations = call.result()
                except GroundwatchError as error:  # no budget left, or it is away
                    log.info("recheck_stopped", error=type(error).__name__, message=str(error))
                    for _, rest in calls:
                        rest.cancel()
                    break
                second = passes(evaluations, self.settings.pass_score).get(stream.metric)
                if second is not None:
                    noted = (evaluations[0].metadata or {}) if evaluations else {}
                    pair = VerdictPair(
                        sample_id=old.sample_id, stream=stream, first=old.first, second=second,
                        model=str(noted.get("model") or ""),
                    )  # fmt: skip
                    pairs.append(pair)
        return pairs

    def _learn(
        self,
        connection: Connection,
        stream: JudgedStream,
        pairs: Sequence[VerdictPair],
        purpose: str,
        now: datetime,
    ) -> None:
        save_pairs(connection, pairs, purpose=purpose, now=now)
        before = read_judge(connection, stream.metric, stream.evaluator_version)
        evidence = before.evidence.add([(pair.first, pair.second) for pair in pairs])
        state = before.model_copy(update={"evidence": evidence})
        if evidence.found:
            # From here on today's judge is the anchor.
            state = JudgeRecheckState(found_at=now, shift=evidence.shift, pairs=evidence.pairs)
            log.warning(
                "judge_moved", metric=stream.metric, evaluator_version=stream.evaluator_version,
                shift=evidence.shift, pairs=evidence.pairs,
            )  # fmt: skip
        save_judge(connection, stream.metric, stream.evaluator_version, state)


def waiting(connection: Connection, settings: Settings, now: datetime) -> list[Verdict]:
    """List the statuses that have just turned bad, and whose change nobody has attributed yet."""
    known = read_attributions(connection)
    window_s = settings.windows.status_window_s
    return [
        verdict
        for verdict in read_verdicts(connection).values()
        if verdict.segment == ROOT
        and verdict.window_s == window_s
        and verdict.status in _BAD
        and now - verdict.status_since < _WAIT
        and _attribution(known, verdict) is None
    ]


def hold_for_judge(
    connection: Connection, verdicts: Sequence[Verdict], now: datetime
) -> list[Verdict]:
    """
    Return verdicts as alerts are to see them: a change that may be the judge's own is not news.

    Statuses stay what they are. An alert that fires already goes on.
    """
    known, held = read_attributions(connection), {}
    for v in verdicts:
        if v.segment != ROOT or v.status not in _BAD:
            continue
        found = _attribution(known, v)
        if found is None and now - v.status_since < _WAIT:
            held[v.app, v.metric] = "old samples are judged again, to see whether the judge changed"
        elif found is not None and found.cause is Cause.JUDGE:
            moved = f"the judge moved by {points(found.judge_change)} on {found.pairs} old samples"
            held[v.app, v.metric] = f"{moved}, not the app"
    return [
        v.model_copy(update={"status": Status.INSUFFICIENT_DATA, "reason": held[v.app, v.metric]})
        if (v.app, v.metric) in held and v.status in _BAD
        else v
        for v in verdicts
    ]


def _attribution(
    known: dict[JudgedStream, StoredAttribution], verdict: Verdict
) -> StoredAttribution | None:
    found = known.get(JudgedStream(verdict.app, verdict.metric, verdict.evaluator_version))
    return found if found and found.status_since >= verdict.status_since else None


def judge_again(
    settings: Settings, client: redis.Redis | None, *, metric: str | None = None
) -> MetricPipeline:
    """
    Make the judge of the settings, under the shared budget, without kept verdicts.

    A cached verdict would say what the judge said before. For one metric, or for all that the
    settings name; no endpoint is contacted yet. Raise SettingsError if the judge lacks its key or
    its model, or the metric is unknown.
    """
    limits = settings.judge_limits.model_copy(update={"verdict_cache_s": 0})
    changed: dict[str, object] = {"scorer": "judge", "judge_limits": limits}
    if metric is not None:
        changed["metrics"] = (metric,)
    return make_scorer(settings.model_copy(update=changed), client=client, once=True)


def passes(evaluations: Iterable[Evaluation], pass_score: float) -> Mapping[str, bool]:
    """Return which evaluations pass, by metric; one without a verdict is left out."""
    found = {}
    for evaluation in evaluations:
        tally = tally_of(evaluation, sample_rate=1.0, pass_score=pass_score)
        if tally.n:
            found[evaluation.evaluator_name] = bool(tally.passed)
    return found
