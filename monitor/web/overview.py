"""The overview page as values, and how they are read: one snapshot that many readers share."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property

from sqlalchemy import Connection

from alerts.queries import open_incidents, outbox_counts
from alerts.store import Ack, acknowledgements
from monitor.models import Incident, Status, Verdict
from monitor.report.model import SEVERITY, Report
from monitor.scoring.metrics import METRICS
from monitor.settings import Settings
from monitor.store.engine import Store
from monitor.store.ledger import Booking, read_between
from monitor.store.query import active_streams, cost_usd_since, series
from monitor.store.verdicts import StatusStep, read_steps
from monitor.web.time_range import SeriesPoint, TimeSeries, steps_of, strip, time_series
from workers.reports import read_status

_STEPS = 48
_CELLS, _WINDOWS_A_CELL = 28, 6
_READ_ALL_EVERY_S = 900.0
_COST_EVERY_S = 60.0
_SERVED_FOR_S = 2.0
Key = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One app and metric on the overview page."""

    verdict: Verdict
    series: TimeSeries
    cells: tuple[Status | None, ...]

    @property
    def change(self) -> float | None:
        """How far the pass rate lies above that of the reference, in [-1, 1]."""
        drift = self.verdict.drift
        if drift is None or drift.reference_pass_rate is None or self.verdict.pass_rate is None:
            return None
        return self.verdict.pass_rate - drift.reference_pass_rate


@dataclass(frozen=True, kw_only=True)
class PipelineState:
    """
    How the monitor itself does, over the last hour unless said otherwise.

    Readers of some apps do not see what concerns the whole fleet: ``is_whole`` is false for them.
    """

    by_app: Mapping[str, Mapping[Booking, int]] = field(default_factory=dict)
    waiting: int | None = None  #: in the queue; None when Redis does not answer
    oldest_s: float | None = None
    stalls: int | None = None  #: workers that ended themselves for want of progress, ever
    events: Mapping[str, int] = field(default_factory=dict)  #: of OpenTelemetry, by outcome, ever
    cost_today_usd: float | None = None
    cost_month_usd: float | None = None
    outbox: Mapping[str, int] = field(default_factory=dict)
    is_whole: bool = True

    @cached_property
    def counts(self) -> Mapping[str, int]:
        """Interactions and samples by what became of them."""
        found: Counter[str] = Counter()
        for booked in self.by_app.values():
            for (kind, _), n in booked.items():
                found[kind.value] += n
        return found

    def by_reason(self, kind: str) -> Mapping[str, int]:
        """Count what ended in one way, such as "failed", by reason."""
        found: Counter[str] = Counter()
        for booked in self.by_app.values():
            found.update({name: n for (ended, name), n in booked.items() if ended == kind})
        return found

    @property
    def coverage(self) -> float | None:
        """Share of what was seen that was scored, in [0, 1]."""
        seen = self.counts.get("seen", 0)
        return min(1.0, self.counts.get("scored", 0) / seen) if seen else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """Everything on the first page."""

    report: Report
    rows: Sequence[Row]
    incidents: Sequence[Incident]
    acks: Mapping[str, Ack]  #: by the id of the group of incidents
    pipeline: PipelineState
    span_s: int
    cell_s: int

    def narrowed(self, apps: Container[str]) -> Overview:
        """Return the part that concerns these apps alone."""
        incidents = [
            left for incident in self.incidents if (left := incident.narrowed(apps)) is not None
        ]
        groups = {incident.group_id for incident in incidents}
        seen = [item for item in self.report.apps if item.app in apps]
        booked = {app: n for app, n in self.pipeline.by_app.items() if app in apps}
        return replace(
            self,
            report=self.report.model_copy(update={"apps": seen, "fleet": (), "deliveries": {}}),
            rows=[row for row in self.rows if row.verdict.app in apps],
            incidents=incidents,
            acks={name: ack for name, ack in self.acks.items() if name in groups},
            pipeline=PipelineState(by_app=booked, is_whole=False),
        )

    def of_retrieval(self, app: str) -> list[Verdict]:
        """Return the verdicts of an app's metrics that look at the contexts and no answer."""
        return [
            row.verdict
            for row in self.rows
            if row.verdict.app == app
            and (metric := METRICS.get(row.verdict.metric)) is not None
            and "contexts" in metric.declaration.requires
            and "output" not in metric.declaration.requires
        ]

    @property
    def counts(self) -> list[tuple[Status, int]]:
        """How many rows have each status, the worst first."""
        found = Counter(row.verdict.status for row in self.rows)
        return [(status, found[status]) for status in SEVERITY if found[status]]


