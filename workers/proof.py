"""
Prove every night how soon falls are found: plant them in a copy of each stream's last day.

The copy begins without evidence but with the stream's baseline, two hours before the first fall,
and goes through the code that decides live. A fall of N points of the app's level is one of
N (hit - miss) points of the evaluator's pass rate, where labels tell its error rates.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from zlib import crc32

import numpy as np
from sqlalchemy import Connection

from monitor.format import duration, percent, utc_time
from monitor.models import Status
from monitor.models.insight import DetectionProof
from monitor.rolling.backtesting import planted_delays_s
from monitor.rolling.evidence_state import EvidenceState, from_json
from monitor.rolling.level import VerifiedLevel, translated
from monitor.rolling.looks import Looks, looks_of, weighted_looks
from monitor.rolling.policies import (
    EvidencePolicy,
    Rules,
    budget_keys,
    find_policy,
    policies_of,
    rules_of,
)
from monitor.settings import Settings
from monitor.settings.tables import Objective
from monitor.store.engine import Lease, Store, fence
from monitor.store.query import Stream, active_streams, shared_values
from monitor.store.verdicts import read_proofs, read_states, save_proofs
from workers.backtest import ScoreHistory, read_history, read_samples
from workers.level import UNFIT, LevelOf, Levels

#: In seconds: how often it is looked what is due, and the share of that which may be computed.
EVERY_S: Final = 600.0
_MOST_CPU: Final = 0.01
#: Hour (UTC) from which a proof is due again.
_HOUR: Final = 3
_FALLS: Final = 48
_DAY_S, _LEAD_S = 86_400, 7_200
#: Falls are followed for so many times the objective.
_HORIZON: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofJob:
    """Tests each objective once a night, and one that is new at once."""

    store: Store
    settings: Settings

    def run(self, lease: Lease, *, now: datetime) -> list[DetectionProof]:
        """Make the proofs that are due, for a hundredth of a processor; return them."""
        objectives = self.settings.status_rules.objectives
        with self.store.read() as connection:
            known = read_proofs(connection)
            if not objectives and not known:
                return []
            streams = active_streams(connection, since_s=now.timestamp() - _DAY_S)
            # What each app and metric is to meet: the first objective that fits.
            wanted: dict[tuple[str, str], tuple[Objective, Stream | None]] = {}
            left = list(objectives)
            for stream in streams:
                app, metric, *_ = stream.key
                for objective in objectives:
                    if objective.app in (None, app) and objective.metric in (None, metric):
                        wanted[app, metric] = objective, stream
                        left = [other for other in left if other is not objective]
                        break
            for objective in left:  # of apps that are silent
                if objective.app is not None:
                    wanted.setdefault((objective.app, objective.metric or ""), (objective, None))
            night = now.replace(hour=_HOUR, minute=0, second=0, microsecond=0)
            night -= timedelta(days=night > now)
            due = {
                key: of
                for key, of in wanted.items()
                if (before := known.get(key)) is None
                or before.met is None
                or before.made_at < night
                or before.objective != of[0].detect
            }
            found = self._prove(connection, due, streams, now) if due else []
        # A stream in an incident is tested when it has recovered; until then the last proof holds.
        new = [
            proof
            for proof in found
            if proof.met is not None or (proof.app, proof.metric) not in known
        ]
        gone = known.keys() - wanted.keys()
        if new or gone:
            with self.store.write() as connection:
                fence(connection, lease)
                save_proofs(connection, new, gone=gone)
        return new

    def _prove(
        self,
        connection: Connection,
        due: Mapping[tuple[str, str], tuple[Objective, Stream | None]],
        streams: Sequence[Stream],
        now: datetime,
    ) -> list[DetectionProof]:
        shared = shared_values(connection, since_s=now.timestamp() - _DAY_S)
        keys = budget_keys((each.key for each in streams), shared)
        usual = rules_of(self.settings, keys=keys)
        levels = Levels(thresholds=usual, bucket_s=usual.bucket_s)
        level_of = levels.read(connection, [s for _, s in due.values() if s is not None], now)
        states, policies = read_states(connection), policies_of(self.settings)
        found: list[DetectionProof] = []
        end_s = time.thread_time() + _MOST_CPU * EVERY_S
        for (app, metric), (objective, stream) in due.items():
            if found and time.thread_time() >= end_s:
                break  # the rest in ten minutes
            proof = DetectionProof(
                app=app, metric=metric, made_at=now, objective=objective.detect,
                within_s=objective.within_s, met=False, reason="no scores in the last day",
            )  # fmt: skip
            if stream is not None:
                policy = find_policy(policies.of(app, metric))
                stored = states.get(stream.stream_id)
                state = from_json(stored["memory"]) if stored else None
                figures: dict[str, Any] = {"met": None}
                if not isinstance(policy, EvidencePolicy):
                    figures["reason"] = "only the policies that collect evidence can be tested"
                elif state is None:
                    figures["reason"] = "its evidence begins"
                elif state.alarmed:
                    figures["reason"] = f"it is {state.status.value}: tested when it has recovered"
                else:
                    figures = self._planted(
                        connection, stream, objective, state, usual, level_of[stream.key], now
                    )
                proof = proof.model_copy(update=figures)
            found.append(proof)
        return found

    def _planted(
        self,
        connection: Connection,
        stream: Stream,
        objective: Objective,
        state: EvidenceState,
        rules: Rules,
        level: LevelOf,
        now: datetime,
    ) -> dict[str, Any]:
        """Plant the falls of one stream; return the figures of its proof."""
        now_s, within_s, fall = int(now.timestamp()), objective.within_s, objective.fall
        visible = 1.0
        if isinstance(level, VerifiedLevel) and not level.lines:
            rules = translated(rules, level.rates)
            visible = max(float(np.mean(level.rates.hit - level.rates.miss)), 0.0)
        elif level is not None and not isinstance(level, VerifiedLevel) and level.needs == UNFIT:
            visible = 0.0
        from_s = now_s - within_s - _DAY_S - _LEAD_S
        history = read_history(
            connection, stream.stream_id, from_s=from_s, to_s=now_s, bucket_s=rules.bucket_s
        )
        if not history.times_s.size:
            return {}
        rate = state.usual_rate
        begun = EvidenceState.fresh(from_s).but(
            status=Status.HEALTHY, baseline=state.baseline, n_day=state.n_day
        )
        onsets_s = np.linspace(from_s + _LEAD_S, now_s - within_s, _FALLS, endpoint=False)
        delays = planted_delays_s(
            self._looks(connection, stream, history, state, from_s, now_s), begun, rules,
            share=min(fall * visible / max(rate, 1e-9), 1.0), onsets_s=onsets_s,
            horizon_s=_HORIZON * within_s, seed=crc32(repr((*stream.key, now_s)).encode()),
        )  # fmt: skip
        delays = delays[~np.isnan(delays)]
        if not delays.size:
            return {"met": None, "reason": "it was in an incident all day"}
        found = int((delays <= within_s).sum())
        median_s = float(np.quantile(delays, 0.5, method="higher"))
        per_hour = float(history.buckets().n.sum()) / ((now_s - from_s) / 3600)
        missed = 2 * found < delays.size
        points, after = f"{100 * fall:g} points", rate - fall * visible
        allowed, budget = objective.false_alarms_per_month, self.settings.false_alarms_per_month
        reason = ""
        if missed and visible < 1.0 and rate - fall < rules.warning_rate <= after:
            reason = f"by its labels, the evaluator shows {100 * fall * visible:.1f} of {points}"
        elif missed and after >= rules.warning_rate:
            reason = (
                f"a fall of {points} from {percent(rate)} stays above the warning threshold of"
                f" {percent(rules.warning_rate)}"
            )
        elif missed and now_s - history.ends_s[-1] > within_s:
            last = datetime.fromtimestamp(float(history.ends_s[-1]), UTC)
            reason = f"no scores since {utc_time(last)}"
        elif missed:
            reason = (
                f"{per_hour:,.1f} scores an hour are too few to find it in {duration(within_s)}"
            )
        elif allowed is not None and budget > allowed:
            missed = True
            reason = f"the budget allows {budget:g} false alarms a month, the objective {allowed:g}"
        return {
            "met": not missed, "reason": reason, "planted": int(delays.size), "found": found,
            "median_s": median_s if np.isfinite(median_s) else None, "scores_per_hour": per_hour,
        }  # fmt: skip

    def _looks(
        self, connection: Connection, stream: Stream, history: ScoreHistory, state: EvidenceState,
        from_s: int, to_s: int,
    ) -> Looks:  # fmt: skip
        """Return looks at what is stored: one by one where sums do not determine payoffs."""
        samples = read_samples(connection, stream.key, history, from_s=from_s, end_s=to_s)
        if samples:
            every_s = self.settings.evaluate_every_s
            times_s = np.ceil(np.array([sample.at_s for sample in samples]) / every_s) * every_s
            return looks_of(samples, np.maximum.accumulate(times_s).tolist(), state.baseline)
        sums = history.buckets()
        return weighted_looks(
            history.ends_s - 0.001, sums.n, sums.sum_w, sums.sum_w2, sums.sum_wy, state.baseline
        )
