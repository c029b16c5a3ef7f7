"""The application for an ASGI server: routes, refusals, and what keeps them apart."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus

import structlog
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from monitor.errors import GroundwatchError
from monitor.models import Status
from monitor.web import charts
from monitor.web.api import Api
from monitor.web.app_pages import AppPages, IncidentPages
from monitor.web.auth import FEEDBACK_PATH, AccessBackend, RefusedError, SecureHeaders, path_of
from monitor.web.auth import GuardedRoute as Route
from monitor.web.labelling import FeedbackInbox, Labelling
from monitor.web.pages import Pages
from monitor.web.samples import SampleViews
from monitor.web.schema import OPERATIONS, SAMPLE_QUERY
from monitor.web.site import FEEDBACK_SCRIPT, Endpoints, Site
from monitor.web.writing import Changes, Writing

_A_YEAR = "public, max-age=31536000, immutable"
_TYPES = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8"}
#: A page of less is not worth packing.
_PACK_FROM_BYTES = 1_000

log = structlog.get_logger("groundwatch.web")


def make_app(site: Site) -> Starlette:
    """
    Make the application; its site is closed when the server ends.

    Raise SettingsError if tokens, users or proxies are not written as they should be, or the routes
    file has mistakes.
    """
    _ = site.access, site.wiring
    refuse = _Refusals(site)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        site.close()

    pages, apps, incident = Pages(site), AppPages(site), IncidentPages(site)
    samples, files, inbox = SampleViews(site), Files(site), FeedbackInbox(site)
    api, writing, changes, labelling = Api(site), Writing(site), Changes(site), Labelling(site)
    endpoints = {
        "status": api.status, "metrics": api.metrics, "apps_metrics_one": api.metric,
        "apps_metrics_series": api.series, "incidents": api.incidents,
        "incidents_one": api.incident, "samples": samples.api_list,
        "samples_one": samples.api_sample, "deploys": writing.deploys,
        "silences": writing.silences, "test-cases": writing.cases, "labels": labelling.agreement,
        "deploys_post": writing.add_deploy, "silences_post": writing.add_silence,
        "incidents_acknowledgements_post": writing.add_acknowledgement,
        "silences_one_delete": writing.end_silence, "labels_post": labelling.take,
        "feedback_post": inbox.take, "test-cases_post": writing.make_cases,
    }  # fmt: skip
    routes = [
        Route("/", pages.overview),
        Route("/app/{app}", apps.overview),
        Route("/app/{app}/{metric}", pages.metric),
        Route("/releases/{app}", apps.releases),
        Route("/sample/{sample_id}/case.jsonl", samples.case),
        Route("/sample/{sample_id}/label", labelling.label, methods=["POST"]),
        Route("/labels", labelling.queue),
        Route("/labels", labelling.decide, methods=["POST"]),
        Route("/samples", samples.page),
        Route("/samples.{form}", samples.export, query=SAMPLE_QUERY),
        Route("/sample/{sample_id}", samples.sample),
        Route("/incidents", pages.incidents),
        Route("/incidents/{incident_id}.md", incident.markdown),
        Route("/incidents/{incident_id}", incident.page),
        Route("/incidents/{incident_id}/ack", changes.acknowledge, methods=["POST"]),
        Route("/silences", changes.silences),
        Route("/silences", changes.add_silence, methods=["POST"]),
        Route("/silences/{silence_id}/end", changes.end_silence, methods=["POST"]),
        Route("/noise", pages.noise),
        Route("/channels", pages.channels, whole=True),
        Route("/channels/test", changes.test_channel, methods=["POST"], whole=True),
        Route("/config", pages.config, whole=True),
        Route("/audit", pages.audit, whole=True),
        *(Route(each.path, endpoints[each.name], methods=[each.method.upper()],
                query=each.query)
          for each in OPERATIONS),
        Route(FEEDBACK_PATH, inbox.take, methods=["OPTIONS"]),  # a browser asks before it posts
        Route("/api/v1/openapi.json", api.openapi),
        Route("/metrics", api.prometheus),
        Route("/badge/{app}.svg", api.badge),
        Route("/static/{name}", files.asset),
        Route("/favicon/{status}.svg", files.icon),
        Route("/healthz", files.alive),
        Route("/readyz", files.ready),
    ]  # fmt: skip
    errors = (HTTPException, GroundwatchError, RefusedError, Exception)
    return Starlette(
        routes=routes,
        lifespan=lifespan,
        middleware=[
            Middleware(SecureHeaders),
            Middleware(
                AuthenticationMiddleware,
                backend=AccessBackend(site.access),
                on_error=refuse.on_refused,
            ),
            Middleware(GZipMiddleware, minimum_size=_PACK_FROM_BYTES, compresslevel=5),
        ],
        exception_handlers=dict.fromkeys(errors, refuse.on_error),
    )


class Files(Endpoints):
    """What holds no data and is open to everybody: style, scripts, icons, whether it serves."""

    def asset(self, request: Request) -> Response:
        """Return the style sheet or a script."""
        name = request.path_params["name"]
        if name not in self.site.assets:
            raise HTTPException(404)
        body, tag = self.site.assets[name]
        headers = {"Cache-Control": _A_YEAR, "ETag": f'"{tag}"'}
        if name == FEEDBACK_SCRIPT:  # for pages of other sites, which do not know its hash
            headers |= {
                "Cache-Control": "public, max-age=3600",
                "Cross-Origin-Resource-Policy": "cross-origin",
            }
        return Response(body, media_type=_TYPES[name.rsplit(".")[-1]], headers=headers)

    def icon(self, request: Request) -> Response:
        """Return the icon of a status."""
        try:
            drawn = charts.favicon(Status(request.path_params["status"]))
        except ValueError:
            raise HTTPException(404) from None
        return Response(drawn, media_type="image/svg+xml", headers={"Cache-Control": _A_YEAR})

    def alive(self, _: Request) -> Response:
        """Answer while the process lives."""
        return PlainTextResponse("ok\n")

    def ready(self, _: Request) -> Response:
        """Answer whether the store does."""
        try:
            self.site.store.check_reachable()
        except GroundwatchError:
            return PlainTextResponse("the store does not answer\n", 503)
        # Who started this process can tell it from another on the same port.
        return PlainTextResponse("ok\n", headers={"Groundwatch-Process": str(os.getpid())})


class _Refusals:
    """Answers refusals and failures: a page for people, problem details for programs."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def __call__(self, request: Request, code: int, title: str, detail: str) -> Response:
        """Refuse a request (RFC 9457 for the API)."""
        path = path_of(request)
        if path.startswith("/api/") or path == "/metrics":
            body = {"type": "about:blank", "title": title, "status": code, "detail": detail}
            return JSONResponse(body, code, media_type="application/problem+json")
        if code in {401, 421, 429}:
            return PlainTextResponse(f"{title}: {detail}\n", code)
        return self._site.page(
            request, "error.html", code=code, status=Status.INSUFFICIENT_DATA,
            heading=title[:1].upper() + title[1:], said=detail,
        )  # fmt: skip

    def on_refused(self, conn: HTTPConnection, error: Exception) -> Response:
        """Refuse whom `AccessBackend` did not let in."""
        assert isinstance(error, RefusedError)
        answer = self(Request(conn.scope), error.code, error.title, error.detail)
        answer.headers.update(error.headers)
        return answer

    async def on_error(self, request: Request, error: Exception) -> Response:
        """Answer an error; the log names the kind of one that should not have been only."""
        name = type(error).__name__
        if isinstance(error, RefusedError):
            return self.on_refused(request, error)
        if isinstance(error, HTTPException):  # of the router
            title = HTTPStatus(error.status_code).phrase.lower()
            return self(request, error.status_code, title, "there is nothing at this address")
        if isinstance(error, GroundwatchError):
            log.warning("page_not_served", error=name)
            why = "the store cannot be read; is it there?"
            return self(request, 503, "not possible now", why)
        log.error("page_failed", error=name, path=path_of(request)[:200])
        return PlainTextResponse("something is wrong with this page; it is in the log\n", 500)
