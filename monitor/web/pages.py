"""The pages: each reads what it shows and fills a template."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta

from starlette.requests import Request
from starlette.responses import Response

from alerts.queries import channel_health, noise_since, outbox_counts
from alerts.state import timers_for, timers_from
from monitor.errors import SettingsError
from monitor.format import plain_text, setting_value
from monitor.models import Status
from monitor.report.build import (
    RETRIEVAL_OR_GENERATION,
    LikelyCause,
    likely_causes,
    with_named_release,
)
from monitor.report.model import SEVERITY
from monitor.report.words import BLAMED
from monitor.settings import TABLE_OF, setting_field, variable
from monitor.store.samples import newest_acts
from monitor.web.auth import Role, needs, principal_of
from monitor.web.detail import read_detail, read_first_score_s
from monitor.web.overview import Overview, Row
from monitor.web.site import Endpoints, incidents_for
from monitor.web.templating import alert_words, why
from monitor.web.time_range import SPANS, read_time_range, spans_of
from workers.reports import SamplingPlan, plan_sampling

_NOISE_DAYS, _MOST_KEYS = (7, 30, 90), 200
_SUMMED = ("fired", "acted_on", "by_itself", "short", "messages")
_INCIDENTS_BACK = timedelta(days=30)
_MOST_DRAWN = 100
_NEEDS_ATTENTION = frozenset({Status.CRITICAL, Status.WARNING, Status.BLIND})
#: Of the first page: so few apps are shown in full whatever their status, and never more.
_FEW_APPS, _MOST_SHORT = 12, 250
_PARTS = frozenset({"retrieval", "generation"})
#: The minutes that begin within the last hour, as its counts have it.
_HOUR = timedelta(minutes=59)
#: The fall of the pass rate that a plan is made for, some sample rates, how long it is kept.
_FALL, _RATES, _PLANNED_S = 0.15, (0.05, 0.2, 1.0), 3_600.0


@dataclass(frozen=True, slots=True)
class Pages(Endpoints):
    """The endpoints that answer with HTML."""

    #: By what may be seen: the whole snapshot that was drawn, and the page.
    _drawn: dict[tuple[frozenset[str] | None, bool], tuple[Overview, str]] = field(
        default_factory=dict
    )

    def overview(self, request: Request) -> Response:
        """Show all apps, the worst first; drawn once for each snapshot."""
        whole, found = self.site.overview.read(), self.site.overview_for(request)
        visible, may_read = principal_of(request).apps, principal_of(request).role >= Role.READER
        wanted, text = (request.query_params.get(name, "").strip() for name in ("status", "q"))
        is_filtered, drawn = bool(wanted or text), self._drawn.get((visible, may_read))
        if not is_filtered and drawn is not None and drawn[0] is whole:
            return self.site.answer(request, drawn[1])
        apps = found.report.apps
        rows: dict[str, list[Row]] = {app.app: [] for app in apps}
        for row in found.rows:
            rows.setdefault(row.verdict.app, []).append(row)
        shown = [
            app for app in apps
            if wanted in {"", app.status.value} and (not text or any(
                text.casefold() in name.casefold()
                for name in (app.app, *(item.metric for item in app.metrics))
            ))
        ]  # fmt: skip
        incidents = {app: item for item in reversed(found.incidents) for app in item.apps}
        # What needs attention has a row a metric; the others one line each.
        in_full = [
            app for app in shown
            if rows[app.app] and (len(shown) <= _FEW_APPS or app.status in _NEEDS_ATTENTION)
        ][:_FEW_APPS]  # fmt: skip
        names_in_full = {app.app for app in in_full}
        short = [app for app in shown if app.app not in names_in_full]
        counts = Counter(app.status for app in apps)
        page = self.site.fill(
            request, "overview.html", status=found.report.status, overview=found,
            wanted=wanted, text=text,
            counts=[(status, counts[status]) for status in SEVERITY if counts[status]],
            full=[(app.app, rows[app.app]) for app in in_full],
            short=[(app.app, app.status, rows[app.app]) for app in short[:_MOST_SHORT]],
            left_out=len(short[_MOST_SHORT:]), incidents=incidents,
            elsewhere=[item for item in found.incidents if not rows.keys() & {*item.apps}],
            least_n=self.site.settings.min_n, may_read=may_read,
            hour_ago=found.report.generated_at.replace(second=0, microsecond=0) - _HOUR,
        )  # fmt: skip
        if not is_filtered:
            if len(self._drawn) >= _MOST_DRAWN:
                self._drawn.clear()
            self._drawn[visible, may_read] = (whole, page)
        return self.site.answer(request, page)

    def metric(self, request: Request) -> Response:
        """Show one metric of one app with all that explains it."""
        app, metric = request.path_params["app"], request.path_params["metric"]
        site, now = self.site, self.site.clock()
        bucket_s = site.settings.windows.bucket_s
        shown = read_time_range(
            request.query_params, now=now, usual_s=site.overview.span_s, bucket_s=bucket_s,
            first_s=read_first_score_s(site.store, app, metric),
        )  # fmt: skip
        may_read = principal_of(request).role >= Role.READER
        found = read_detail(
            site.store, site.settings, app=app, metric=metric, time_range=shown, now=now,
            with_worst=may_read,
        )  # fmt: skip
        if found is None:
            what = f"nothing was scored as {metric!r} for an app {app!r}"
            return self.site.missing(request, what)
        if found.worst:
            self.site.note_view(request, "saw worst samples", f"{app} {metric}")
        timers = timers_for(found.verdict, timers_from(site.settings))
        began, faults = found.verdict.onset or found.verdict.status_since, None
        if found.verdict.status in {Status.CRITICAL, Status.WARNING}:
            faults = site.faults((app, metric, began), app, metric, since=began)
        causes = likely_causes(
            found.insight, began=began, ended=now, deploys=found.deploys,
            retrieval=site.overview_for(request).of_retrieval(app), inputs=found.inputs,
        )  # fmt: skip
        if faults is not None:
            causes = with_named_release(causes, faults.components)
        if faults is not None and faults.blame is not None:  # what words tell where scores cannot
            blamed = faults.blame.cause
            meaning = BLAMED.get(blamed) or plain_text(faults.blame.reason, 200)
            blamed_cause = LikelyCause(
                RETRIEVAL_OR_GENERATION, f"{blamed}: {meaning}", blamed in _PARTS
            )
            causes = [
                blamed_cause if c.kind == blamed_cause.kind and not c.is_likely else c
                for c in causes
            ]

        def planned() -> SamplingPlan | str:
            try:
                return plan_sampling(
                    site.store, site.settings, app, metric, fall=_FALL, now=now, rates=_RATES
                )
            except SettingsError as error:
                return str(error)

        plan = site.slow.get(("plan", app, metric), planned, fresh_s=_PLANNED_S)
        failing = {
            "app": app, "metric": metric, "outcome": "failed", "since": shown.from_s,
            "until": shown.to_s + 1,
        }  # fmt: skip
        return self.site.page(
            request, "metric.html", causes=causes, failing=failing, plan=plan, fall=_FALL,
            detail=found,
            status=found.verdict.status,
            spans=[name for name, s in SPANS.items() if s >= bucket_s * 10],
            why=[*why(found.verdict, site.lines), *alert_words(found.alert, timers, now)],
            shaded=spans_of(found.incidents, now), may_read=may_read,
        )  # fmt: skip

    def incidents(self, request: Request) -> Response:
        """List the incidents of the last thirty days."""
        now = self.site.clock()
        with self.site.store.read() as connection:
            found = incidents_for(request, connection, now - _INCIDENTS_BACK)
        found.sort(key=lambda item: (not item.is_open, -item.opened_at.timestamp()))
        return self.site.page(request, "incidents.html", incidents=found)

    def noise(self, request: Request) -> Response:
        """Show how often each alert rule fired, and whether it was acknowledged."""
        asked, now = request.query_params.get("days", ""), self.site.clock()
        days = int(asked) if asked in map(str, _NOISE_DAYS) else _NOISE_DAYS[1]
        with self.site.store.read() as connection:
            found = [
                item
                for item in noise_since(connection, now - timedelta(days=days), now)
                if principal_of(request).may_see(item.key.app)
            ]
        return self.site.page(
            request, "noise.html", rows=found[:_MOST_KEYS], left_out=len(found[_MOST_KEYS:]),
            total={name: sum(getattr(item, name) for item in found) for name in _SUMMED},
            days=days, choices=_NOISE_DAYS,
            budget=self.site.settings.false_alarms_per_month * days / 30,
        )  # fmt: skip

    def channels(self, request: Request) -> Response:
        """Show the health of each channel, and let operators test it."""
        with self.site.store.read() as connection:
            health = {item.channel: item for item in channel_health(connection)}
            counts = outbox_counts(connection)
        principal = principal_of(request)
        return self.site.page(
            request, "channels.html", health=health, counts=counts,
            channels=self.site.wiring.channels, tried=request.query_params.get("tried", ""),
            how=request.query_params.get("how", ""), may_test=principal.role >= Role.OPERATOR,
            form_token=self.site.access.form_token(principal),
        )  # fmt: skip

    def config(self, request: Request) -> Response:
        """Show the settings of this process, the changed ones first, without secrets."""
        rows = [
            (
                variable(name),
                setting_value(self.site.settings.value_of(name)),
                setting_field(name).description,
                self.site.settings.is_changed(name),
            )
            for name in TABLE_OF
            if name != "enabled"  # of the hook: always off in this process
        ]
        rows.sort(key=lambda row: not row[3])
        return self.site.page(request, "config.html", rows=rows)

    @needs(Role.OPERATOR)
    def audit(self, request: Request) -> Response:
        """List who did and saw what."""
        with self.site.store.read() as connection:
            acts = newest_acts(connection)
        return self.site.page(request, "audit.html", acts=acts)
