"""One app whole, and two of its releases side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Connection
from starlette.requests import Request
from starlette.responses import Response

from monitor.rolling.tallies import window_stats
from monitor.stats.intervals import Interval
from monitor.store.query import active_streams
from monitor.store.samples import worst_samples
from monitor.store.search import FoundSample, SampleFilter, find_samples
from monitor.testsets.compare import Comparison, decide, decision
from monitor.testsets.releases import ReleaseVerdict, judge_release
from monitor.testsets.variants import TrafficParts, compare_parts, read_parts
from monitor.web import time_range as names
from monitor.web.auth import Role, principal_of
from monitor.web.detail import read_app_segments, read_deploys
from monitor.web.samples import kept_nowhere
from monitor.web.site import Site
from monitor.web.templating import series_of
from monitor.web.time_range import SPANS
from monitor.web.time_series import ChartMark, spans_of
from workers.reports import read_report

_DAY = timedelta(days=1)
_RELEASES_BACK = timedelta(days=90)
_MOST_RELEASES, _MOST_SEGMENTS, _MOST_WORST, _MOST_CHARTS = 8, 8, 5, 24
#: A drop that a release may have; `groundwatch gate --release` takes another one.
_MAX_DROP, _ALPHA = 0.03, 0.02
#: So many of the newest samples of each release are searched for questions that both got.
_MOST_READ, _MOST_QUESTIONS = 400, 20
_RANGES = ("24h", "7d", "30d")


#: One metric of two releases: what is compared, the 90 % interval of each pass rate, the verdict.
ReleaseRow = tuple[Comparison, Interval | None, Interval | None, ReleaseVerdict | None]
#: A metric, the samples of a question that both releases got, and whether it became worse.
ChangedQuestion = tuple[str, FoundSample, FoundSample, bool]


@dataclass(frozen=True, slots=True)
class AppPages:
    """The pages about an app."""

    site: Site

    def overview(self, request: Request) -> Response:
        """Show one app: charts of all metrics, incidents, volume, cost, releases, segments."""
        app, site, now = names.unslug(request.path_params["app"]), self.site, self.site.clock()
        principal = principal_of(request)
        window_s = int(_DAY.total_seconds())
        read = read_report(site.store, site.settings, now=now, window_s=window_s, app=app)
        found = next((one for one in read.apps if one.app == app), None)
        if found is None or not principal.may_see(app):
            return site.missing(request, f"no app of the name {app!r} has sent anything")
        may_read = principal.role >= Role.READER
        seen = frozenset([app]) if principal.apps is not None else None
        incidents = [
            left for one in found.incidents
            if (left := one if seen is None else one.narrowed(seen)) is not None
        ]  # fmt: skip
        alerts = [alert for one in incidents for alert in one.alerts if alert.app == app]
        lead = found.metrics[0].metric if found.metrics else ""
        with site.store.read() as connection:
            deploys = {d.release: d for d in read_deploys(connection, app, now - _RELEASES_BACK)}
            for item in reversed(found.metrics):  # what the worst metric says of it stands
                deploys |= {d.release: d for d in item.insight.deploys} if item.insight else {}
            segments = read_app_segments(connection, site.settings, app, lead, now)
            worst = worst_samples(
                connection, app=app, metric=lead, since=now - _DAY, limit=_MOST_WORST
            ) if may_read and lead else []  # fmt: skip
        if worst:
            site.note_view(request, "saw worst samples", f"{app} {lead}")
        newest = sorted(deploys.values(), key=lambda deploy: deploy.at, reverse=True)
        return kept_nowhere(site.page(
            request, "app.html", status=found.status, app=found, incidents=incidents,
            may_read=may_read, lead=lead,
            charts=[
                (item, series_of(item.series), spans_of(
                    [alert for alert in alerts if alert.metric == item.metric], now
                ))
                for item in found.metrics[:_MOST_CHARTS]
            ],
            marks=[ChartMark(deploy.at.timestamp(), deploy.release) for deploy in newest],
            deploys=newest[:_MOST_RELEASES], segments=segments.rows[:_MOST_SEGMENTS],
            compared_with=segments.reference, worst=worst, since=now - _DAY,
            window_from=now - timedelta(seconds=site.settings.windows.status_window_s),
        ))  # fmt: skip

    def releases(self, request: Request) -> Response:
        """Compare two releases: every metric with intervals, and questions that both got."""
        app, site, now = names.unslug(request.path_params["app"]), self.site, self.site.clock()
        principal, asked = principal_of(request), request.query_params
        if not principal.may_see(app):
            return site.missing(request, f"no app of the name {app!r} has sent anything")
        span = asked.get("since", "") if asked.get("since") in _RANGES else _RANGES[1]
        since = now - timedelta(seconds=SPANS[span])
        with site.store.read() as connection:
            known = _releases(connection, app, now)
            after = asked.get("after") or (known[-1] if known else "")
            earlier = known[: known.index(after)] if after in known else known
            before = asked.get("before") or next((r for r in reversed(earlier) if r != after), "")
            parts = TrafficParts({})
            if before and after and before != after:
                parts = read_parts(
                    connection, app=app, by="release", since=since, now=now,
                    bucket_s=site.settings.windows.bucket_s, values=frozenset({before, after}),
                )  # fmt: skip
            rows = _compared(parts, before, after)
            may_read = principal.role >= Role.READER
            metrics = [row[0].metric for row in rows] if may_read else []
            changed = _changed(connection, app, (before, after), metrics, since)
        if changed:
            site.note_view(request, "compared answers of releases", f"{app} {before} {after}")
        return kept_nowhere(site.page(
            request, "releases.html", app=app, before=before, after=after, known=known, rows=rows,
            decision=decision([row[0] for row in rows]) if rows else "", span=span,
            ranges=_RANGES, changed=changed, may_read=may_read, since=since, cut=parts.cut,
            max_drop=_MAX_DROP,
        ))  # fmt: skip


def _releases(connection: Connection, app: str, now: datetime) -> list[str]:
    """Return the releases of an app, the first to come first: recorded, or tags of samples."""
    since = now - _RELEASES_BACK
    streams = active_streams(connection, since_s=since.timestamp(), segment=None, app=app)
    tagged = [
        stream.key.segment.removeprefix("release=")
        for stream in sorted(streams, key=lambda stream: stream.stream_id)
        if stream.key.segment.startswith("release=")
    ]
    recorded = [deploy.release for deploy in read_deploys(connection, app, since)]
    return list(dict.fromkeys(tagged or recorded))


def _compared(parts: TrafficParts, before: str, after: str) -> list[ReleaseRow]:
    both = {metric: of for metric, of in parts.of.items() if before in of and after in of}
    comparisons = decide([compare_parts(m, of, before, after) for m, of in sorted(both.items())])
    n_compared = sum(not one.reason for one in comparisons)
    rows: list[ReleaseRow] = []
    for one in comparisons:
        a, b = both[one.metric][before], both[one.metric][after]
        # Shared out over metrics: the probability of any false verdict stays the same.
        verdict = None if one.reason else judge_release(
            one.metric, a.counts, b.counts, max_drop=_MAX_DROP, alpha=_ALPHA / n_compared
        )  # fmt: skip
        rows.append(
            (one, window_stats(a.tally).interval, window_stats(b.tally).interval, verdict)
        )  # fmt: skip
    return rows


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
