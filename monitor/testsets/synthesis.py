"""
Write test cases from the user's documents: ask the judge for questions, and keep the good ones.

Every question goes through the same filters, in this order, and each filter counts what it took:
readable, grounded (its quotes stand in the passages), no duplicate, round trip (it finds its
passage again among all), answerable as it should be. Personal data is masked before a passage is
sent. With one seed, and a judge that answers alike, the set is the same.
"""

from __future__ import annotations

import json
import math
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError

from monitor.errors import JudgeError, JudgeRefusedError, JudgeReplyError, RecordError
from monitor.hook.masks import build
from monitor.scoring.judges.openai_client import ChatEndpoint
from monitor.scoring.judges.packing import StemIndex
from monitor.scoring.judges.reply import find_object, strict_schema
from monitor.scoring.judges.request import Request
from monitor.scoring.language import words
from monitor.scoring.limits.budget import JudgeBusyError
from monitor.scoring.prompts import load_prompt
from monitor.scoring.sentences import split_sentences
from monitor.testsets.cases import TestCase
from monitor.testsets.records import UNANSWERABLE, content_hash

Kind = Literal["single_hop", "multi_hop", "reasoning", "conditional", "summary", "unanswerable"]
#: Shares of the kinds, unless others are asked for: balanced, where public sets are mostly lookup.
USUAL_SHARES: Final[Mapping[str, float]] = {
    "single_hop": 0.25, "multi_hop": 0.2, "reasoning": 0.15, "conditional": 0.15, "summary": 0.1,
    "unanswerable": 0.15,
}  # fmt: skip
KINDS: Final = tuple(USUAL_SHARES)

PROMPT: Final = "synthesis.v1"
#: About a thousand tokens; a paragraph is not torn apart unless it is longer.
_CHUNK_CHARS: Final = 3_500
_LEAST_CHARS: Final = 80
_MOST_DOCUMENT_BYTES: Final = 20_000_000
_SUFFIXES: Final = frozenset({".txt", ".md", ".rst", ".markdown"})
#: Tries for each case until it is given up.
_ROUNDS: Final = 4
#: Share of common stems from which two questions are one.
_SAME: Final = 0.8
#: A question must find its passage among so many of the best.
_FOUND_AMONG: Final = 3
_LARGEST_SEED: Final = 2**31 - 1


class Chunk(NamedTuple):
    """A part of a document that is asked about; personal data is masked."""

    chunk_id: str  #: name of the document, and the number of the part
    text: str


class _Reply(BaseModel, extra="ignore"):
    """A reply of the judge: its schema requires all properties, reading only the first."""

    @classmethod
    def schema_of(cls) -> dict[str, Any]:
        """Return the schema that endpoints hold a reply to: all properties, and no others."""
        properties = cls.model_json_schema()["properties"]
        for each in properties.values():
            each.pop("title")
            each.pop("default", None)
        return strict_schema(**properties)


class _Written(_Reply):
    question: str
    answer: str = ""
    quotes: list[str] = []


class _Checked(_Reply):
    answerable: bool
    answer: str = ""
    difficulty: Literal["easy", "medium", "hard"] = "medium"


R = TypeVar("R", bound=_Reply)


@dataclass(slots=True)
class Synthesis:
    """
    What was made: the cases, and how many each filter took.

    ``wanted`` counts the cases asked for by kind, ``stopped`` says why nothing more was asked,
    ``masked`` counts passages and questions in which personal data was masked.
    """

    cases: list[TestCase] = field(default_factory=list)
    wanted: Counter[str] = field(default_factory=Counter)
    taken: Counter[str] = field(default_factory=Counter)
    masked: int = 0
    stopped: str = ""

    @property
    def missing(self) -> dict[str, int]:
        """How many cases of each kind could not be made."""
        made = Counter(case.question_type for case in self.cases)
        return {kind: n - made[kind] for kind, n in self.wanted.items() if n > made[kind]}


def read_documents(paths: Sequence[Path]) -> dict[str, str]:
    """
    Read texts from files, and from folders all that end in .txt, .md, .markdown or .rst.

    Raise RecordError if a file cannot be read as UTF-8 text, or there is none.
    """
    found: dict[str, str] = {}
    for path in paths:
        files = (
            sorted(one for one in path.rglob("*") if one.suffix.lower() in _SUFFIXES)
            if path.is_dir()
            else [path]
        )
        for file in files:
            name = str(file.relative_to(path)) if path.is_dir() else file.name
            try:
                if file.stat().st_size > _MOST_DOCUMENT_BYTES:
                    raise RecordError(f"{file}: larger than 20 MB; split it")
                text = file.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                why = getattr(error, "strerror", None) or "not UTF-8 text"
                raise RecordError(f"{file}: {why}") from None
            found[name if name not in found else str(file)] = text
    if not any(text.strip() for text in found.values()):
        raise RecordError("no document has any text; expected .txt, .md or .rst files")
    return found


