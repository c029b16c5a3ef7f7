"""What people say, over HTTP: labels by queue, form or program, and the feedback of users."""

from __future__ import annotations

import hashlib
import time
from collections import Counter, deque
from dataclasses import dataclass, field
from datetime import timedelta
from urllib.parse import parse_qsl, urlencode

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from monitor.scoring.metrics import metric_question
from monitor.store.agreement import agreements
from monitor.store.feedback import (
    Feedback,
    complained_of,
    count_feedback,
    read_complaints,
    save_feedback,
)
from monitor.store.labels import (
    ENOUGH,
    MOST_NOTE_CHARS,
    LabelOutcome,
    LabelResult,
    draw,
    labels_of,
    read_record,
    take_labels,
)
from monitor.store.ledger import Kind, read_between, read_totals
from monitor.store.samples import read_sample
from monitor.web import schema, time_range
from monitor.web.auth import VISITOR, RefusedError, Role, needs, principal_of
from monitor.web.site import Endpoints, answer_json
from monitor.web.writing import Form, check_may_write, posted, read_json, read_shape, redirect

_MOST_LABELS = 1_000
_MOST_BODY_BYTES = 1_000_000
_MOST_SKIPPED = 50
_FEEDBACK_BACK = timedelta(days=7)
_EXAMPLES = 10
_MOST_FEEDBACK_BYTES = 20_000
#: From all visitors together; beyond, they are asked to come again.
_MOST_A_SECOND = 50
_MOST_A_DAY = 100_000
_SOURCE = "api"


class Labelling(Endpoints):
    """The endpoints for labels."""

    @needs(Role.READER)
    def queue(self, request: Request) -> Response:
        """
        Show the next sample of a queue without the evaluator's verdict; else all queues.

        A sample that was just decided is named in the address; its verdict is shown then.
        """
        asked, principal = request.query_params, principal_of(request)
        app, metric = asked.get("app"), asked.get("metric")
        skipped = asked.getlist("skip")[-_MOST_SKIPPED:]
        now = self.site.clock()
        rows = [(r.verdict.app, r.verdict.metric) for r in self.site.overview_for(request).rows]
        with self.site.store.read() as connection:
            said = [item for item in agreements(connection) if principal.may_see(item.app)]
            if not app or not metric:
                since = now - _FEEDBACK_BACK
                users = []
                for name in sorted({name for name, _ in rows}):
                    counted = count_feedback(connection, name, since=since)
                    complaints = read_complaints(connection, name, now=now)
                    bad = complained_of(connection, name, since=since, limit=_EXAMPLES)
                    users += (
                        [(name, counted, complaints, bad)] if counted.good + counted.bad else []
                    )
                return self.site.page(
                    request, "labels.html", streams=rows, agreements=said, users=users
                )
            found = draw(connection, app=app, metric=metric, annotator=principal.name, skip=skipped)
            next_id = found.sample_id if found else None
            sample = read_sample(connection, next_id) if next_id else None
            decided = asked.get("decided", "")
            mine = (
                label for label in reversed(labels_of(connection, decided))
                if (label.metric, label.labelled_by) == (metric, principal.name)
                and principal.may_see(label.app)
            )  # fmt: skip
            last = next(mine, None)
        return self.site.page(
            request, "label_queue.html", app=app, metric=metric, queue=found, enough=ENOUGH,
            it=sample.sample.interaction if sample else None, what=metric_question(metric),
            skipped=skipped, last=last,
            may_label=principal.may_write("labels"), known=(app, metric) in rows,
            form_token=self.site.access.form_token(principal),
        )  # fmt: skip

    @posted("labels")
    def decide(self, request: Request, form: Form) -> Response:
        """Store a verdict of the queue, or pass over the sample, and go on to the next one."""
        sample_id, metric = form.get("sample_id", ""), form.get("metric", "")
        skipped = [name for name in form.get("skipped", "").split(",") if name]
        place = [("app", form.get("app", "")), ("metric", metric)]
        if form.get("label") == "skip":
            skipped = [*skipped, sample_id][-_MOST_SKIPPED:]
        else:
            self._store(request, form, sample_id, drawn=True)
            place.append(("decided", sample_id))
        return redirect(f"/labels?{urlencode(place + [('skip', name) for name in skipped])}")

    @posted("labels")
    def label(self, request: Request, form: Form) -> Response:
        """Store what a person says of one evaluation on the page of its sample."""
        sample_id = request.path_params["sample_id"]
        self._store(request, form, sample_id, drawn=False)
        # Back to its place in the list that it was opened from.
        place = urlencode(parse_qsl(form.get("list", "")))
        return redirect(f"{time_range.sample_path(sample_id)}{'?' if place else ''}{place}")

    def _store(self, request: Request, form: Form, sample_id: str, *, drawn: bool) -> None:
        """Store a verdict from a form, or refuse it."""
        who, now = principal_of(request), self.site.clock()
        record = read_record(
            {name: form.get(name) for name in ("label", "evaluator_version")}
            | {"sample_id": sample_id, "metric": form.get("metric", ""), "drawn": drawn}
            | {"note": form.get("note", "")[:MOST_NOTE_CHARS]}
        )
        with self.site.store.write() as connection:
            (outcome,) = take_labels(
                connection, [record], annotator=who.name, now=now, apps=who.apps
            )
        if outcome.result.is_refused:
            raise RefusedError(400, "no such evaluation", "nothing was stored")
        said = f"labelled {form.get('label')}"
        self.site.note(request, said, f"{sample_id} {form.get('metric')}")

    def agreement(self, request: Request) -> Response:
        """Return how evaluators and people agree."""
        asked = request.query_params
        with self.site.store.read() as connection:
            found = agreements(connection, app=asked.get("app"), metric=asked.get("metric"))
        seen = [item for item in found if principal_of(request).may_see(item.app)]
        return answer_json(
            schema.AgreementsAnswer(items=[schema.AgreementItem.of(item) for item in seen])
        )

    async def take(self, request: Request) -> Response:
        """Store labels that a program sends as JSON: one object, or a list of them."""
        check_may_write(principal_of(request), "labels")
        body = await read_json(request, _MOST_BODY_BYTES)
        items = body if isinstance(body, list) else [body]
        if not 0 < len(items) <= _MOST_LABELS:
            detail = f"send 1 to {_MOST_LABELS:,} labels at once; nothing was stored"
            raise RefusedError(400, "a list of labels is expected", detail)
        who = principal_of(request)

        def store() -> list[LabelOutcome]:
            records = [read_record(item) for item in items]
            with self.site.store.write() as connection:
                return take_labels(
                    connection, records, annotator=who.name, now=self.site.clock(), apps=who.apps
                )

        outcomes = await run_in_threadpool(store)
        counts = Counter(outcome.result for outcome in outcomes)
        return answer_json(
            schema.LabelsTaken(
                stored=counts[LabelResult.STORED],
                changed=counts[LabelResult.CHANGED],
                duplicate=counts[LabelResult.DUPLICATE],
                refused=[
                    schema.RefusedLabel(index=i, reason=outcome.result.value, detail=outcome.detail)
                    for i, outcome in enumerate(outcomes)
                    if outcome.result.is_refused
                ],
            )
        )


