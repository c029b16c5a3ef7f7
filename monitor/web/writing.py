"""What people change by forms and programs by JSON, so that CI needs no database; all recorded."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Mapping
from datetime import datetime, timedelta
from functools import wraps
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlencode

from pydantic import BaseModel, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from alerts.drill import send_test
from alerts.routing import Matcher, Silence, parse_all
from alerts.silencing import Preview, add_silence, expire_silence, preview
from alerts.store import Ack, acknowledge, silence_named, silences_after
from monitor.errors import DeliveryError, RecordError, SettingsError, first_mistake
from monitor.format import plain_text
from monitor.store.labels import USUAL_METRIC, labels_of
from monitor.store.samples import read_sample
from monitor.store.verdicts import ReleaseMark, add_mark, read_release_marks
from monitor.testsets.golden import golden_case, golden_set
from monitor.web import schema
from monitor.web.auth import Principal, RefusedError, Role, needs, principal_of, read_number
from monitor.web.site import Endpoints, Site, answer_json, incident_for
from monitor.web.time_range import incident_path

#: For how many hours an acknowledgement pauses reminders.
ACK_HOURS = (1, 2, 4, 8, 24)
#: For how long a silence lasts, as the form offers it, in minutes.
LASTS: Mapping[str, int] = {
    "30 min": 30, "1 h": 60, "2 h": 120, "4 h": 240, "8 h": 480, "1 d": 1440, "3 d": 4320,
    "7 d": 10_080,
}  # fmt: skip
_MOST_BODY_BYTES, _SEE_OTHER, _MOST_ANNOTATORS = 20_000, 303, 100
_DEPLOYS_BACK, _ENDED_BACK = timedelta(days=90), timedelta(days=7)
#: The clocks of those who deploy may be ahead of ours.
_MOST_AHEAD = timedelta(minutes=5)
Form = dict[str, str]


A = TypeVar("A", bound=Endpoints)
M = TypeVar("M", bound=BaseModel)
Endpoint = Callable[[A, Request], Coroutine[Any, Any, Response]]


async def _read_body(request: Request, most_bytes: int) -> bytes:
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > most_bytes:
            detail = f"send at most {most_bytes:,} bytes; nothing was changed"
            raise RefusedError(413, "the body is too large", detail)
    return body


async def read_json(request: Request, most_bytes: int) -> object:
    """Read the JSON body of a request; raise RefusedError if it is none, or too large."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise RefusedError(415, "JSON is expected", "send Content-Type: application/json")
    try:
        found: object = json.loads(await _read_body(request, most_bytes))
    except (ValueError, RecursionError) as error:
        raise RefusedError(400, "no JSON", plain_text(str(error), 200)) from None
    return found


def read_shape(shape: type[M], body: object) -> M:
    """
    Read a value of *shape* out of a body.

    Raise RefusedError if it is none; it names the field, and what is wrong with it.
    """
    try:
        return shape.model_validate(body)
    except ValidationError as error:
        where, what = first_mistake(error)
        detail = f"{where or 'body'}: {what}; nothing was stored"
        raise RefusedError(400, "the body is wrong", plain_text(detail, 400)) from None


def check_may_write(principal: Principal, scope: str, *apps: str) -> None:
    """
    Check that somebody may write what *scope* is about, of these apps.

    Raise RefusedError if not.
    """
    if not principal.may_write(scope):
        title = f"this needs the role operator, or a token with the scope {scope}"
        raise RefusedError(403, title, "nothing was changed")
    if not principal.may_see(*apps):
        names = ", ".join(sorted(principal.apps or ()))
        raise RefusedError(403, "not one of your apps", f"you may write of: {names}")


def writes(
    shape: type[M], scope: str
) -> Callable[[Callable[[A, Request, M], BaseModel]], Endpoint[A]]:
    """Make an endpoint of a method that takes a body of *shape*, from who may write *scope*."""

    def decorate(do: Callable[[A, Request, M], BaseModel]) -> Endpoint[A]:
        @wraps(do)
        async def endpoint(self: A, request: Request) -> Response:
            check_may_write(principal_of(request), scope)
            sent = read_shape(shape, await read_json(request, _MOST_BODY_BYTES))
            try:
                return answer_json(await run_in_threadpool(do, self, request, sent))
            except SettingsError as error:
                raise RefusedError(400, "the body is wrong", plain_text(str(error), 400)) from None

        return endpoint

    return decorate


