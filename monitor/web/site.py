"""What all pages share: the store, the settings, the snapshot, the templates."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import redis
import structlog
from jinja2 import Environment
from pydantic import BaseModel
from sqlalchemy import Connection
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from alerts.dispatch import Wiring, wiring_from
from alerts.model import Snapshot
from alerts.queries import deliveries, incident, incidents_since, snapshots
from monitor.errors import GroundwatchError
from monitor.models import Delivery, Incident, Status
from monitor.queue.consumer import backlog, connect
from monitor.queue.snapshot import read_events, read_stalls
from monitor.settings import Settings
from monitor.store.engine import Store
from monitor.store.samples import note_act
from monitor.web import templating
from monitor.web.auth import Access, path_of, principal_of
from monitor.web.charts import ChartThresholds
from monitor.web.overview import Overview, OverviewReader, PipelineState
from workers.reports import read_faults

if TYPE_CHECKING:
    from monitor.rolling.faults import Faults

#: What an app's own pages load, to send what their users say.
FEEDBACK_SCRIPT = "feedback.js"
_ASSETS = ("style.css", "page.js", "chart.js", FEEDBACK_SCRIPT)
#: Pages on which texts of samples may be.
_WITH_TEXTS = frozenset({
    "app.html", "incident.html", "label_queue.html", "metric.html", "releases.html", "sample.html",
    "samples.html",
})  # fmt: skip
#: Stands in the page for the moment it was made, which must not change its tag.
_MADE_AT = "@made-at@"
#: Values that took long to compute, of which so many are remembered.
_MOST_KNOWN = 200
#: Failure modes and blame are computed again after so long. A page waits so long for them, and
#: goes without them after that; who needs them waits so long at most.
_EXPLAINED_S, EXPLANATION_WAIT_S, MOST_WAIT_S = 600.0, 2.0, 20.0
T = TypeVar("T")

log = structlog.get_logger("groundwatch.web")


@dataclass(slots=True)
class _Known:
    value: Any = None
    asked_at: float = 0.0
    running: Future[None] | None = None


@dataclass(slots=True)
class SlowValues:
    """Values that are computed one after the other on a thread of their own, and remembered."""

    _pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "explained"))
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _known: dict[Hashable, _Known] = field(default_factory=dict)

    def get(
        self, key: Hashable, make: Callable[[], T], *, fresh_s: float, wait_s: float = 0.0
    ) -> T | None:
        """
        Return what *make* returned last for *key*; None until it has for the first time.

        It runs again where that is more than *fresh_s* seconds old. *wait_s* bounds the wait.
        """

        def compute(known: _Known) -> None:
            try:
                known.value = make()
            except Exception as error:  # noqa: BLE001  # a page goes without it
                log.warning("explanation_failed", error=type(error).__name__)

        with self._lock:
            known = self._known.setdefault(key, _Known())
            age_s = time.monotonic() - known.asked_at
            if known.running is None or (known.running.done() and age_s > fresh_s):
                known.asked_at = time.monotonic()
                known.running = self._pool.submit(compute, known)
            for old in list(self._known)[:-_MOST_KNOWN]:
                del self._known[old]
        wait([known.running], wait_s)
        return cast("T | None", known.value)

    def close(self) -> None:
        """End; what is being computed is finished, the rest is not begun."""
        self._pool.shutdown(cancel_futures=True)


@dataclass
class Site:
    """One a process; everything that the pages read goes through it."""

    store: Store
    settings: Settings
    clock: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))
    slow: SlowValues = field(default_factory=SlowValues)

    @cached_property
    def access(self) -> Access:
        """Who may come in."""
        return Access(self.settings, self.store)

    @cached_property
    def overview(self) -> OverviewReader:
        """The snapshot that all viewers share."""
        return OverviewReader(self.store, self.settings, self.clock, self.queue_state)

    def overview_for(self, request: Request) -> Overview:
        """Return the snapshot as far as who asks may see it."""
        apps = principal_of(request).apps
        found = self.overview.read()
        return found if apps is None else found.narrowed(apps)

    @cached_property
    def wiring(self) -> Wiring:
        """The ways to reach people, and who gets which messages."""
        return wiring_from(self.settings)

    @cached_property
    def templates(self) -> Environment:
        """The pages."""
        return templating.environment()

    @cached_property
    def assets(self) -> dict[str, tuple[bytes, str]]:
        """Style sheet and scripts by name, each with a hash of its contents."""
        folder = files("monitor.web") / "static"
        found = {name: (folder / name).read_bytes() for name in _ASSETS}
        return {name: (body, hashlib.sha256(body).hexdigest()[:16]) for name, body in found.items()}

    @property
    def lines(self) -> ChartThresholds:
        """The rates at which a status turns."""
        return ChartThresholds(
            warning=self.settings.warning_rate, critical=self.settings.critical_rate
        )

    def page(
        self, request: Request, template: str, *, code: int = 200, **values: object
    ) -> Response:
        """Return a filled template; no browser may store one that holds texts of samples."""
        page = self.answer(request, self.fill(request, template, **values), code=code)
        if template in _WITH_TEXTS:
            page.headers["Cache-Control"] = "no-store"
        return page

    def fill(self, request: Request, template: str, **values: object) -> str:
        """Return the text of a filled template."""
        now = self.clock()
        status = values.pop("status", None)
        if status is None:
            try:
                status = self.overview_for(request).report.status
            except GroundwatchError:
                status = Status.BLIND
        return self.templates.get_template(template).render(
            request=request,
            path=path_of(request),
            principal=request.scope.get("user"),
            status=status,
            now=now,
            made_at=_MADE_AT,
            lines=self.lines,
            settings=self.settings,
            assets={name: tag for name, (_, tag) in self.assets.items()},
            **values,
        )

    def answer(self, request: Request, text: str, *, code: int = 200) -> Response:
        """Send a filled template; unchanged since the tag that the browser sent, answer 304."""
        now = self.clock()
        tag = f'W/"{hashlib.sha256(text.encode()).hexdigest()[:32]}"'
        headers = {
            "ETag": tag,
            "Cache-Control": "private, no-cache",
            "X-Groundwatch-Made-At": templating.iso(now),
            "Vary": "Accept-Encoding",
        }
        if code == 200 and tag in request.headers.get("if-none-match", ""):  # noqa: PLR2004
            return Response(status_code=304, headers=headers)
        return HTMLResponse(text.replace(_MADE_AT, templating.iso(now)), code, headers)

    def faults(
        self,
        of: Hashable,
        app: str,
        metric: str,
        *,
        since: datetime,
        until: datetime | None = None,
        wait_s: float = EXPLANATION_WAIT_S,
    ) -> Faults | None:
        """Return what the samples say of a fall, remembered as that *of*; None until computed."""
        return self.slow.get(
            ("faults", of), lambda: read_faults(self.store, app, metric, since=since, until=until),
            fresh_s=_EXPLAINED_S, wait_s=wait_s,
        )  # fmt: skip

    def missing(self, request: Request, what: str) -> Response:
        """Return a page that says that there is no such page."""
        return self.page(
            request, "error.html", code=404, status=Status.INSUFFICIENT_DATA,
            heading="Not found", said=what,
        )  # fmt: skip

    def note(self, request: Request, act: str, target: str) -> None:
        """Record what somebody did."""
        with self.store.write() as connection:
            note_act(
                connection, who=principal_of(request).name, act=act, target=target,
                at=self.clock(),
            )  # fmt: skip

    def note_view(self, request: Request, act: str, target: str) -> None:
        """Record a view of transcripts, if users have names."""
        if principal_of(request).bearer or not self.access.is_open:
            self.note(request, act, target)

    def close(self) -> None:
        """Close all connections."""
        self.slow.close()
        self.store.close()
        if "_redis" in vars(self):
            self._redis.close()

    @cached_property
    def _redis(self) -> redis.Redis:
        return connect(self.settings.broker_url, timeout_s=1.0)

    def queue_state(self) -> PipelineState:
        """Return what Redis knows of the queue; nothing while it does not answer."""
        try:
            found = backlog(self._redis)
            return PipelineState(
                waiting=found.waiting, oldest_s=found.oldest_age_s,
                stalls=read_stalls(self._redis).count, events=read_events(self._redis),
            )  # fmt: skip
        except (GroundwatchError, redis.RedisError):
            return PipelineState()


@dataclass(frozen=True, slots=True)
class Endpoints:
    """What endpoints are methods of."""

    site: Site


class SeenIncident(NamedTuple):
    """
    One incident as far as who asks may see it.

    Unless ``is_whole``, it is about other apps as well: it cannot be acknowledged, and whom it was
    sent to is not shown.
    """

    incident: Incident
    events: list[Snapshot]
    deliveries: list[Delivery]
    is_whole: bool


def incidents_for(
    request: Request, connection: Connection, since: datetime, app: str | None = None
) -> list[Incident]:
    """Return the incidents since then that who asks may see, the newest first."""
    apps, found = principal_of(request).apps, incidents_since(connection, since, app=app)
    if apps is None:
        return found
    return [left for item in found if (left := item.narrowed(apps)) is not None]


def incident_for(request: Request, connection: Connection) -> SeenIncident | None:
    """Return the incident in the path with its evidence; None if who asks may see none."""
    found = incident(connection, request.path_params["incident_id"])
    apps = principal_of(request).apps
    seen = found if found is None or apps is None else found.narrowed(apps)
    if found is None or seen is None:
        return None
    events = snapshots(connection, found.incident_id)
    sent = deliveries(connection, incident_id=found.incident_id)
    if apps is None or apps.issuperset(found.apps):
        return SeenIncident(seen, events, sent, is_whole=True)
    mine = [
        event.model_copy(
            update={"others": (), "recovered": (), "more": 0, "cause": None, "shared_cause": ""}
        )
        for event in events
        if event.verdict.app in apps
    ]
    return SeenIncident(seen, mine, [], is_whole=False)


def answer_json(value: BaseModel) -> Response:
    """Return a value of the API."""
    return Response(value.model_dump_json(), media_type="application/json")