@dataclass(frozen=True, slots=True)
class FeedbackInbox(Endpoints):
    """The endpoint for feedback; pages of other sites reach nothing else."""

    _recent: deque[float] = field(default_factory=deque)

    async def take(self, request: Request) -> Response:
        """Store one word on one answer; the last one on an answer counts."""
        principal = principal_of(request)
        is_visitor = principal.name == VISITOR and principal.role is Role.VIEWER
        # `AccessBackend` has compared the origin with the settings.
        headers = {
            "Access-Control-Allow-Origin": request.headers["origin"], "Vary": "Origin",
            "Access-Control-Allow-Methods": "POST", "Access-Control-Max-Age": "600",
            "Access-Control-Allow-Headers": "Content-Type",
            "Cross-Origin-Resource-Policy": "cross-origin",
        } if is_visitor else {}  # fmt: skip
        if request.method == "OPTIONS":
            return Response(status_code=204, headers=headers)
        try:
            if is_visitor:
                self._count_visit()
            else:
                check_may_write(principal, "feedback")
            sent = read_shape(schema.SentFeedback, await read_json(request, _MOST_FEEDBACK_BYTES))
            if not is_visitor:
                check_may_write(principal, "feedback", sent.app)
            answer = answer_json(await run_in_threadpool(self._store, sent, is_visitor))
        except RefusedError as error:
            error.headers |= headers
            raise
        answer.headers.update(headers)
        return answer

    def _count_visit(self) -> None:
        """Raise RefusedError where visitors together send too much."""
        now = time.monotonic()
        while self._recent and now - self._recent[0] > 1:
            self._recent.popleft()
        if len(self._recent) >= _MOST_A_SECOND:
            raise RefusedError(
                429, "too much feedback at once", "send it again later", Retry_After="1"
            )
        self._recent.append(now)

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
                if sent.app not in read_totals(connection, sent.app):
                    raise RefusedError(404, "unknown app", "nothing was stored")
                from_outside = sum(
                    n for (kind, reason), n in counts.items()
                    if kind is Kind.FEEDBACK_STORED and reason.startswith(_SOURCE)
                )  # fmt: skip
                if from_outside >= _MOST_A_DAY:
                    raise RefusedError(429, "too much feedback today", "nothing was stored")
            new = save_feedback(
                connection, [found], source=_SOURCE, now=now,
                bucket_s=self.site.settings.windows.bucket_s,
            )  # fmt: skip
        return schema.FeedbackTaken(stored=new, duplicate=1 - new)
