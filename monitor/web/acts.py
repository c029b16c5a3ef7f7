"""What operators may do: label an evaluation, try a channel; each act is written down."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import parse_qs, urlencode

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from alerts.try_channel import send_test
from monitor.errors import DeliveryError
from monitor.store.labels import Label, note_act, save_label
from monitor.store.one_sample import read_sample
from monitor.web import names
from monitor.web.access import Role
from monitor.web.guard import principal_of
from monitor.web.site import Site

_MOST_FORM_BYTES = 16_384
_MOST_NOTE_CHARS = 500
Form = dict[str, str]
_SEE_OTHER = 303


@dataclass(frozen=True, slots=True)
class Acts:
    """The endpoints that change something; all of them POST."""

    site: Site

    async def label(self, request: Request) -> Response:
        """Store what a person says of one evaluation."""
        return await self._act(request, self._label)

    async def test_channel(self, request: Request) -> Response:
        """Send a message marked TEST by one channel."""
        return await self._act(request, self._test_channel)

    async def _act(self, request: Request, do: Callable[[Request, Form], Response]) -> Response:
        principal = principal_of(request)
        refuse = request.app.state.refuse
        if principal.role < Role.OPERATOR:
            return refuse(request, 403, "this needs the role operator", "nothing was changed")  # type: ignore[no-any-return]
        form = await _read_form(request)
        if form is None:
            return refuse(request, 413, "the form is too large", "nothing was changed")  # type: ignore[no-any-return]
        if not principal.bearer and not self.site.access.form_is_ours(
            form.get("token", ""), principal
        ):
            return refuse(  # type: ignore[no-any-return]
                request,
                403,
                "the form is no longer valid",
                "load the page again; nothing was changed",
            )
        return await run_in_threadpool(do, request, form)

    def _label(self, request: Request, form: Form) -> Response:
        sample_id = names.unslug(request.path_params["sample_id"])
        with self.site.store.read() as connection:
            found = read_sample(connection, sample_id)
        wanted = (form.get("metric"), form.get("evaluator_version"))
        of = next(
            (e for e in (found.evaluations if found else ())
             if (e.metric, e.evaluator_version) == wanted and e.passed is not None),
            None,
        )  # fmt: skip
        if (
            found is None
            or of is None
            or of.passed is None
            or form.get("judge") not in {"right", "wrong"}
        ):
            return request.app.state.refuse(  # type: ignore[no-any-return]
                request, 400, "no such evaluation", "nothing was stored"
            )
        now, who = self.site.clock(), principal_of(request).name
        label = Label(
            sample_id=sample_id,
            app=found.sample.interaction.app,
            metric=of.metric,
            evaluator_version=of.evaluator_version,
            labelled_by=who,
            judge_passed=of.passed,
            human_passed=of.passed == (form["judge"] == "right"),
            note=form.get("note", "").replace("\0", "")[:_MOST_NOTE_CHARS],
            labelled_at=now,
        )
        with self.site.store.write() as connection:
            save_label(connection, label)
            note_act(
                connection, who=who, act=f"said the judge was {form['judge']}",
                target=f"{sample_id} {of.metric}", at=now,
            )  # fmt: skip
        return RedirectResponse(names.sample_path(sample_id), _SEE_OTHER)

    def _test_channel(self, request: Request, form: Form) -> Response:
        name = form.get("channel", "")
        channel = self.site.channels.get(name)
        if channel is None:
            return request.app.state.refuse(  # type: ignore[no-any-return]
                request, 400, "no such channel", "nothing was sent"
            )
        now = self.site.clock()
        with self.site.store.write() as connection:
            note_act(
                connection,
                who=principal_of(request).name,
                act="tested channel",
                target=name,
                at=now,
            )
        try:
            send_test(channel, now)
            how = "sent"
        except DeliveryError as error:
            how = str(error)
        return RedirectResponse(f"/channels?{urlencode({'tried': name, 'how': how})}", _SEE_OTHER)


async def _read_form(request: Request) -> Form | None:
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _MOST_FORM_BYTES:
            return None
    fields = parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True)
    return {name: values[-1] for name, values in fields.items()}
