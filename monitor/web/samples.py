"""The samples: a list to search and filter, one of them whole, the same for programs and files."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from monitor.report.sheets import inert
from monitor.store import Sort
from monitor.store.feedback import feedback_of
from monitor.store.labels import labels_of
from monitor.store.sample_filter import SampleFilter
from monitor.store.samples import StoredSample, read_sample, session_scores
from monitor.store.search import FoundSample, SamplePage, find_samples, neighbours
from monitor.testsets.golden import golden_case
from monitor.web import schema
from monitor.web.auth import RefusedError, Role, needs, principal_of, read_number, wrong_parameter
from monitor.web.site import MOST_WAIT_S, Endpoints, Site, answer_json

if TYPE_CHECKING:
    from monitor.rolling.faults import Faults

_PAGE, _MOST = 50, 500
#: An export holds no more; the next one goes on with a later `until`.
_MOST_EXPORTED = 10_000


class _Asked(NamedTuple):
    """What a request asks for: which samples, in which order, from where on."""

    wanted: SampleFilter = SampleFilter()
    sort: Sort = Sort.NEWEST
    cursor: str = ""
    limit: int = _PAGE
    mode: str = ""  #: name of the failure mode whose samples are wanted

    @property
    def query(self) -> dict[str, Any]:
        """The filter and the order, as an address holds them."""
        found = self.wanted.model_dump(exclude_defaults=True)
        if self.mode:
            found["sample"] = ()
        named = {"mode": self.mode, "sort": self.sort.value.removeprefix(Sort.NEWEST)}
        return {name: value for name, value in (found | named).items() if value not in {"", ()}}


class SampleViews(Endpoints):
    """The endpoints about samples; all of them need the role reader."""

    @needs(Role.READER)
    def page(self, request: Request) -> Response:
        """Show a list of samples with the filters that made it."""
        try:
            (asked, found), wrong = self._read(request), ""
        except RefusedError as error:
            asked, found, wrong = _Asked(), SamplePage((), None), error.detail
        rows = self.site.overview_for(request).rows
        self.site.note_view(request, "listed samples", _query(request))
        return self.site.page(
            request, "samples.html", code=400 if wrong else 200, wrong=wrong, wanted=asked.wanted,
            query=asked.query, sort=asked.sort, sorts=list(Sort), cursor=asked.cursor, found=found,
            apps=sorted({row.verdict.app for row in rows}),
            metrics=sorted({row.verdict.metric for row in rows}),
            is_live=request.query_params.get("live") == "1" and not asked.cursor,
            most_exported=_MOST_EXPORTED,
        )  # fmt: skip

    @needs(Role.READER)
    def sample(self, request: Request) -> Response:
        """Show one sample: its texts, each claim, every evaluation, and its neighbours."""
        found = self._one(request)
        if found is None:
            return self.site.missing(request, "no such sample; it may be older than what is kept")
        sample_id, principal = found.sample.sample_id, principal_of(request)
        try:
            asked = self._asked(request)
        except (ValueError, RefusedError):
            asked = _Asked()
        with self.site.store.read() as connection:
            said = labels_of(connection, sample_id)
            it = found.sample.interaction
            session = session_scores(connection, app=it.app, session_id=it.session_id)
            feedback = feedback_of(connection, it.app, it.trace_id)
            beside = neighbours(connection, asked.wanted, sample_id, principal.apps)
        return self.site.page(
            request, "sample.html", found=found, judged=judged_evaluations(found), labels=said,
            beside=beside, query=asked.query, session=session, feedback=feedback,
            may_label=principal.may_write("labels"),
            form_token=self.site.access.form_token(principal),
        )  # fmt: skip

    @needs(Role.READER)
    def api_list(self, request: Request) -> Response:
        """Return a page of samples as JSON."""
        _, found = self._read(request)
        self.site.note_view(request, "listed samples", _query(request))
        return answer_json(schema.SamplesPage(items=found.items, next=found.next))

    @needs(Role.READER)
    def api_sample(self, request: Request) -> Response:
        """Return one sample with its texts as JSON."""
        found = self._one(request)
        if found is None:
            raise RefusedError(404, "not found", "there is no such sample")
        it = found.sample.interaction
        with self.site.store.read() as connection:
            session = session_scores(connection, app=it.app, session_id=it.session_id)
        return answer_json(
            schema.SampleAnswer(
                sample=found.sample, received_at=found.received_at, outcome=found.outcome,
                reason=found.reason, evaluations=[item.evaluation for item in found.evaluations],
                session=session,
            )
        )  # fmt: skip

    @needs(Role.READER)
    def case(self, request: Request) -> Response:
        """Return one sample as a test case: a line of a golden set."""
        found = self._one(request, "took test case")
        if found is None or not found.sample.interaction.query:
            return self.site.missing(
                request, "no such sample, or none with a question to ask again"
            )
        with self.site.store.read() as connection:
            said = labels_of(connection, found.sample.sample_id)
        text = golden_case(found, said).model_dump_json(exclude_defaults=True) + "\n"
        headers = {"Content-Disposition": 'attachment; filename="case.jsonl"'}
        return Response(text, media_type="application/jsonl", headers=headers)

    @needs(Role.READER)
    def export(self, request: Request) -> Response:
        """Return what a list shows as a file: JSONL or CSV, page after page as it is read."""
        form = request.path_params["form"]
        if form not in _WRITERS:
            return self.site.missing(request, "samples are exported as jsonl or csv")
        asked, first = self._read(request)
        self.site.note_view(request, "exported samples", _query(request))
        media_type, write = _WRITERS[form]

        def pages() -> Iterator[FoundSample]:
            page, left = first, _MOST_EXPORTED
            while True:
                yield from page.items[:left]
                left -= len(page.items)
                if page.next is None or left <= 0:
                    return
                following = asked._replace(cursor=page.next, limit=_MOST)
                page = self._find(request, following)

        return StreamingResponse(
            write(pages()), media_type=media_type,
            headers={"Content-Disposition": f'attachment; filename="samples.{form}"'},
        )  # fmt: skip

    def _read(self, request: Request) -> tuple[_Asked, SamplePage]:
        """Return what is asked for and its first page; raise RefusedError if it is wrong."""
        try:
            asked = self._asked(request)
            return asked, self._find(request, asked)
        except ValueError as error:
            raise wrong_parameter(str(error)) from None

    def _asked(self, request: Request) -> _Asked:
        query = request.query_params
        values = {name: query.getlist(name) for name in query}
        limit = read_number(request, "limit", _PAGE, _MOST)
        sort = query.get("sort", "") or Sort.NEWEST.value
        if sort not in set(Sort):
            raise ValueError(f"sort: one of {', '.join(Sort)}")
        wanted = SampleFilter.parse(values, self.site.clock())
        mode = query.get("mode", "")
        if mode and wanted.metric and principal_of(request).may_see(wanted.app):
            faults = read_modes(self.site, wanted.app, wanted.metric, wait_s=MOST_WAIT_S)
            ids = (m.sample_ids for m in faults.modes if m.name == mode) if faults else ()
            wanted = wanted.model_copy(update={"sample": next(iter(ids), ("",))})
        elif mode:
            raise ValueError("mode: a failure mode needs an app and a metric")
        return _Asked(wanted, Sort(sort), query.get("cursor", ""), limit, mode)

    def _find(self, request: Request, asked: _Asked) -> SamplePage:
        with self.site.store.read() as connection:
            return find_samples(
                connection, asked.wanted, apps=principal_of(request).apps, sort=asked.sort,
                cursor=asked.cursor, limit=asked.limit,
            )  # fmt: skip

    def _one(self, request: Request, act: str = "saw sample") -> StoredSample | None:
        """Return the sample in the path if its app may be seen, and record that it was."""
        sample_id = request.path_params["sample_id"]
        with self.site.store.read() as connection:
            found = read_sample(connection, sample_id)
        if found is None or not principal_of(request).may_see(found.sample.interaction.app):
            return None
        self.site.note_view(request, act, sample_id)
        return found


def _query(request: Request) -> str:
    query: bytes = request.scope["query_string"]
    return query.decode("utf-8", "replace")


def read_modes(site: Site, app: str, metric: str, *, wait_s: float = 0.0) -> Faults | None:
    """Return what failures of the last day have in common, once it has been computed."""
    since = site.clock() - timedelta(days=1)
    return site.faults((app, metric), app, metric, since=since, wait_s=wait_s)


def write_jsonl(items: Iterator[FoundSample]) -> Iterator[str]:
    """Yield samples as JSON, one a line."""
    return (f"{item.model_dump_json()}\n" for item in items)


def write_csv(items: Iterator[FoundSample]) -> Iterator[str]:
    """Yield samples as CSV, one row an evaluation; nothing in it is taken for a formula."""
    columns = ("sample_id", "app", "occurred_at", "query", "output", "release", "user_id",
               "session_id", "trace_id", "outcome", "reason")  # fmt: skip
    of_evaluation = ("metric", "evaluator_version", "status", "score", "passed")
    yield _line([*columns, "tags", *of_evaluation, "no_score_because", "label"])
    for item in items:
        value = item.model_dump(mode="json")
        shared = [value[name] for name in columns]
        shared.append(" ".join(f"{name}={tag}" for name, tag in item.tags.items()))
        for evaluation in item.evaluations or (None,):
            if evaluation is None:
                yield _line([*shared, *[""] * 7])
                continue
            label = item.labels.get(evaluation.metric)
            said = "" if label is None else "pass" if label else "fail"
            scored = [getattr(evaluation, name) for name in of_evaluation]
            yield _line([*shared, *scored, evaluation.reason, said])


def _line(cells: Sequence[object]) -> str:
    file = io.StringIO()
    csv.writer(file).writerow([inert(c) if isinstance(c, str) else c for c in cells])
    return file.getvalue()


_WRITERS: dict[str, tuple[str, Callable[[Iterator[FoundSample]], Iterator[str]]]] = {
    "jsonl": ("application/jsonl", write_jsonl),
    "csv": ("text/csv; charset=utf-8", write_csv),
}


_WORD = re.compile(r"\w+")
_LABELS = {
    "supported": "supported", "contradicted": "contradicted", "not_found": "not found",
    "undecided": "undecided", "unverified": "not found", "wrong_refusal": "wrong refusal",
    "no_claim": "no claim",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class MarkedText:
    """A part of a text; ``kind`` is '' outside of claims."""

    text: str
    kind: str = ""
    number: int = 0


@dataclass(frozen=True, slots=True)
class ClaimLine:
    """One claim with the judge's verdict."""

    number: int
    text: str
    kind: str
    support: float | None
    evidence: str
    context_index: int | None
    reason: str


