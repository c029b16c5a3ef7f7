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
from alerts.queries import incident
from alerts.routing import Matcher, parse_all
from alerts.silencing import Preview, add_silence, expire_silence, preview
from alerts.store import acknowledge, silences_after
from monitor.errors import DeliveryError, SettingsError
from monitor.store.samples import note_act
from monitor.web import time_range
from monitor.web.auth import Role, principal_of
from monitor.web.site import Site, refused

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
    do: Callable[[A, Request, Form], Response],
) -> Callable[[A, Request], Coroutine[Any, Any, Response]]:
    """Make *do* an endpoint that runs only if the sender may act and the form is one of ours."""

    @wraps(do)
    async def endpoint(self: A, request: Request) -> Response:
        principal = principal_of(request)
        if principal.role < Role.OPERATOR:
            return refused(request, 403, "this needs the role operator", "nothing was changed")
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > _MOST_FORM_BYTES:
                return refused(request, 413, "the form is too large", "nothing was changed")
        fields = parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True)
        form = {name: values[-1].replace("\0", "") for name, values in fields.items()}
        ours = self.site.access.form_is_ours(form.get("token", ""), principal)
        if not principal.bearer and not ours:
            detail = "load the page again; nothing was changed"
            return refused(request, 403, "the form is no longer valid", detail)
        return await run_in_threadpool(do, self, request, form)

    return endpoint


def see(path: str) -> Response:
    """Redirect to the page that shows what was done."""
    return RedirectResponse(path, _SEE_OTHER)


def note(site: Site, request: Request, what: str, target: str) -> None:
    """Record an operator's act."""
    with site.store.write() as connection:
        note_act(
            connection, who=principal_of(request).name, act=what, target=target[:400],
            at=site.clock(),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Acts:
    """The endpoints that change something by POST, and the page on which silences are previewed."""

    site: Site

    @posted
    def acknowledge(self, request: Request, form: Form) -> Response:
        """Acknowledge an incident: no reminders for some hours."""
        incident_id = time_range.unslug(request.path_params["incident_id"])
        hours = next((n for n in ACK_HOURS if str(n) == form.get("hours")), None)
        if hours is None:
            return refused(request, 400, "for how long?", "nothing was changed")
        now = self.site.clock()
        with self.site.store.write() as connection:
            found = incident(connection, incident_id)
            if found is None or not acknowledge(
                connection,
                found.incident_id,
                by=principal_of(request).name,
                note=form.get("note", ""),
                now=now,
                until=now + timedelta(hours=hours),
            ):
                return refused(request, 409, "the incident is over", "nothing was changed")
        note(self.site, request, "acknowledged incident", incident_id)
        return see(time_range.incident_path(incident_id))

    @posted
    def test_channel(self, request: Request, form: Form) -> Response:
        """Send a message marked TEST by one channel."""
        name = form.get("channel", "")
        channel = self.site.wiring.channels.get(name)
        if channel is None:
            return refused(request, 400, "no such channel", "nothing was sent")
        note(self.site, request, "tested channel", name)
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

    @posted
    def add_silence(self, request: Request, form: Form) -> Response:
        """Add a silence."""
        now, minutes = self.site.clock(), LASTS.get(form.get("lasts", ""), 0)
        try:
            matchers = _matchers(form.get("matchers", ""))
            with self.site.store.write() as connection:
                made = add_silence(
                    connection, matchers, now=now, ends_at=now + timedelta(minutes=minutes),
                    author=principal_of(request).name, comment=form.get("comment", ""),
                )  # fmt: skip
        except SettingsError as error:
            return self._silences_page(request, form, str(error))
        said = f"{made.silence_id} {' '.join(map(str, made.matchers))}"
        note(self.site, request, "added silence", said)
        back = form.get("back", "")
        return see(time_range.incident_path(back) if back else "/silences")

    @posted
    def end_silence(self, request: Request, form: Form) -> Response:  # noqa: ARG002  # as acts are called
        """End a silence now."""
        silence_id = time_range.unslug(request.path_params["silence_id"])
        with self.site.store.write() as connection:
            ended = expire_silence(connection, silence_id, self.site.clock())
        if not ended:
            return refused(request, 409, "no such silence", "it may be over already")
        note(self.site, request, "ended silence", silence_id)
        return see("/silences")

    def _silences_page(
        self, request: Request, asked: Mapping[str, str], wrong: str = ""
    ) -> Response:
        now, principal = self.site.clock(), principal_of(request)
        plan = self.site.wiring.plan
        shown: Preview | None = None
        with self.site.store.read() as connection:
            found = silences_after(connection, now - _BACK)
            if asked.get("matchers", "").strip() and not wrong:
                try:
                    shown = preview(connection, plan, _matchers(asked["matchers"]))
                except SettingsError as error:
                    wrong = str(error)
        return self.site.page(
            request, "silences.html", code=400 if wrong else 200, wrong=wrong, asked=asked,
            active=[s for s in found if s.ends_at > now],
            over=[s for s in reversed(found) if s.ends_at <= now],
            windows=[(window, window.hours.until(now)) for window in plan.maintenance],
            preview=shown, lasts=list(LASTS), may_act=principal.role >= Role.OPERATOR,
            form_token=self.site.access.form_token(principal),
        )  # fmt: skip


def _matchers(text: str) -> tuple[Matcher, ...]:
    """Return the matchers of a text, one per line."""
    return parse_all(line for line in text.splitlines() if line.strip())
