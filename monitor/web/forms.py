"""What every form passes before it changes anything: role, size, token."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import parse_qs

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from monitor.store.labels import note_act
from monitor.web.access import Role
from monitor.web.guard import principal_of
from monitor.web.site import Site

_MOST_FORM_BYTES = 16_384
_SEE_OTHER = 303
Form = dict[str, str]


async def act(site: Site, request: Request, do: Callable[[Request, Form], Response]) -> Response:
    """Read the form and do what it asks, if whoever sent it may and it is one of ours."""
    principal = principal_of(request)
    if principal.role < Role.OPERATOR:
        return refused(request, 403, "this needs the role operator", "nothing was changed")
    form = await _read_form(request)
    if form is None:
        return refused(request, 413, "the form is too large", "nothing was changed")
    if not principal.bearer and not site.access.form_is_ours(form.get("token", ""), principal):
        detail = "load the page again; nothing was changed"
        return refused(request, 403, "the form is no longer valid", detail)
    return await run_in_threadpool(do, request, form)


def refused(request: Request, code: int, title: str, detail: str) -> Response:
    """Say no."""
    return request.app.state.refuse(request, code, title, detail)  # type: ignore[no-any-return]


def see(path: str) -> Response:
    """Lead to the page that shows what was done."""
    return RedirectResponse(path, _SEE_OTHER)


def note(site: Site, request: Request, what: str, target: str) -> None:
    """Write an operator's act down."""
    with site.store.write() as connection:
        note_act(
            connection, who=principal_of(request).name, act=what, target=target[:400],
            at=site.clock(),
        )  # fmt: skip


async def _read_form(request: Request) -> Form | None:
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _MOST_FORM_BYTES:
            return None
    fields = parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True)
    return {name: values[-1].replace("\0", "") for name, values in fields.items()}
