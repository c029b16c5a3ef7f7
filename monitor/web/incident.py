"""One incident whole: from before it began to now, what may have caused it, who was notified."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from alerts.conditions import BLINDNESS, CONDITIONS, MONITOR_PREFIX
from alerts.model import Snapshot
from alerts.queries import why_not_notified
from alerts.store import acknowledgement, silences_after
from monitor.models import Incident
from monitor.models.insight import Deploy
from monitor.models.passing import PassRule, advice_for
from monitor.report.causes import LikelyCause, likely_causes
from monitor.report.render import render_incident
from monitor.store.insights import read_insights
from monitor.store.samples import WorstSample, worst_samples
from monitor.web import time_range as names
from monitor.web.auth import Role, principal_of
from monitor.web.detail import Recent, SegmentTable, read_app_segments, read_deploys, read_recent
from monitor.web.samples import kept_nowhere
from monitor.web.site import Site, incident_for
from monitor.web.templating import event_reason
from monitor.web.time_range import TimeRange
from monitor.web.time_series import ChartMark, ShadedSpan
from monitor.web.writing import ACK_HOURS, LASTS
from workers.reports import EXPLAINED_FOR

_MOST_CHARTS, _LEAST_A_STEP = 3, 8
_MOST_SAMPLES, _MOST_SEGMENTS = 6, 6
#: Of what was before, at least two windows; of what came after, one.
_WINDOWS_BEFORE, _LONGEST_BEFORE = 2, timedelta(days=2)


@dataclass(frozen=True, slots=True)
class IncidentPages:
    """The page of one incident, and the same as Markdown for a ticket."""

    site: Site

    def page(self, request: Request) -> Response:
        """Show one incident: chart, likely cause, samples, what to do, who was notified."""
        found = self._read(request)
        if found is None:
            return self.site.missing(request, "no such incident")
        principal = principal_of(request)
        return kept_nowhere(self.site.page(
            request, "incident.html", may_act=principal.may_write("acknowledgements"),
            ack_hours=ACK_HOURS, lasts=list(LASTS),
            form_token=self.site.access.form_token(principal), **found,
        ))  # fmt: skip

    def markdown(self, request: Request) -> Response:
        """Return the incident as Markdown; its links are absolute where the page's address is."""
        found = self._read(request)
        if found is None:
            return self.site.missing(request, "no such incident")
        base = (self.site.settings.report_url or str(request.base_url)).rstrip("/")
        paths = {path.__name__: path for path in (
            names.incident_path, names.metric_path, names.sample_path, names.samples_path,
        )}  # fmt: skip
        text = render_incident(
            now=self.site.clock(), base=base, event_reason=event_reason, **paths, **found
        )
        return kept_nowhere(PlainTextResponse(text, media_type="text/markdown; charset=utf-8"))

    def _read(self, request: Request) -> dict[str, Any] | None:
        """Read what page and Markdown say; None where there is no such incident to see."""
        principal, site, now = principal_of(request), self.site, self.site.clock()
        with site.store.read() as connection:
            incident_id = names.unslug(request.path_params["incident_id"])
            seen = incident_for(request, connection, incident_id)
            if seen is None:
                return None
            found, events, sent, is_whole = seen
            kept = timedelta(days=site.settings.retention.keep_outbox_days)
            why = "" if is_whole else "it is about other apps as well, so that you may not see whom"
            if is_whole and not sent:
                why = why_not_notified(connection, found, site.wiring.channels, now - kept)
            ack = acknowledgement(connection, found.incident_id)
            deploys = read_deploys(connection, found.app, found.since - _LONGEST_BEFORE)
            causes = self._causes(connection, found, events, deploys, now)
            # One that was just made is applied when the scheduler looks next.
            labels = site.wiring.plan.labels(events[-1].verdict, found.level) if events else {}
            silences = [s for s in silences_after(connection, now) if s.covers(labels, now)]
            may_read = principal.role >= Role.READER
            worst = _worst(connection, found, now) if may_read else []
            table = SegmentTable()
            if found.is_open:  # of what is over, the window says nothing any more
                table = read_app_segments(
                    connection, site.settings, found.app, found.metric, now
                )  # fmt: skip
        if worst:
            site.note_view(request, "saw worst samples", f"incident {found.incident_id}")
        charts = self._charts(found, now)
        return {
            "incident": found, "events": events, "deliveries": list(reversed(sent)), "ack": ack,
            "silence": silences[-1] if silences and found.is_open else None, "not_notified": why,
            "marks": [ChartMark(d.at.timestamp(), d.release) for d in deploys],
            "causes": causes, "worst": worst, "charts": charts, "may_read": may_read,
            "shaded": [ShadedSpan(
                found.since.timestamp(), (found.resolved_at or now).timestamp(),
                str(found.peak_level),
            )],
            "segments": table.rows[:_MOST_SEGMENTS], "compared_with": table.reference,
            "window_from": now - timedelta(seconds=site.settings.windows.status_window_s),
            "failing": _failing(found, now), "todo": _todo(found, charts),
            # Texts of the events, where the samples themselves are no longer kept.
            "quoted": [] if worst or not may_read
            else list(dict.fromkeys(text for e in events for text in e.samples)),
        }  # fmt: skip

    def _charts(self, found: Incident, now: datetime) -> list[tuple[str, Recent]]:
        """Read the pass rate of each metric of the incident, from before it began until after."""
        window = timedelta(seconds=self.site.settings.windows.status_window_s)
        ended = min(now, found.resolved_at + window) if found.resolved_at else now
        lead = max(_WINDOWS_BEFORE * window, min(_LONGEST_BEFORE, ended - found.since))
        shown = TimeRange(
            from_s=int((found.since - lead).timestamp()), to_s=int(ended.timestamp()),
            is_fixed=True,
        )  # fmt: skip
        read = (
            (app, read_recent(
                self.site.store, self.site.settings, app=app, metric=metric, time_range=shown,
                now=now, least_n=_LEAST_A_STEP,
            ))
            for app, metric in _keys(found)[:_MOST_CHARTS]
        )  # fmt: skip
        return [(app, recent) for app, recent in read if recent is not None]

    def _causes(
        self,
        connection: Connection,
        found: Incident,
        events: Sequence[Snapshot],
        deploys: Sequence[Deploy],
        now: datetime,
    ) -> list[LikelyCause]:
        if found.metric.startswith(MONITOR_PREFIX):
            return []
        last = events[-1] if events else None
        began = min([found.since, *(e.verdict.onset for e in events if e.verdict.onset)])
        since = (found.resolved_at or now) - EXPLAINED_FOR
        of_metrics, of_apps = read_insights(connection, since=since, app=found.app)
        insight = of_metrics.get((found.app, found.metric)) if found.is_open else None
        causes = likely_causes(
            insight, began=began, ended=found.resolved_at or now, deploys=deploys,
            retrieval=self.site.glance.read().of_retrieval(found.app),
            inputs=of_apps[found.app].inputs if found.app in of_apps else (),
        )  # fmt: skip
        if insight is None:  # what was known when it was announced
            known = [e.background for e in events]
            changed = next((b.changed for b in reversed(known) if b.changed), "")
            fell = next((b.segments for b in reversed(known) if b.segments), "")
            announced = {
                kind: LikelyCause(kind, said, True)
                for kind, said in (("release", changed), ("segment", fell))
                if said
            }
            causes = [announced.get(cause.kind, cause) for cause in causes]
        if last is not None and last.cause is not None and len(found.apps) > 1:
            causes.insert(0, LikelyCause("common cause", last.cause, True))
        return causes