def judged_evaluations(found: StoredSample) -> list[dict[str, Any]]:
    """Return the evaluations of a sample, each with its claims and the texts cut at those."""
    interaction, judged = found.sample.interaction, []
    for stored in found.evaluations:
        claims = claims_of(stored.evaluation.metadata)
        passages = marked_passages([c.text for c in interaction.contexts], claims)
        output = marked_output(interaction.output, claims)
        judged.append({"stored": stored, "claims": claims, "output": output, "passages": passages})
    return judged


def claims_of(metadata: Mapping[str, Any] | None) -> list[ClaimLine]:
    """Return the claims that an evaluation lists, without malformed ones."""
    listed = (metadata or {}).get("claims")
    if not isinstance(listed, list):
        return []
    lines = []
    for number, item in enumerate(listed, 1):
        if not isinstance(item, dict) or not isinstance(item.get("text"), str):
            continue
        support, index = item.get("support"), item.get("context_index")
        lines.append(
            ClaimLine(
                number=number,
                text=item["text"].removesuffix("…"),
                kind=_LABELS.get(str(item.get("verdict")), "no claim"),
                support=float(support) if isinstance(support, int | float) else None,
                evidence=str(item.get("evidence") or "").removesuffix("…"),
                context_index=index if isinstance(index, int) else None,
                reason=str(item.get("reason") or ""),
            )
        )
    return lines


