"""Keep what explains a status up to date: roll-ups, drift, segments, deploys, inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from sqlalchemy import Connection

from monitor.models import ROOT
from monitor.models.insight import AppInsight, DriftFinding, Insight
from monitor.rolling.input_drift import FEATURES, compare_inputs
from monitor.settings import Settings
from monitor.store.engine import Store
from monitor.store.insights import (
    forget_findings,
    read_findings,
    save_findings,
    save_insights,
    save_states,
)
from monitor.store.lease import Lease, fence
from monitor.store.query import Stream, active_streams
from monitor.store.rollup import BUCKETS, DAY_S, DAYS, HOURS, compact_inputs, read_inputs, roll_up
from monitor.store.verdicts import read_verdicts
from workers.drift_reference import References
from workers.drift_watch import SCORES_SHARE, DriftWatch, Watched
from workers.explain import StatusExplanation

_DAY = timedelta(days=1)
_MONTH_S = 30 * 86_400
#: Streams that counted nothing for so many buckets are not looked at.
_ACTIVE_BUCKETS = 48 * 60
_INPUT_BUCKETS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Explainer:
    """Explains every app and metric, about once a minute, under the scheduler's lease."""

    store: Store
    settings: Settings

    @property
    def every_s(self) -> float:
        """How often to run: once a bucket, and not much more often than statuses change."""
        return max(float(self.settings.windows.bucket_s), 10 * self.settings.evaluate_every_s)

    @property
    def keep_s(self) -> dict[str, float]:
        """How long each level of the sums is kept."""
        settings = self.settings
        days = {
            BUCKETS.name: settings.retention.keep_buckets_days,
            HOURS.name: settings.retention.keep_hours_days,
            DAYS.name: settings.retention.keep_days_days,
        }
        return {name: value * DAY_S for name, value in days.items()}

    def run(self, lease: Lease, *, now: datetime) -> list[DriftFinding]:
        """
        Look at everything as of *now*; return the drift that was found.

        Safe to repeat: what was taken in is remembered, and a finding has a key.
        """
        now_s = int(now.timestamp())
        guard = partial(fence, lease=lease)
        roll_up(
            self.store,
            now_s=now_s,
            settle_s=self.settings.windows.settle_s,
            keep_s=self.keep_s,
            guard=guard,
        )
        with self.store.read() as connection:
            since_s = now_s - _ACTIVE_BUCKETS * self.settings.windows.bucket_s
            streams = active_streams(
                connection, since_s=since_s, current_since_s=since_s, segment=None
            )
            references = References(connection, self.settings)
            watched = DriftWatch(connection, self.settings, references, streams, now_s).look()
            insights = self._insights(connection, references, streams, watched, now)
            apps = sorted({stream.key.app for stream in streams})
            of_apps = [self._inputs(connection, app, len(apps), now) for app in apps]
        with self.store.write() as connection:
            guard(connection)
            save_states(connection, watched.states)
            save_findings(connection, watched.findings)
            forget_findings(connection, now)
            save_insights(connection, insights, of_apps)
        compact_inputs(self.store, apps, now_s=now_s, guard=guard)
        return watched.findings

    def _insights(
        self,
        connection: Connection,
        references: References,
        streams: Sequence[Stream],
        watched: Watched,
        now: datetime,
    ) -> list[Insight]:
        explanation = StatusExplanation(
            connection=connection,
            settings=self.settings,
            references=references,
            names={stream.stream_id: stream for stream in streams},
            now_s=int(now.timestamp()),
            effects={key: state["design_effect"] for key, state in watched.states.items()},
            by_hour={key for key, state in watched.states.items() if state["by_hour"]},
        )
        verdicts = read_verdicts(connection)
        recent = [*read_findings(connection, since=now - _DAY), *watched.findings]
        found = []
        for stream in streams:
            if stream.key.segment != ROOT:
                continue
            key = (*stream.key[:3], self.settings.windows.status_window_s)
            mine = [item for item in recent if (item.app, item.metric) == stream.key[:2]]
            found.append(explanation.insight(stream, verdicts.get(key), mine))
        return found

    def _inputs(self, connection: Connection, app: str, n_apps: int, now: datetime) -> AppInsight:
        now_s, settings = int(now.timestamp()), self.settings
        start_s = now_s - max(
            settings.windows.status_window_s, _INPUT_BUCKETS * settings.windows.bucket_s
        )
        before = read_inputs(
            connection, app, from_s=start_s - settings.windows.reference_s, to_s=start_s
        )
        after = read_inputs(connection, app, from_s=start_s)
        # The union over all looks of a month, apps and features: no false move beyond the budget.
        looks = _MONTH_S / self.every_s * n_apps * len(FEATURES)
        alpha = settings.drift.drift_budget * (1 - SCORES_SHARE) / looks
        inputs = compare_inputs(before, after, alpha=alpha)
        return AppInsight(app=app, made_at=now, inputs=inputs)
