"""One app whole, two of its releases side by side, and one of its incidents."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import chain, zip_longest
from typing import Any

from markupsafe import Markup
from sqlalchemy import Connection
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from alerts.conditions import BLINDNESS, CONDITIONS, MONITOR_PREFIX
from alerts.model import Snapshot
from alerts.queries import began_at, why_not_notified
from alerts.store import acknowledgement, silences_after
from monitor.models import Incident
from monitor.models.evaluation import PassRule, advice_for
from monitor.models.insight import Deploy
from monitor.report.build import (
    RETRIEVAL_OR_GENERATION,
    LikelyCause,
    likely_causes,
    with_named_release,
)
from monitor.report.render import render_incident
from monitor.rolling.tallies import window_stats
from monitor.stats.intervals import Interval
from monitor.store.ledger import Kind, read_volume
from monitor.store.query import active_streams, cost_usd_since
from monitor.store.sample_filter import SampleFilter
from monitor.store.samples import WorstSample, worst_samples
from monitor.store.search import FoundSample, find_samples
from monitor.store.verdicts import read_insights
from monitor.testsets.compare import Comparison, decide
from monitor.testsets.releases import (
    ReleaseVerdict,
    TrafficParts,
    compare_parts,
    judge_parts,
    read_parts,
)
from monitor.web import time_range as names
from monitor.web.auth import Role, principal_of
from monitor.web.charts import volume_chart
from monitor.web.detail import (
    Recent,
    read_app_segments,
    read_day,
    read_deploys,
    read_first_score_s,
    read_recent,
)  # fmt: skip
from monitor.web.samples import read_modes
from monitor.web.site import (
    EXPLANATION_WAIT_S,
    MOST_WAIT_S,
    Endpoints,
    incident_for,
    incidents_for,
)
from monitor.web.templating import event_reason
from monitor.web.time_range import SPANS, ChartMark, ShadedSpan, TimeRange, spans_of
from monitor.web.writing import ACK_HOURS, LASTS
from workers.reports import read_explained, read_report

_DAY = timedelta(days=1)
_RELEASES_BACK = timedelta(days=90)
_MOST_RELEASES, _MOST_SEGMENTS, _MOST_WORST, _MOST_CHARTS = 8, 8, 5, 24
#: A drop that a release may have; `groundwatch gate --release` takes another one.
_MAX_DROP = 0.03
#: So many of the newest samples of each release are searched for questions that both got.
_MOST_READ, _MOST_QUESTIONS = 400, 20
_RANGES = ("24h", "7d", "30d")
_VOLUME_STEP_S, _FEWEST_VOLUME_STEPS = 1800, 12


#: One metric of two releases: what is compared, the 90 % interval of each pass rate, the verdict.
ReleaseRow = tuple[Comparison, Interval | None, Interval | None, ReleaseVerdict | None]
#: A metric, the samples of a question that both releases got, and whether it became worse.
ChangedQuestion = tuple[str, FoundSample, FoundSample, bool]


class AppPages(Endpoints):
    """The pages about an app."""

    def overview(self, request: Request) -> Response:
        """Show one app: charts of all metrics, incidents, volume, cost, releases, segments."""
        app, site, now = request.path_params["app"], self.site, self.site.clock()
        principal, day, window_s = principal_of(request), now - _DAY, int(_DAY.total_seconds())
        # Counts are of the minutes that begin within it.
        since = day.replace(second=0, microsecond=0) + timedelta(minutes=1)
        read = read_report(
            site.store, site.settings, now=now, window_s=window_s, app=app, whole=False
        )
        found = next((one for one in read.apps if one.app == app), None)
        if found is None or not principal.may_see(app):
            return site.missing(request, f"no app of the name {app!r} has sent anything")
        may_read = principal.role >= Role.READER
        lead = found.metrics[0].metric if found.metrics else ""
        charted = found.metrics[:_MOST_CHARTS]
        first_s = read_first_score_s(site.store, app, lead) if lead else None
        with site.store.read() as connection:
            incidents = incidents_for(request, connection, day, app)
            insights, _ = read_explained(connection, app, now=now, since=day)
            cost_usd = cost_usd_since(connection, day.timestamp(), app)
            of_day = read_day(
                connection, site.settings, app, [item.metric for item in charted], now=now,
                first_s=first_s,
            )  # fmt: skip
            deploys = {d.release: d for d in read_deploys(connection, app, now - _RELEASES_BACK)}
            for item in reversed(found.metrics):  # the worst metric's sentence stands
                if item.metric in insights:
                    deploys |= {d.release: d for d in insights[item.metric].deploys}
            segments = read_app_segments(connection, site.settings, app, lead, now)
            worst = worst_samples(
                connection, app=app, metric=lead, since=day, limit=_MOST_WORST
            ) if may_read and lead else []  # fmt: skip
            volume = _volume(connection, app, now)
        if worst:
            site.note_view(request, "saw worst samples", f"{app} {lead}")
        alerts = [alert for one in incidents for alert in one.alerts if alert.app == app]
        newest = sorted(deploys.values(), key=lambda deploy: deploy.at, reverse=True)
        return site.page(
            request, "app.html", status=found.status, app=found, incidents=incidents,
            may_read=may_read, lead=lead,
            charts=[
                (item, series, spans_of(
                    [alert for alert in alerts if alert.metric == item.metric], now
                ))
                for item, series in zip(charted, of_day, strict=True)
            ],
            marks=[ChartMark(deploy.at.timestamp(), deploy.release) for deploy in newest],
            deploys=newest[:_MOST_RELEASES], segments=segments, most_segments=_MOST_SEGMENTS,
            worst=worst, since=since, volume=volume, cost_usd=cost_usd,
            faults=read_modes(site, app, lead) if may_read and lead else None,
        )  # fmt: skip

    def releases(self, request: Request) -> Response:
        """Compare two releases: every metric with intervals, and questions that both got."""
        app, site, now = request.path_params["app"], self.site, self.site.clock()
        principal, asked = principal_of(request), request.query_params
        if not principal.may_see(app):
            return site.missing(request, f"no app of the name {app!r} has sent anything")
        span = asked.get("since", "") if asked.get("since") in _RANGES else _RANGES[1]
        since = now - timedelta(seconds=SPANS[span])
        with site.store.read() as connection:
            # The releases, the first to come first: tags of samples, or recorded.
            back = now - _RELEASES_BACK
            known = [
                stream.key.segment.removeprefix("release=")
                for stream in sorted(
                    active_streams(connection, since_s=back.timestamp(), segment=None, app=app),
                    key=lambda stream: stream.stream_id,
                )
                if stream.key.segment.startswith("release=")
            ] or [deploy.release for deploy in read_deploys(connection, app, back)]
            known = list(dict.fromkeys(known))
            after = asked.get("after") or (known[-1] if known else "")
            earlier = known[: known.index(after)] if after in known else known
            before = asked.get("before") or next((r for r in reversed(earlier) if r != after), "")
            parts = TrafficParts({})
            if before and after and before != after:
                parts = read_parts(
                    connection, app=app, by="release", since=since, now=now,
                    bucket_s=site.settings.windows.bucket_s, values=frozenset({before, after}),
                )  # fmt: skip
            both = {m: of for m, of in parts.of.items() if before in of and after in of}
            comparisons = decide(
                [compare_parts(m, of, before, after) for m, of in sorted(both.items())]
            )
            judged, _ = judge_parts(parts, before, after, max_drop=_MAX_DROP)
            verdicts = {each.metric: each for each in judged}
            rows: list[ReleaseRow] = []
            for one in comparisons:
                old, new = (
                    window_stats(both[one.metric][each].tally).interval for each in (before, after)
                )
                rows.append((one, old, new, None if one.reason else verdicts[one.metric]))
            may_read = principal.role >= Role.READER
            metrics = [row[0].metric for row in rows] if may_read else []
            changed = _changed(connection, app, (before, after), metrics, since)
        if changed:
            site.note_view(request, "compared answers of releases", f"{app} {before} {after}")
        return site.page(
            request, "releases.html", app=app, before=before, after=after, known=known, rows=rows,
            span=span, ranges=_RANGES, changed=changed, may_read=may_read, since=since,
            cut=parts.cut, max_drop=_MAX_DROP,
        )  # fmt: skip


def _volume(connection: Connection, app: str, now: datetime) -> Markup | None:
    """Draw how many came, were sampled and failed in the last day; None where none came."""
    step_s, to_s = _VOLUME_STEP_S, int(now.timestamp())
    first_s = to_s // step_s * step_s - int(_DAY.total_seconds()) + step_s
    found = read_volume(connection, app, since_s=first_s, step_s=step_s)
    begun_s = min((at_s for of in found.values() for at_s in of), default=None)
    if begun_s is None:
        return None
    # The chart of a first day is not empty.
    first_s = max(first_s, min(begun_s, to_s - _FEWEST_VOLUME_STEPS * step_s) // step_s * step_s)
    starts = range(first_s, to_s + 1, step_s)
    kinds = (Kind.SEEN, Kind.SAMPLED, Kind.FAILED)
    counts = {kind.value: [found.get(kind, {}).get(at_s, 0) for at_s in starts] for kind in kinds}
    return volume_chart(counts, from_s=first_s, step_s=step_s)


def _changed(
    connection: Connection,
    app: str,
    releases: tuple[str, str],
    metrics: Sequence[str],
    since: datetime,
) -> list[ChangedQuestion]:
    """Return questions that both releases got and that only one answered well, worse ones first."""
    newest: list[dict[str, FoundSample]] = []
    for release in releases if metrics else ():
        wanted = SampleFilter(app=app, release=release, since=since)
        page = find_samples(connection, wanted, limit=_MOST_READ)
        newest.append({})
        for item in page.items:
            newest[-1].setdefault(" ".join((item.query or "").casefold().split()), item)
    found: list[ChangedQuestion] = []
    for question in newest[0].keys() & newest[1].keys() - {""} if newest else ():
        before, after = newest[0][question], newest[1][question]
        ended = [{e.metric: e.passed for e in one.evaluations} for one in (before, after)]
        found += [
            (metric, before, after, bool(ended[0][metric]))
            for metric in metrics
            if {ended[0].get(metric), ended[1].get(metric)} == {True, False}
        ]
    found.sort(key=lambda one: (not one[3], one[1].query or "", one[0]))
    return found[:_MOST_QUESTIONS]


_MOST_KEYS, _LEAST_A_STEP = 3, 8
_MOST_SAMPLES, _MOST_ROWS = 6, 6
#: A chart has at least so many buckets.
_FIRST_STEPS = 16
#: Of what was before, at least two windows; of what came after, one.
_WINDOWS_BEFORE, _LONGEST_BEFORE = 2, timedelta(days=2)


class IncidentPages(Endpoints):
    """The page of one incident, and the same as Markdown for a ticket."""

    def page(self, request: Request) -> Response:
        """Show one incident: chart, likely cause, samples, what to do, who was notified."""
        found = self._read(request, wait_s=EXPLANATION_WAIT_S)
        if found is None:
            return self.site.missing(request, "no such incident")
        principal = principal_of(request)
        return self.site.page(
            request, "incident.html", may_act=principal.may_write("acknowledgements"),
            ack_hours=ACK_HOURS, lasts=list(LASTS),
            form_token=self.site.access.form_token(principal), **found,
        )  # fmt: skip

    def markdown(self, request: Request) -> Response:
        """Return the incident as Markdown; its links are absolute where the page's address is."""
        found = self._read(request, wait_s=MOST_WAIT_S)
        if found is None:
            return self.site.missing(request, "no such incident")
        base = (self.site.settings.report_url or str(request.base_url)).rstrip("/")
        paths = {path.__name__: path for path in (
            names.incident_path, names.metric_path, names.sample_path, names.samples_path,
        )}  # fmt: skip
        text = render_incident(
            now=self.site.clock(), base=base, event_reason=event_reason, **paths, **found
        )
        return PlainTextResponse(text, media_type="text/markdown; charset=utf-8")

    def _read(self, request: Request, *, wait_s: float) -> dict[str, Any] | None:
        """Read what page and Markdown say; None where there is no such incident to see."""
        principal, site, now = principal_of(request), self.site, self.site.clock()
        with site.store.read() as connection:
            seen = incident_for(request, connection)
            if seen is None:
                return None
            found, events, sent, is_whole = seen
            kept = timedelta(days=site.settings.retention.keep_outbox_days)
            why = "" if is_whole else "it is about other apps as well, so that you may not see whom"
            if is_whole and not sent:
                why = why_not_notified(connection, found, site.wiring.channels, now - kept)
            ack = acknowledgement(connection, found.incident_id)
            deploys = read_deploys(connection, found.app, found.since - _LONGEST_BEFORE)
            began = began_at(found, events)
            causes = self._causes(connection, found, events, deploys, began, now)
            # One that was just made is applied when the scheduler looks next.
            labels = site.wiring.plan.labels(events[-1].verdict, found.level) if events else {}
            silences = [s for s in silences_after(connection, now) if s.covers(labels, now)]
            may_read = principal.role >= Role.READER
            # Without evidence of when the fall began, from the window on which it fired.
            window = timedelta(seconds=site.settings.windows.status_window_s)
            is_dated = any(e.verdict.onset for e in events)
            is_dated = is_dated or found.metric.startswith(MONITOR_PREFIX)
            since = began if is_dated else began - window
            worst = _worst(connection, found, since, now) if may_read else []
            segments = read_app_segments(
                connection, site.settings, found.app, found.metric, now,
                since=since, until=found.resolved_at,
            )  # fmt: skip
        if worst:
            site.note_view(request, "saw worst samples", f"incident {found.incident_id}")
        charts = self._charts(found, began, now)
        faults = None
        if not found.metric.startswith(MONITOR_PREFIX):
            faults = site.faults(
                (found.incident_id, found.resolved_at), found.app, found.metric,
                since=since, until=found.resolved_at, wait_s=wait_s,
            )  # fmt: skip
        if faults is not None:
            causes = with_named_release(causes, faults.components)
        if faults is not None and faults.blame is not None:  # says more than "not known"
            causes = [c for c in causes if c.is_likely or c.kind != RETRIEVAL_OR_GENERATION]
        return {
            "incident": found, "events": events, "deliveries": list(reversed(sent)), "ack": ack,
            "silence": silences[-1] if silences and found.is_open else None, "not_notified": why,
            "marks": [ChartMark(d.at.timestamp(), d.release) for d in deploys],
            "causes": causes, "faults": faults, "worst": worst, "charts": charts,
            "began": began,
            "may_read": may_read,
            "shaded": [ShadedSpan(
                began.timestamp(), (found.resolved_at or now).timestamp(),
                str(found.peak_level),
            )],
            "segments": segments, "most_segments": _MOST_ROWS,
            # The filter of the samples that failed since then.
            "failing": {
                "app": found.app,
                **({} if found.metric.startswith(MONITOR_PREFIX)
                   else {"metric": found.metric, "outcome": "failed"}),
                "since": since.replace(microsecond=0),
                "until": (found.resolved_at or now).replace(microsecond=0) + timedelta(seconds=1),
            },
            "todo": _todo(found, charts),
            # Texts of the events, where the samples themselves are no longer kept.
            "quoted": [] if worst or not may_read
            else list(dict.fromkeys(text for e in events for text in e.samples)),
        }  # fmt: skip

    def _charts(
        self, found: Incident, began: datetime, now: datetime
    ) -> list[tuple[str, Recent]]:  # fmt: skip
        """Read the pass rate of each metric of the incident, from before it began until after."""
        site = self.site
        window = timedelta(seconds=site.settings.windows.status_window_s)
        ended = min(now, found.resolved_at + window) if found.resolved_at else now
        lead = max(_WINDOWS_BEFORE * window, min(_LONGEST_BEFORE, ended - began))
        firsts = [read_first_score_s(site.store, *key) for key in _keys(found)[:_MOST_KEYS]]
        first_s = min((each for each in firsts if each is not None), default=0)
        least_s = _FIRST_STEPS * site.settings.windows.bucket_s
        from_s = max((began - lead).timestamp(), first_s - site.settings.windows.bucket_s)
        from_s = min(from_s, ended.timestamp() - least_s)
        shown = TimeRange(from_s=int(from_s), to_s=int(ended.timestamp()), is_fixed=True)
        read = (
            (app, read_recent(
                self.site.store, self.site.settings, app=app, metric=metric, time_range=shown,
                now=now, least_n=_LEAST_A_STEP,
            ))
            for app, metric in _keys(found)[:_MOST_KEYS]
        )  # fmt: skip
        return [(app, recent) for app, recent in read if recent is not None]

    def _causes(
        self,
        connection: Connection,
        found: Incident,
        events: Sequence[Snapshot],
        deploys: Sequence[Deploy],
        began: datetime,
        now: datetime,
    ) -> list[LikelyCause]:
        if found.metric.startswith(MONITOR_PREFIX):
            return []
        last = events[-1] if events else None
        until = found.resolved_at or now
        of_metrics, of_apps = read_insights(connection, now=until, app=found.app)
        insight = of_metrics.get((found.app, found.metric)) if found.is_open else None
        causes = likely_causes(
            insight, began=began, ended=until, deploys=deploys,
            retrieval=self.site.overview.read().of_retrieval(found.app),
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
            causes = [announced.pop(cause.kind, cause) for cause in causes]
            causes[1:1] = announced.values()
        if last is not None and last.cause is not None and len(found.apps) > 1:
            causes.insert(0, LikelyCause("common cause", last.cause, True))
        return causes


def _keys(found: Incident) -> list[tuple[str, str]]:
    """Return the apps and metrics of an incident that have samples, the worst first."""
    keys = dict.fromkeys([(found.app, found.metric), *((a.app, a.metric) for a in found.alerts)])
    return [key for key in keys if not key[1].startswith(MONITOR_PREFIX)]


def _worst(
    connection: Connection, found: Incident, since: datetime, now: datetime
) -> list[tuple[str, WorstSample]]:
    """Return the worst samples of all metrics with their metric, each question once."""
    until = found.resolved_at or now
    by_metric = [
        [
            (metric, item)
            for item in worst_samples(
                connection, app=app, metric=metric, since=since.astimezone(UTC), until=until,
                limit=_MOST_SAMPLES,
            )
        ]
        for app, metric in _keys(found)[:_MOST_KEYS]
    ]  # fmt: skip
    samples: dict[str, tuple[str, WorstSample]] = {}
    # The worst of each first, so that no metric's samples hide those of the others.
    for metric, item in filter(None, chain.from_iterable(zip_longest(*by_metric))):
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