def marked_output(output: str, claims: Iterable[ClaimLine]) -> list[MarkedText]:
    """
    Cut an output into pieces, each claim one that carries its verdict.

    A claim is found by its words, in order, so that emphasis marks and line breaks
    between them do not matter; one that is not found stands in the list only.
    """
    return _cut(output, [(claim.text, claim.kind, claim.number) for claim in claims])


def marked_passages(texts: Sequence[str], claims: Sequence[ClaimLine]) -> list[list[MarkedText]]:
    """Return each context in pieces, those that support or contradict a claim marked."""
    evidence = [(c.context_index, (c.evidence, c.kind, c.number)) for c in claims if c.evidence]
    return [
        _cut(text, [wanted for index, wanted in evidence if index in (i, None)])
        for i, text in enumerate(texts)
    ]


def _cut(text: str, wanted: Sequence[tuple[str, str, int]]) -> list[MarkedText]:
    found = sorted(
        (*where, kind, number)
        for phrase, kind, number in wanted
        if (where := _find(text, phrase)) is not None
    )
    pieces: list[MarkedText] = []
    at = 0
    for start, end, kind, number in found:
        if start < at:  # two claims on the same words: the first one stands
            continue
        pieces += [MarkedText(text[at:start])] if start > at else []
        pieces.append(MarkedText(text[start:end], kind, number))
        at = end
    return pieces + ([MarkedText(text[at:])] if at < len(text) else [])


def _find(text: str, phrase: str) -> tuple[int, int] | None:
    """Return where the words of *phrase* are in *text*, if only punctuation is between them."""
    plain = text.find(phrase) if phrase else -1
    if plain >= 0:
        return plain, plain + len(phrase)
    words = _WORD.findall(phrase)
    between = r"[^\w]+".join(map(re.escape, words))
    found = re.search(rf"\b{between}\b", text, re.IGNORECASE) if words else None
    return found.span() if found else None
