"""The page of silences: what is quiet and why; operators add and end them here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from starlette.requests import Request
from starlette.responses import Response

from alerts.routing.matchers import Matcher, parse_all
from alerts.silence_preview import Preview, preview
from alerts.stored_silences import add_silence, expire_silence, silences_after
from monitor.errors import SettingsError
from monitor.web import names
from monitor.web.access import Role
from monitor.web.forms import Form, act, note, refused, see
from monitor.web.guard import principal_of
from monitor.web.site import Site

#: For how long, as the form offers it, in minutes.
LASTS: Mapping[str, int] = {
    "30 min": 30, "1 h": 60, "2 h": 120, "4 h": 240, "8 h": 480, "1 d": 1440, "3 d": 4320,
    "7 d": 10_080,
}  # fmt: skip
_BACK = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Silences:
    """The endpoints about silences; a preview is a GET and changes nothing."""

    site: Site

    def page(self, request: Request) -> Response:
        """List silences and maintenance windows; with matchers, show what they would hold back."""
        asked = {key: request.query_params.get(key, "") for key in ("matchers", "lasts", "comment")}
        return self._page(request, asked)

    async def add(self, request: Request) -> Response:
        """Add a silence."""
        return await act(self.site, request, self._add)

    async def end(self, request: Request) -> Response:
        """End a silence now."""
        return await act(self.site, request, self._end)

    def _add(self, request: Request, form: Form) -> Response:
        now, minutes = self.site.clock(), LASTS.get(form.get("lasts", ""), 0)
        try:
            matchers = _matchers(form.get("matchers", ""))
            with self.site.store.write() as connection:
                made = add_silence(
                    connection, matchers, now=now, ends_at=now + timedelta(minutes=minutes),
                    author=principal_of(request).name, comment=form.get("comment", ""),
                )  # fmt: skip
        except SettingsError as error:
            return self._page(request, form, str(error))
        said = f"{made.hush_id} {' '.join(map(str, made.matchers))}"
        note(self.site, request, "added silence", said)
        return see("/silences")

    def _end(self, request: Request, form: Form) -> Response:  # noqa: ARG002  # as acts are called
        silence_id = names.unslug(request.path_params["silence_id"])
        with self.site.store.write() as connection:
            ended = expire_silence(connection, silence_id, self.site.clock())
        if not ended:
            return refused(request, 409, "no such silence", "it may be over already")
        note(self.site, request, "ended silence", silence_id)
        return see("/silences")

    def _page(self, request: Request, asked: Mapping[str, str], wrong: str = "") -> Response:
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
    """Read one matcher a line."""
    return parse_all(line for line in text.splitlines() if line.strip())
