"""What users say, over HTTP: from programs with a token, and from pages that the settings name."""

from __future__ import annotations

import hashlib
import time
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from monitor.store.feedback import Feedback, save_feedback
from monitor.store.ledger import Booking, Kind, read_between, read_totals
from monitor.web import schema
from monitor.web.auth import VISITOR, RefusedError, Role, principal_of
from monitor.web.site import Site, answer_json, refused
from monitor.web.writing import check_may_write, read_json, read_shape

_MOST_BODY_BYTES = 20_000
#: From all visitors together; beyond, they are asked to come again.
_MOST_A_SECOND = 50
_MOST_A_DAY = 100_000
_SOURCE = "api"


@dataclass(frozen=True, slots=True)
class FeedbackInbox:
    """The endpoint for feedback; pages of other sites reach nothing else."""

    site: Site
    _recent: deque[float] = field(default_factory=deque)

    async def take(self, request: Request) -> Response:
        """Store one word on one answer; the last one on an answer counts."""
        principal = principal_of(request)
        is_visitor = principal.name == VISITOR and principal.role is Role.VIEWER
        if request.method == "OPTIONS":
            answer = Response(status_code=204)
        else:
            try:
                answer = await self._take(request, is_visitor)
            except RefusedError as error:
                answer = refused(request, error.code, error.title, error.detail)
                answer.headers.update(error.headers)
        if is_visitor:
            # The doorkeeper has compared the origin with the settings.
            answer.headers["Access-Control-Allow-Origin"] = request.headers["origin"]
            answer.headers["Access-Control-Allow-Methods"] = "POST"
            answer.headers["Access-Control-Allow-Headers"] = "Content-Type"
            answer.headers["Access-Control-Max-Age"] = "600"
            answer.headers["Cross-Origin-Resource-Policy"] = "cross-origin"
            answer.headers["Vary"] = "Origin"
        return answer

    async def _take(self, request: Request, is_visitor: bool) -> Response:
        if is_visitor and self._is_too_much():
            raise RefusedError(
                429, "too much feedback at once", "send it again later", Retry_After="1"
            )
        principal = principal_of(request)
        if not is_visitor:
            check_may_write(principal, "feedback")
        body = await read_json(request, _MOST_BODY_BYTES)
        sent = read_shape(schema.SentFeedback, body)
        if not is_visitor:
            check_may_write(principal, "feedback", sent.app)
        return answer_json(await run_in_threadpool(self._store, sent, is_visitor))

    def _store(self, sent: schema.SentFeedback, is_visitor: bool) -> schema.FeedbackTaken:
        now = self.site.clock()
        # The same said again makes no new row.
        name = f"{sent.app}\x1f{sent.trace_id}\x1f{sent.good}\x1f{sent.comment}"
        digest = hashlib.blake2b(name.encode("utf-8", "replace"), digest_size=20).hexdigest()
        found = Feedback(**sent.model_dump(), feedback_id=f"api-{digest}", given_at=now)
        with self.site.store.write() as connection:
            # Strangers must not make up apps, which would be shown and kept for ever.
            if is_visitor:
                day_s = now.timestamp() - 24 * 3600
                counts = read_between(connection, day_s, app=sent.app).get(sent.app, Counter())
                known = sent.app in read_totals(connection, sent.app)
                if not known or _from_outside(counts) >= _MOST_A_DAY:
                    code, title = (
                        (429, "too much feedback today") if known else (404, "unknown app")
                    )
                    raise RefusedError(code, title, "nothing was stored")
            new = save_feedback(
                connection, [found], source=_SOURCE, now=now,
                bucket_s=self.site.settings.windows.bucket_s,
            )  # fmt: skip
        return schema.FeedbackTaken(stored=new, duplicate=1 - new)

    def _is_too_much(self) -> bool:
        now = time.monotonic()
        while self._recent and now - self._recent[0] > 1:
            self._recent.popleft()
        if len(self._recent) >= _MOST_A_SECOND:
            return True
        self._recent.append(now)
        return False


def _from_outside(counts: Mapping[Booking, int]) -> int:
    """Count what came over HTTP."""
    return sum(
        n
        for booked, n in counts.items()
        if booked.kind is Kind.FEEDBACK_STORED and booked.reason.startswith(_SOURCE)
    )