def posted(scope: str) -> Callable[[Callable[[A, Request, Form], Response]], Endpoint[A]]:
    """Make an endpoint that runs only if the sender may write and the form is one of ours."""

    def decorate(do: Callable[[A, Request, Form], Response]) -> Endpoint[A]:
        @wraps(do)
        async def endpoint(self: A, request: Request) -> Response:
            principal = principal_of(request)
            check_may_write(principal, scope)
            body = (await _read_body(request, _MOST_BODY_BYTES)).decode("utf-8", "replace")
            fields = parse_qs(body, keep_blank_values=True)
            form = {name: values[-1].replace("\0", "") for name, values in fields.items()}
            ours = self.site.access.form_is_ours(form.get("token", ""), principal)
            if not principal.bearer and not ours:
                detail = "load the page again; nothing was changed"
                raise RefusedError(403, "the form is no longer valid", detail)
            return await run_in_threadpool(do, self, request, form)

        return endpoint

    return decorate


def redirect(path: str) -> Response:
    """Redirect to the page that shows what was done."""
    return RedirectResponse(path, _SEE_OTHER)


class Writing(Endpoints):
    """The endpoints by which programs write, and those that list what was written."""

    def deploys(self, request: Request) -> Response:
        """List the deploys of ninety days, the newest first."""
        since, app = self.site.clock() - _DEPLOYS_BACK, request.query_params.get("app")
        with self.site.store.read() as connection:
            marks = read_release_marks(connection, app=app, since=since)
        seen = [mark for mark in reversed(marks) if principal_of(request).may_see(mark.app)]
        return answer_json(
            schema.DeploysAnswer(items=[schema.DeployAnswer.read(mark) for mark in seen])
        )

    @writes(schema.SentDeploy, "deploys")
    def add_deploy(self, request: Request, sent: schema.SentDeploy) -> BaseModel:
        """Record a deploy."""
        check_may_write(principal_of(request), "deploys", sent.app)
        now = self.site.clock()
        mark = ReleaseMark(sent.app, sent.release, sent.at or now, sent.note, now)
        if mark.at > now + _MOST_AHEAD:
            raise SettingsError("at: is still to come; send a deploy when it is out")
        with self.site.store.write() as connection:
            add_mark(connection, mark)
        self.site.note(request, "recorded deploy", f"{mark.app} {mark.release}")
        return schema.DeployAnswer.read(mark)

    @writes(schema.SentAcknowledgement, "acknowledgements")
    def add_acknowledgement(self, request: Request, sent: schema.SentAcknowledgement) -> BaseModel:
        """Acknowledge an incident."""
        until = self.site.clock() + timedelta(hours=sent.hours)
        ack = acknowledge_incident(self.site, request, note=sent.note, until=until)
        return schema.AcknowledgementAnswer.read(ack)

    def silences(self, request: Request) -> Response:
        """List the silences that are not over."""
        with self.site.store.read() as connection:
            found = silences_after(connection, self.site.clock())
        seen = [s for s in found if is_about(s.matchers, principal_of(request).apps)]
        return answer_json(
            schema.SilencesAnswer(items=[schema.SilenceAnswer.read(item) for item in seen])
        )

    @writes(schema.SentSilence, "silences")
    def add_silence(self, request: Request, sent: schema.SentSilence) -> BaseModel:
        """Add a silence."""
        begins = sent.starts_at or self.site.clock()
        made = silence_alerts(
            self.site, request, parse_all(sent.matchers), starts_at=begins,
            ends_at=begins + timedelta(hours=sent.hours), comment=sent.comment,
        )  # fmt: skip
        return schema.SilenceAnswer.read(made)

    def end_silence(self, request: Request) -> Response:
        """End a silence."""
        return answer_json(schema.SilenceAnswer.read(expire(self.site, request)))

    @needs(Role.READER)
    def cases(self, request: Request) -> Response:
        """Return what people labelled as test cases, by majority."""
        query = request.query_params
        app, least = query.get("app", ""), read_number(request, "annotators", 1, _MOST_ANNOTATORS)
        if not app:
            raise RefusedError(400, "a parameter is wrong", "expected app=NAME")
        with self.site.store.read() as connection:
            found = golden_set(
                connection, app=app, metric=query.get("metric", USUAL_METRIC), annotators=least
            )
        self.site.note_view(request, "took test cases", app)
        left_out = [schema.LeftOut(sample_id=name, reason="disputed") for name in found.disputed]
        return answer_json(schema.CasesAnswer(items=found.cases, left_out=left_out))

    async def make_cases(self, request: Request) -> Response:
        """Make test cases of samples."""
        if principal_of(request).role < Role.READER:
            raise RefusedError(403, "this needs the role reader", "test cases hold transcripts")
        sent = read_shape(schema.SentCases, await read_json(request, _MOST_BODY_BYTES))
        made, left_out = [], []

        def make() -> None:
            with self.site.store.read() as connection:
                for name in dict.fromkeys(sent.sample_ids):
                    stored = read_sample(connection, name)
                    if stored is None or not principal_of(request).may_see(
                        stored.sample.interaction.app
                    ):
                        left_out.append(schema.LeftOut(sample_id=name, reason="unknown_sample"))
                        continue
                    said = labels_of(connection, name)
                    try:
                        made.append(golden_case(
                            stored, said, answer=sent.answer, tags=sent.tags,
                            critical=sent.critical,
                        ))  # fmt: skip
                    except RecordError:
                        left_out.append(schema.LeftOut(sample_id=name, reason="no_question"))
            self.site.note_view(request, "took test cases", ", ".join(case.id for case in made))

        await run_in_threadpool(make)
        return answer_json(schema.CasesAnswer(items=made, left_out=left_out))