def chunks_of(documents: Mapping[str, str]) -> list[Chunk]:
    """Return the documents in parts of about a thousand tokens, cut at paragraphs if possible."""
    found = []
    for name, text in documents.items():
        parts: list[str] = []
        for paragraph in text.split("\n\n"):
            pieces = [paragraph.strip()]
            if len(paragraph) > _CHUNK_CHARS:
                pieces = list(split_sentences(paragraph)) or pieces
            for piece in (p[i : i + _CHUNK_CHARS] for p in pieces
                          for i in range(0, len(p), _CHUNK_CHARS)):  # fmt: skip
                if parts and len(parts[-1]) + len(piece) < _CHUNK_CHARS:
                    parts[-1] += "\n\n" + piece
                else:
                    parts.append(piece)
        found += [
            Chunk(f"{name}#{n}", part)
            for n, part in enumerate(parts, start=1)
            if len(part) >= _LEAST_CHARS
        ]
    if not found:
        raise RecordError(f"no passage has {_LEAST_CHARS} characters: there is nothing to ask")
    return found


def counts_of(n: int, shares: Mapping[str, float]) -> Counter[str]:
    """
    Return how many of *n* cases each kind gets, by largest remainder.

    Examples
    --------
    >>> dict(counts_of(10, {"single_hop": 1, "unanswerable": 2}))
    {'single_hop': 3, 'unanswerable': 7}
    """
    whole = sum(shares.values())
    exact = {kind: n * share / whole for kind, share in shares.items()}
    counts = Counter({kind: math.floor(part) for kind, part in exact.items()})
    by_rest = sorted(exact, key=lambda kind: (counts[kind] - exact[kind], kind))
    counts.update(by_rest[: n - counts.total()])
    return counts


class _Slot(NamedTuple):
    """One case to be made: of which kind, from which chunks."""

    number: int
    kind: str
    chunks: tuple[Chunk, ...]


