"""What operators may do: acknowledge, silence, test a channel; each act is recorded."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import wraps
from typing import Any, Protocol, TypeVar
from urllib.parse import parse_qs, urlencode

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from alerts.drill import send_test
from alerts.routing import Matcher, parse_all
from alerts.silencing import Preview, preview
from alerts.store import silences_after
from monitor.errors import DeliveryError, SettingsError
from monitor.web.auth import RefusedError, principal_of
from monitor.web.site import Site
from monitor.web.time_range import incident_path, unslug
from monitor.web.writing import (
    acknowledge_incident,
    check_may_write,
    expire,
    is_about,
    silence_alerts,
)

#: For how many hours an acknowledgement pauses reminders.
ACK_HOURS = (1, 2, 4, 8, 24)

#: For how long, as the form offers it, in minutes.
LASTS: Mapping[str, int] = {
    "30 min": 30, "1 h": 60, "2 h": 120, "4 h": 240, "8 h": 480, "1 d": 1440, "3 d": 4320,
    "7 d": 10_080,
}  # fmt: skip
_BACK = timedelta(days=7)
_MOST_FORM_BYTES = 16_384
_SEE_OTHER = 303
Form = dict[str, str]


class HasSite(Protocol):
    """What endpoints are methods of."""

    @property
    def site(self) -> Site:
        """The store, the settings, who may come in."""


A = TypeVar("A", bound=HasSite)


def posted(
    scope: str,
) -> Callable[
    [Callable[[A, Request, Form], Response]], Callable[[A, Request], Coroutine[Any, Any, Response]]
]:
    """Make an endpoint that runs only if the sender may write and the form is one of ours."""

    def decorate(
        do: Callable[[A, Request, Form], Response],
    ) -> Callable[[A, Request], Coroutine[Any, Any, Response]]:
        @wraps(do)
        async def endpoint(self: A, request: Request) -> Response:
            principal = principal_of(request)
            check_may_write(principal, scope)
            body = b""
            async for part in request.stream():
                body += part
                if len(body) > _MOST_FORM_BYTES:
                    raise RefusedError(413, "the form is too large", "nothing was changed")
            fields = parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True)
            form = {name: values[-1].replace("\0", "") for name, values in fields.items()}
            ours = self.site.access.form_is_ours(form.get("token", ""), principal)
            if not principal.bearer and not ours:
                detail = "load the page again; nothing was changed"
                raise RefusedError(403, "the form is no longer valid", detail)
            return await run_in_threadpool(do, self, request, form)

        return endpoint

    return decorate


def see(path: str) -> Response:
    """Redirect to the page that shows what was done."""
    return RedirectResponse(path, _SEE_OTHER)


@dataclass(frozen=True, slots=True)
class Acts:
    """The endpoints that change something by POST, and the page on which silences are previewed."""

    site: Site

    @posted("acknowledgements")
    def acknowledge(self, request: Request, form: Form) -> Response:
        """Acknowledge an incident: no reminders for some hours."""
        hours = next((n for n in ACK_HOURS if str(n) == form.get("hours")), None)
        if hours is None:
            raise RefusedError(400, "for how long?", "nothing was changed")
        until = self.site.clock() + timedelta(hours=hours)
        acknowledge_incident(self.site, request, note=form.get("note", ""), until=until)
        return see(incident_path(unslug(request.path_params["incident_id"])))

    @posted("channels")
    def test_channel(self, request: Request, form: Form) -> Response:
        """Send a message marked TEST by one channel."""
        name = form.get("channel", "")
        channel = self.site.wiring.channels.get(name)
        if channel is None:
            raise RefusedError(400, "no such channel", "nothing was sent")
        self.site.note(request, "tested channel", name)
        try:
            send_test(channel, self.site.clock())
            how = "sent"
        except DeliveryError as error:
            how = str(error)
        return see(f"/channels?{urlencode({'tried': name, 'how': how})}")

    def silences(self, request: Request) -> Response:
        """List silences and maintenance windows; with matchers, show what they would hold back."""
        asked = {key: request.query_params.get(key, "") for key in ("matchers", "lasts", "comment")}
        return self._silences_page(request, asked)

    @posted("silences")
    def add_silence(self, request: Request, form: Form) -> Response:
        """Add a silence."""
        now, minutes = self.site.clock(), LASTS.get(form.get("lasts", ""), 0)
        try:
            silence_alerts(
                self.site, request, _matchers(form.get("matchers", "")),
                ends_at=now + timedelta(minutes=minutes), comment=form.get("comment", ""),
            )  # fmt: skip
        except SettingsError as error:
            return self._silences_page(request, form, str(error))
        back = form.get("back", "")
        return see(incident_path(back) if back else "/silences")

    @posted("silences")
    def end_silence(self, request: Request, form: Form) -> Response:  # noqa: ARG002  # as acts are called
        """End a silence now."""
        expire(self.site, request)
        return see("/silences")

    def _silences_page(
        self, request: Request, asked: Mapping[str, str], wrong: str = ""
    ) -> Response:
        now, principal = self.site.clock(), principal_of(request)
        plan = self.site.wiring.plan
        shown: Preview | None = None
        with self.site.store.read() as connection:
            found = [
                each
                for each in silences_after(connection, now - _BACK)
                if is_about(each.matchers, principal.apps)
            ]
            if asked.get("matchers", "").strip() and not wrong:
                try:
                    matchers = _matchers(asked["matchers"])
                    shown = preview(connection, plan, matchers, apps=principal.apps)
                except SettingsError as error:
                    wrong = str(error)
        return self.site.page(
            request, "silences.html", code=400 if wrong else 200, wrong=wrong, asked=asked,
            active=[s for s in found if s.ends_at > now],
            over=[s for s in reversed(found) if s.ends_at <= now],
            windows=[
                (window, window.hours.until(now)) for window in plan.maintenance
                if is_about(tuple(window.matchers), principal.apps)
            ],
            preview=shown, lasts=list(LASTS), may_act=principal.may_write("silences"),
            form_token=self.site.access.form_token(principal),
        )  # fmt: skip


def _matchers(text: str) -> tuple[Matcher, ...]:
    """Return the matchers of a text, one per line."""
    return parse_all(line for line in text.splitlines() if line.strip())