class Changes(Endpoints):
    """The endpoints that change something by POST, and the page on which silences are previewed."""

    @posted("acknowledgements")
    def acknowledge(self, request: Request, form: Form) -> Response:
        """Acknowledge an incident: no reminders for some hours."""
        hours = next((n for n in ACK_HOURS if str(n) == form.get("hours")), None)
        if hours is None:
            raise RefusedError(400, "for how long?", "nothing was changed")
        until = self.site.clock() + timedelta(hours=hours)
        acknowledge_incident(self.site, request, note=form.get("note", ""), until=until)
        return redirect(incident_path(request.path_params["incident_id"]))

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
        return redirect(f"/channels?{urlencode({'tried': name, 'how': how})}")

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
        return redirect(incident_path(back) if back else "/silences")

    @posted("silences")
    def end_silence(self, request: Request, form: Form) -> Response:  # noqa: ARG002  # as acts are called
        """End a silence now."""
        expire(self.site, request)
        return redirect("/silences")

    def _silences_page(
        self, request: Request, asked: Mapping[str, str], wrong: str = ""
    ) -> Response:
        now, principal = self.site.clock(), principal_of(request)
        plan = self.site.wiring.plan
        shown: Preview | None = None
        with self.site.store.read() as connection:
            known = silences_after(connection, now - _ENDED_BACK)
            found = [each for each in known if is_about(each.matchers, principal.apps)]
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


def acknowledge_incident(site: Site, request: Request, *, note: str, until: datetime) -> Ack:
    """
    Acknowledge the incident in the path.

    Raise RefusedError if there is none that who asks may acknowledge, or it is over.
    """
    who = principal_of(request)
    with site.store.write() as connection:
        found = incident_for(request, connection)
        if found is None:
            raise RefusedError(404, "not found", "there is no such incident")
        if not found.is_whole:
            detail = "it is about other apps as well; nothing was changed"
            raise RefusedError(403, "not one of your apps", detail)
        name = found.incident.incident_id
        if not acknowledge(connection, name, by=who.name, note=note, now=site.clock(), until=until):
            raise RefusedError(409, "the incident is over", "nothing was changed")
    site.note(request, "acknowledged incident", name)
    return Ack(who.name, note, until)


def silence_alerts(
    site: Site, request: Request, matchers: tuple[Matcher, ...], *, ends_at: datetime,
    comment: str, starts_at: datetime | None = None,
) -> Silence:  # fmt: skip
    """
    Add a silence.

    Raise SettingsError if it is incomplete, or would silence apps that who asks may not see.
    """
    who = principal_of(request)
    if not is_about(matchers, who.apps):
        names = ", ".join(sorted(who.apps or ()))
        raise SettingsError(f"a silence of yours needs a matcher app=NAME, of: {names}")
    with site.store.write() as connection:
        made = add_silence(
            connection, matchers, now=site.clock(), starts_at=starts_at, ends_at=ends_at,
            author=who.name, comment=comment,
        )  # fmt: skip
    site.note(request, "added silence", f"{made.silence_id} {' '.join(map(str, matchers))}")
    return made


def expire(site: Site, request: Request) -> Silence:
    """
    End the silence in the path now.

    Raise RefusedError if there is none that who asks may end.
    """
    who, name, now = principal_of(request), request.path_params["silence_id"], site.clock()
    check_may_write(who, "silences")
    with site.store.write() as connection:
        found = silence_named(connection, name)
        if found is None or not is_about(found.matchers, who.apps):
            raise RefusedError(404, "no such silence", "nothing was changed")
        if not expire_silence(connection, name, now):
            raise RefusedError(409, "the silence is over", "nothing was changed")
        ended = silence_named(connection, name)
    assert ended is not None
    site.note(request, "ended silence", name)
    return ended


def is_about(matchers: tuple[Matcher, ...], apps: frozenset[str] | None) -> bool:
    """Return whether matchers match alerts of these apps only; None stands for all apps."""
    return apps is None or any(
        each.name == "app" and each.operator == "=" and each.value in apps for each in matchers
    )


def _matchers(text: str) -> tuple[Matcher, ...]:
    """Return the matchers of a text, one per line."""
    return parse_all(line for line in text.splitlines() if line.strip())