class Synthesizer:
    """
    Makes cases; one for each run.

    *endpoint* is the judge's, under its budget and limits. *seed* decides which passages are asked
    about, and is that of every request. *tell* gets how many cases are done, as they get done.
    """

    def __init__(
        self,
        endpoint: ChatEndpoint,
        *,
        seed: int = 0,
        concurrency: int = 4,
        tell: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._endpoint, self._seed, self._concurrency = endpoint, seed, concurrency
        self._mask, self._tell = build("builtin"), tell
        self._prompt = load_prompt(PROMPT)
        self.made = Synthesis()
        self._index: StemIndex
        self._chunks: Sequence[Chunk] = ()
        self._stems: list[frozenset[str]] = []
        self._error: JudgeError | None = None

    def run(
        self, chunks: Sequence[Chunk], n: int, shares: Mapping[str, float] = USUAL_SHARES
    ) -> Synthesis:
        """
        Make *n* cases; fewer where filters or the budget leave no more, which is counted.

        Raise JudgeError if the judge cannot be asked at all, before there is any case.
        """
        masked = [chunk._replace(text=self._mask(chunk.text)) for chunk in chunks]
        self.made.masked = sum(a != b for a, b in zip(chunks, masked, strict=True))
        self._chunks, self._index = masked, StemIndex([chunk.text for chunk in masked])
        self.made.wanted = counts_of(n, shares)
        # All chunks in turn, in an order drawn by the seed.
        draw = random.Random(self._seed)  # noqa: S311 - a fair order, not a secret
        kinds = sorted(self.made.wanted.elements())
        order = list(range(len(masked)))
        draw.shuffle(kinds)
        draw.shuffle(order)
        slots = []
        for number, kind in enumerate(kinds):
            at = order[number % len(order)]
            chosen = [masked[at]]
            if kind == "multi_hop":  # with the chunk that has most in common with it
                near = [k for k in self._index.order(masked[at].text) if k != at]
                chosen += [masked[k] for k in near[:1]]
            slots.append(_Slot(number, kind, tuple(chosen)))
        done: dict[int, TestCase] = {}
        with ThreadPoolExecutor(self._concurrency, "groundwatch-synthesis") as pool:
            for attempt in range(1, _ROUNDS + 1):
                left = [slot for slot in slots if slot.number not in done]
                # As many at a time as an interrupted run may lose.
                for first in range(0, len(left), 4 * self._concurrency):
                    batch = left[first : first + 4 * self._concurrency]
                    done |= self._batch(pool, batch, attempt)
                    self._tell(len(done))
                    if self._error is not None:
                        break
                if self._error is not None or len(done) == len(slots):
                    break
        if self._error is not None:
            if not done:
                raise self._error
            self.made.stopped = str(self._error)
        self.made.cases = [done[number] for number in sorted(done)]
        return self.made

    def _batch(
        self, pool: ThreadPoolExecutor, slots: Sequence[_Slot], attempt: int
    ) -> dict[int, TestCase]:
        """Write and check one question for each slot; return the cases that passed all filters."""
        written = pool.map(
            lambda slot: self._ask(slot, attempt, _Written, {"task": "write", "kind": slot.kind}),
            slots,
        )
        kept = []
        for slot, draft in zip(slots, written, strict=True):
            flaw = "" if draft is None else self._flaw(slot, draft)
            if flaw:
                self.made.taken[flaw] += 1
            elif draft is not None:
                kept.append((slot, draft))

        def check(pair: tuple[_Slot, _Written]) -> _Checked | None:
            slot, draft = pair
            given = {"task": "check", "question": draft.question}
            return self._ask(slot, attempt, _Checked, given)

        checked = pool.map(check, kept)
        done: dict[int, TestCase] = {}
        for (slot, draft), verdict in zip(kept, checked, strict=True):
            if verdict is None:
                continue
            if verdict.answerable == (slot.kind == "unanswerable"):
                self.made.taken["answerable" if verdict.answerable else "not_answerable"] += 1
                continue
            given = draft.question.strip(), draft.answer.strip()
            question, answer = map(self._mask, given)
            self.made.masked += (question, answer) != given
            sources = [chunk.chunk_id for chunk in slot.chunks]
            expected: dict[str, Any] = {"answer": answer, "relevant": sources}
            if slot.kind == "unanswerable":
                expected = {"answer": UNANSWERABLE, "unanswerable": True, "relevant": []}
            quotes = [self._mask(quote) for quote in draft.quotes]
            done[slot.number] = TestCase(
                id=f"synthetic-{content_hash(question)}", query=question, expected=expected,
                tags=("synthetic", slot.kind), difficulty=verdict.difficulty,
                question_type=slot.kind,
                metadata={"sources": sources, "quotes": quotes, "prompt": PROMPT},
            )  # fmt: skip
        return done

    def _flaw(self, slot: _Slot, draft: _Written) -> str:
        """Return the first filter without a judge that takes a question; empty if none does."""
        stems = frozenset(word.stem for word in words(draft.question) if word.content)
        answers = slot.kind != "unanswerable"
        texts = [" ".join(chunk.text.split()).casefold() for chunk in slot.chunks]
        quotes = [" ".join(quote.split()).casefold() for quote in draft.quotes]
        stand = [bool(quote) and any(quote in text for text in texts) for quote in quotes]
        if not stems or (answers and not draft.answer.strip()):
            return "unreadable"
        if answers and not (stand and all(stand)):
            return "not_grounded"
        if any(len(stems & other) / len(stems | other) >= _SAME for other in self._stems):
            return "duplicate"
        found = {self._chunks[k] for k in self._index.order(draft.question)[:_FOUND_AMONG]}
        if answers and not found & set(slot.chunks):
            return "round_trip"
        self._stems.append(stems)
        return ""

    def _ask(self, slot: _Slot, attempt: int, form: type[R], given: Mapping[str, Any]) -> R | None:
        """
        Ask the judge; None, and counted, where its reply is not as asked.

        What ends the run, such as a budget that is spent, is kept; the rest of the batch goes on.
        """
        passages = {str(n): chunk.text for n, chunk in enumerate(slot.chunks, start=1)}
        message = {**given, "attempt": attempt, "passages": passages}
        place = [self._seed, slot.number, attempt, given["task"]]
        request = Request(
            messages=[
                {"role": "system", "content": self._prompt},
                {"role": "user", "content": json.dumps(message, ensure_ascii=False)},
            ],
            schema=form.schema_of(),
            entries=4,
            seed=int(content_hash(place), 16) % _LARGEST_SEED,
            parse=lambda content: form.model_validate(find_object(content)),
        )
        if self._error is not None:
            return None
        spent, policy, tries = self._endpoint.begin(), self._endpoint.policy, 0
        while True:
            try:
                return request.read(self._endpoint.answer(request, spent))
            except (JudgeReplyError, JudgeRefusedError, ValidationError):
                tries += 1
                if tries >= policy.attempts:
                    self.made.taken["unreadable"] += 1
                    return None
            except JudgeError as error:
                # What calls under way hold of a limit comes back when they end.
                is_busy = isinstance(error, JudgeBusyError)
                tries += not is_busy
                wait_s = self._endpoint.pause_s(error, max(1, tries))
                again = self._endpoint.may_ask_again(spent, wait_s=wait_s)
                if not (error.transient or is_busy) or tries >= policy.attempts or not again:
                    self._error = error
                    return None
                time.sleep(wait_s)