@dataclass(slots=True)
class OverviewReader:
    """
    Reads the snapshot at most every two seconds, so that fifty viewers cost as much as one.

    Steps of the series that are past are kept. Of streams that counted something since, only
    the steps from the last look on are summed again; all of them every quarter of an hour, for
    samples that came late.
    """

    store: Store
    settings: Settings
    clock: Callable[[], datetime]
    queue: Callable[[], PipelineState]  #: what Redis knows
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _overview: Overview | None = None
    _made: float = 0.0
    _steps: dict[int, dict[int, SeriesPoint]] = field(default_factory=dict)
    _steps_at: float | None = None
    _looked_s: int = 0
    _counted: dict[int, int] = field(default_factory=dict)
    _changed: list[StatusStep] = field(default_factory=list)
    _cost: tuple[float, float] = (0.0, 0.0)
    _cost_at: float | None = None

    def read(self) -> Overview:
        """Return the newest snapshot."""
        with self._lock:
            if self._overview is None or time.monotonic() - self._made > _SERVED_FOR_S:
                self._overview = self._read(self.clock())
                self._made = time.monotonic()
            return self._overview

    @property
    def span_s(self) -> int:
        """How far back the small charts reach: twenty-four windows."""
        return 24 * self.settings.windows.status_window_s

    @property
    def step_s(self) -> int:
        """Width of a step: whole buckets, about fifty a chart."""
        bucket_s = self.settings.windows.bucket_s
        return max(1, self.span_s // _STEPS // bucket_s) * bucket_s

    def _read(self, now: datetime) -> Overview:
        report = read_status(self.store, self.settings, now=now)
        verdicts = [item.verdict for app in report.apps for item in app.metrics]
        with self.store.read() as connection:
            incidents = open_incidents(connection)
            acks = acknowledgements(connection)
            charted = self._charted(connection, now)
            changes = self._changes(connection, verdicts, now)
            if self._cost_at is None or not 0 <= now.timestamp() - self._cost_at < _COST_EVERY_S:
                midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
                self._cost = (
                    cost_usd_since(connection, midnight.timestamp()),
                    cost_usd_since(connection, midnight.replace(day=1).timestamp()),
                )
                self._cost_at = now.timestamp()
            today, month = self._cost
            pipeline = replace(
                self.queue(), by_app=read_between(connection, now.timestamp() - 3600),
                cost_today_usd=today, cost_month_usd=month,
                outbox={str(state): n for state, n in outbox_counts(connection).items() if n},
            )  # fmt: skip
        now_s, span_s, step_s, cell_s = now.timestamp(), self.span_s, self.step_s, self._cell_s
        rows = [
            Row(
                verdict=verdict,
                series=time_series(charted.get(key, {}), now_s=now_s, span_s=span_s, step_s=step_s),
                cells=strip(changes.get(key, ()), now_s=now_s, cells=_CELLS, cell_s=cell_s),
            )
            for verdict in verdicts
            for key in [(verdict.app, verdict.metric)]
        ]
        rows.sort(key=lambda r: (SEVERITY.index(r.verdict.status), r.verdict.app, r.verdict.metric))
        return Overview(
            report=report, rows=rows, incidents=incidents, acks=acks, pipeline=pipeline,
            span_s=span_s, cell_s=cell_s,
        )  # fmt: skip

    @property
    def _cell_s(self) -> int:
        return _WINDOWS_A_CELL * self.settings.windows.status_window_s

    def _charted(
        self, connection: Connection, now: datetime
    ) -> dict[Key, Mapping[int, SeriesPoint]]:
        now_s, step_s = now.timestamp(), self.step_s
        first_s = int(now_s - self.span_s) // step_s * step_s
        streams = {s.stream_id: s for s in active_streams(connection, since_s=first_s)}
        known = self._steps_at is not None and 0 <= now_s - self._steps_at < _READ_ALL_EVERY_S
        if not known or not streams.keys() <= self._counted.keys():
            self._steps, self._counted = {}, {}
            self._looked_s, self._steps_at = first_s, now_s
        fresh = [key for key, s in streams.items() if s.n_total != self._counted.get(key)]
        found = series(connection, fresh, from_s=self._looked_s, step_s=step_s)
        for stream_id in fresh:
            steps = self._steps.setdefault(stream_id, {})
            steps.update(steps_of(found.get(stream_id, {})))
            self._counted[stream_id] = streams[stream_id].n_total
            for old_s in [start_s for start_s in steps if start_s < first_s]:
                del steps[old_s]
        # Workers may be behind by as much as is not called late.
        self._looked_s = int(now_s - self.settings.windows.settle_s) // step_s * step_s
        return {(s.key.app, s.key.metric): self._steps[key] for key, s in streams.items()}

    def _changes(
        self, connection: Connection, verdicts: Sequence[Verdict], now: datetime
    ) -> dict[Key, list[tuple[float, Status]]]:
        since = now - timedelta(seconds=_CELLS * self._cell_s)
        last_id = self._changed[-1].change_id if self._changed else 0
        window_s = self.settings.windows.status_window_s
        self._changed += read_steps(connection, since=since, window_s=window_s, after_id=last_id)
        # The last one stays, so that it is known which were read.
        gone = sum(step.at_s < since.timestamp() for step in self._changed[:-1])
        del self._changed[:gone]
        found: dict[Key, list[tuple[float, Status]]] = {}
        for step in self._changed:
            of_key = found.setdefault((step.app, step.metric), [])
            if not of_key and step.before is not None:
                of_key.append((since.timestamp(), step.before))
            of_key.append((step.at_s, step.after))
        for verdict in verdicts:
            # What did not change all that time is as it was before.
            began = (verdict.status_since.timestamp(), verdict.status)
            found.setdefault((verdict.app, verdict.metric), [began])
        return found