def _keys(found: Incident) -> list[tuple[str, str]]:
    """Return the apps and metrics of an incident that have samples, the worst first."""
    keys = dict.fromkeys([(found.app, found.metric), *((a.app, a.metric) for a in found.alerts)])
    return [key for key in keys if not key[1].startswith(MONITOR_PREFIX)]


def _failing(found: Incident, now: datetime) -> Mapping[str, object]:
    """Return the filter of the samples that failed while the incident went on."""
    outcome = {} if found.metric.startswith(MONITOR_PREFIX) else {
        "metric": found.metric, "outcome": "failed",
    }  # fmt: skip
    since = found.since.replace(microsecond=0)
    until = (found.resolved_at or now).replace(microsecond=0) + timedelta(seconds=1)
    return {"app": found.app, **outcome, "since": since, "until": until}


def _worst(connection: Connection, found: Incident, now: datetime) -> list[tuple[str, WorstSample]]:
    """Return the worst samples of all metrics with their metric, each question once."""
    until = found.resolved_at or now
    samples: dict[str, tuple[str, WorstSample]] = {}
    for app, metric in _keys(found)[:_MOST_CHARTS]:
        for item in worst_samples(
            connection, app=app, metric=metric, since=found.since.astimezone(UTC), until=until,
            limit=_MOST_SAMPLES,
        ):  # fmt: skip
            samples.setdefault(item.query or item.sample_id, (metric, item))
    return list(samples.values())[:_MOST_SAMPLES]


def _todo(found: Incident, charts: Sequence[tuple[str, Recent]]) -> list[str]:
    """Return what usually helps, in words; links to act stand beside them on the page."""
    if found.metric.startswith(MONITOR_PREFIX):
        return [CONDITIONS.get(found.metric, BLINDNESS).advice]
    said = []
    for _, recent in charts:
        verdict = recent.report.verdict
        rule = PassRule.read(verdict.evaluator_version)
        if rule is not None and verdict.average_score is not None:
            advice = advice_for(verdict.metric, verdict.average_score, rule.direction)
            said += [f"often {advice.cause}: {advice.fix}"] if advice else []
    return said
