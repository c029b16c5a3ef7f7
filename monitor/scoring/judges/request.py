"""
What the judge is sent about one interaction: data, separated from our instructions.

A `Case` holds the texts of one interaction and fits them into a budget of tokens; it makes
the requests, of two forms: verdicts on every sentence of the output, and answers to criteria.
Text that seems to speak to the judge is sent with a mark for every space.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import resources
from operator import itemgetter
from typing import Any, Generic, Self, TypeVar

from monitor.errors import JudgeReplyError
from monitor.models import Interaction
from monitor.scoring.declaration import Answers, Criterion, CriterionAnswer, Form, lookup
from monitor.scoring.judges.openai_errors import ContextTooLongError
from monitor.scoring.judges.packing import GAP, Packed, pack, tokens_of
from monitor.scoring.judges.reply import (
    CRITERIA_SCHEMA,
    VERDICT_SCHEMA,
    JudgeReply,
    read_answers,
    read_verdicts,
)
from monitor.scoring.language import compatible
from monitor.scoring.sentences import MOST_SENTENCES, headings_and_code, split_sentences

_LARGEST_SEED = 2**31 - 1
_LEAST_BUDGET = 200  # tokens; with less there is nothing to judge by
_REST_SHARE = 0.3  # of the budget, for all that is neither query, passage nor sentence
_MOST_TURNS, _LONGEST_TURN = 6, 1_000  # turns of the conversation, and characters of each
_LONGEST_CHARS, _LONGEST_ITEMS = 8_192, 512  # of a text and of a list, halved until all fit

A = TypeVar("A")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request(Generic[A]):
    """One question to a chat endpoint, and how its answer is read."""

    messages: list[dict[str, str]]
    schema: dict[str, Any]  #: of the answer
    entries: int  #: in the answer, each of about the same length
    seed: int  #: the same for the same interaction
    parse: Callable[[str], A]  #: raises a ``JudgeReplyError``
    marked: bool = False  #: spaces are written as ``MARK``, and may be in the answer
    squeezed: int = 0  #: how often the endpoint found it too long

    def read(self, content: str) -> A:
        """Read the answer, or raise a ``JudgeReplyError``."""
        return self.parse(content.replace(MARK, " ") if self.marked else content)


@dataclass(frozen=True, kw_only=True)
class Case:
    """
    One interaction as the judge gets to see it.

    For verdicts, passages come in an order drawn from the id of the interaction, because
    models give the first and the last more weight (Liu et al., 2023, Lost in the middle):
    over many interactions no place is favoured, and the same interaction is always asked
    alike. For criteria they keep their order and their numbers, because answers name them.
    """

    query: str
    history: tuple[tuple[str, str], ...]  #: role and text of the latest turns, the oldest first
    contexts: tuple[str, ...]
    sentences: tuple[str, ...]
    beyond: int  #: sentences of the output beyond the most that are ever judged
    seed: int
    budget: int  #: tokens for all texts together
    rest: dict[str, Any] = field(default_factory=dict)  #: reference, tool calls, expectations
    numbered: bool = False  #: answers name passages by number, so each has a part sent
    pieces: int = 0  #: of the passages for each sentence, beyond the first thousand tokens
    unstated: frozenset[str] = frozenset()  #: sentences that are headings, code or a signature
    suspects: tuple[str, ...] = ()  #: which texts seem to speak to the judge
    marked: bool = False
    squeezed: int = 0

    @classmethod
    def for_verdicts(cls, interaction: Interaction, budget: int, pieces: int = 0) -> Self:
        """Prepare an interaction for verdicts on the sentences of its output."""
        seed = _seed_of(interaction.id)
        contexts = [c.text for c in interaction.contexts if c.text.strip()]
        random.Random(seed).shuffle(contexts)  # noqa: S311 - a fair order, not a secret
        sentences = split_sentences(interaction.output) or (interaction.output.strip(),)
        return cls(
            query=interaction.query or "",
            history=_latest_turns(interaction),
            contexts=tuple(contexts),
            sentences=sentences[:MOST_SENTENCES],
            beyond=max(len(sentences) - MOST_SENTENCES, 0),
            unstated=headings_and_code(interaction.output),
            seed=seed,
            budget=budget,
            pieces=pieces,
        ).examined()

    @classmethod
    def for_criteria(
        cls,
        interaction: Interaction,
        fields: frozenset[str],
        reference: Sequence[str],
        budget: int,
    ) -> Self:
        """Prepare what *fields* name of an interaction; *reference* is the expected answer."""
        roots = {path.partition(".")[0] for path in fields}
        output = interaction.output if "output" in roots else ""
        sentences = split_sentences(output) or ((output.strip(),) if output else ())
        expected = {
            path.partition(".")[2]: lookup(interaction, path)
            for path in fields
            if path.startswith("expected.") and path != "expected.answer"
        }
        calls = [{"name": c.name, "arguments": c.arguments} for c in interaction.tool_calls]
        rest: dict[str, Any] = {
            "reference": _numbered(reference) if "expected.answer" in fields else [],
            "tool_calls": calls if "tool_calls" in fields else [],
            "expected": expected,
        }
        plain = json.loads(json.dumps(rest, default=str))
        return cls(
            query=(interaction.query or "") if "query" in roots else "",
            history=_latest_turns(interaction) if roots & {"query", "output"} else (),
            contexts=tuple(c.text for c in interaction.contexts) if "contexts" in roots else (),
            sentences=tuple(sentences[:MOST_SENTENCES]),
            beyond=max(len(sentences) - MOST_SENTENCES, 0),
            seed=_seed_of(interaction.id),
            budget=budget,
            rest={name: value for name, value in plain.items() if value},
            numbered=True,
        ).examined()

    def examined(self) -> Self:
        """Mark the texts if any of those that are sent seems to speak to the judge."""
        texts = {
            "query": self.packed.query,
            "contexts": "\n".join(self.packed.contexts),
            "output": "\n".join(self.packed.sentences),
        }
        if self.history:
            texts["history"] = "\n".join(text for _, text in self.history)
        if self.rest:
            texts["expected"] = _json(self.sent_rest)
        suspects = suspected(texts)
        return replace(self, suspects=suspects, marked=bool(suspects))

    @cached_property
    def sent_rest(self) -> dict[str, Any]:
        """The rest, its long texts and lists cut to ever less until it fits."""
        value, chars, items = self.rest, _LONGEST_CHARS, _LONGEST_ITEMS
        while value and tokens_of(_json(value)) > self.budget * _REST_SHARE and items > 1:
            value = _rewritten(value, itemgetter(slice(chars)), items)
            chars, items = chars // 2, items // 2
        return value

    @property
    def _tokens_beside(self) -> int:
        """The tokens of the rest and of the turns."""
        rest = tokens_of(_json(self.sent_rest)) if self.sent_rest else 0
        return rest + sum(tokens_of(text) for _, text in self.history)

    @cached_property
    def packed(self) -> Packed:
        """Query, passages and sentences, as far as they fit into the budget."""
        budget = self.budget
        if taken := self._tokens_beside:
            budget = max(budget - taken, _LEAST_BUDGET)
        return pack(
            self.query,
            self.contexts,
            self.sentences,
            budget,
            every=self.numbered,
            pieces=self.pieces,
        )

    @property
    def judged_sentences(self) -> dict[int, str]:
        """The sentences that can get a verdict, by number: none without passages."""
        sentences = enumerate(self.packed.sentences if self.contexts else (), start=1)
        return {n: text for n, text in sentences if self.sentences[n - 1] not in self.unstated}

    @property
    def sentences_left_out(self) -> int:
        """Sentences that were not sent, because there are too many."""
        return self.beyond + len(self.sentences) - len(self.packed.sentences)

    @property
    def passages_left_out(self) -> list[int]:
        """Numbers of the passages of which nothing is sent."""
        sent = zip(self.packed.contexts, self.contexts, strict=True)
        return [n for n, (part, text) in enumerate(sent, start=1) if text.strip() and not part]

    def squeezed_more(self) -> Self | None:
        """Halve the room that the texts take; None when there is nothing left to halve."""
        size = min(self.budget, self.packed.tokens + self._tokens_beside)
        if size // 2 < _LEAST_BUDGET:
            return None
        # Half of the turns as well, the latest.
        latest = self.history[len(self.history) // 2 + 1 :]
        return replace(self, budget=size // 2, history=latest, squeezed=self.squeezed + 1)

    def with_marks(self) -> Self:
        """Take the force out of the texts, because something in them spoke to the judge."""
        return replace(self, marked=True)

    def details(self) -> dict[str, Any]:
        """Return how it was asked, for the record; what is as usual is left out."""
        packed = self.packed
        sizes = {"chars_kept": packed.chars_kept, "chars": packed.chars}
        found: dict[str, Any] = {
            "contexts_packed": sizes if packed.cut else None,
            "query_cut": packed.query_cut,
            "sentences_cut": packed.sentences_cut,
            "injection_suspected": list(self.suspects),
            "texts_marked": self.marked,
        }
        if self.numbered:
            found["passages_left_out"] = self.passages_left_out
            found["sentences_left_out"] = self.sentences_left_out
            found["expected_cut"] = self.sent_rest != self.rest
        return {"seed": self.seed} | {key: value for key, value in found.items() if value}

    def answers(
        self, found: dict[str, CriterionAnswer | JudgeReplyError], reference: Sequence[str]
    ) -> Answers:
        """Put the answers beside what was sent; *reference* is the complete text."""
        wrong = {name: str(each) for name, each in found.items() if isinstance(each, Exception)}
        right = {k: each for k, each in found.items() if isinstance(each, CriterionAnswer)}
        return Answers(
            by_name=right,
            wrong=wrong,
            sentences=self.sentences[: len(self.packed.sentences)],
            passages=len(self.contexts),
            reference=tuple(reference[: len(self.sent_rest.get("reference", ()))]),
            passages_left_out=tuple(self.passages_left_out),
        )

    def verdict_request(
        self, prompt: str, asked: Sequence[int], doubted: Sequence[int]
    ) -> Request[JudgeReply]:
        """Ask for verdicts on *asked*, of which *doubted* had a quote that is in no passage."""
        write: Callable[[str], str] = marked if self.marked else str
        packed = self.packed
        unstated = {*range(1, len(packed.sentences) + 1)} - self.judged_sentences.keys()
        data: dict[str, Any] = {
            "query": write(packed.query),
            **self._sent_history(write),
            "contexts": [write(text) for text in packed.contexts if text],
            "sentences": {n: write(text) for n, text in enumerate(packed.sentences, start=1)},
            "asked": list(asked),
        }
        if doubted:
            data["asked_again_because_the_quote_was_in_no_passage"] = list(doubted)
        if self.marked:
            data["every_space_in_these_texts_is_written_as"] = MARK
        return self._request(
            prompt,
            data,
            VERDICT_SCHEMA,
            len(asked),
            lambda content, canary: read_verdicts(content, asked, canary, unstated),
        )

    def _sent_history(self, write: Callable[[str], str]) -> dict[str, Any]:
        turns = [{"role": role, "content": write(text)} for role, text in self.history]
        return {"history": turns} if turns else {}

    def criteria_request(
        self, prompt: str, criteria: Sequence[Criterion]
    ) -> Request[dict[str, CriterionAnswer | JudgeReplyError]]:
        """Ask *criteria*."""
        texts: dict[str, Any] = {
            "query": self.packed.query,
            **self._sent_history(str),
            "passages": _numbered(self.packed.contexts),
            "sentences": _numbered(self.packed.sentences),
        }
        data = {name: value for name, value in texts.items() if value} | self.sent_rest
        message: dict[str, Any] = {
            "criteria": [
                {"name": c.name, "form": c.form.value, "question": c.question} for c in criteria
            ],
            "data": _rewritten(data, marked) if self.marked else data,
        }
        if self.marked:
            message["every_space_in_the_texts_of_data_is_written_as"] = MARK
        most = {
            Form.SENTENCES: len(self.packed.sentences),
            Form.PASSAGES: len(self.packed.contexts),
            Form.REFERENCE: len(self.sent_rest.get("reference", ())),
        }
        return self._request(
            prompt,
            message,
            CRITERIA_SCHEMA,
            len(criteria),
            lambda content, canary: read_answers(content, criteria, most, canary),
        )

    def _request(
        self,
        prompt: str,
        message: dict[str, Any],
        schema: dict[str, Any],
        entries: int,
        parse: Callable[[str, str], A],
    ) -> Request[A]:
        """
        Separate *message* from *prompt* by secret words, new with every request.

        Raises
        ------
        ContextTooLongError
            If there is no room for any passage: without one, every claim would look unfounded.
        """
        if self.packed.lost and self.passages_left_out:
            raise ContextTooLongError("query and output leave no room for any passage")
        text = _json(message)
        tag, canary = secret_word("data", text), secret_word("canary", text)
        system = prompt.replace("DELIMITER", tag).replace("CANARY", canary)
        return Request(
            messages=[
                {"role": "system", "content": system},
                {"role": "user", "content": f"<{tag}>\n{text}\n</{tag}>"},
            ],
            schema=schema,
            entries=entries,
            seed=self.seed,
            parse=lambda content: parse(content, canary),
            marked=self.marked,
            squeezed=self.squeezed,
        )


def reference_of(interaction: Interaction) -> tuple[str, ...]:
    """Split the answer that was expected into sentences."""
    answer = lookup(interaction, "expected.answer")
    text = answer if isinstance(answer, str) else ""
    return split_sentences(text)[:MOST_SENTENCES] or ((text.strip(),) if text.strip() else ())


def _latest_turns(interaction: Interaction) -> tuple[tuple[str, str], ...]:
    """Return the latest turns, each with its beginning and its end: what a query refers to."""
    found = []
    for turn in interaction.history[-_MOST_TURNS:]:
        text, half = turn.content.strip(), _LONGEST_TURN // 2
        if len(text) > _LONGEST_TURN:
            text = f"{text[:half]}{GAP}{text[-half:]}"
        if text:
            found.append((turn.role, text))
    return tuple(found)


def _seed_of(interaction_id: str) -> int:
    digest = hashlib.sha256(interaction_id.encode(errors="replace")).digest()
    return int.from_bytes(digest[:8]) & _LARGEST_SEED


def _numbered(texts: Sequence[str]) -> list[dict[str, object]]:
    """Number *texts* from 1; empty ones are left out."""
    return [{"number": n, "text": text} for n, text in enumerate(texts, start=1) if text]


def _rewritten(value: Any, text: Callable[[str], str], items: int | None = None) -> Any:
    """Return a JSON value with all its texts rewritten, and of lists the first *items*."""
    if isinstance(value, str):
        return text(value)
    if isinstance(value, list):
        return [_rewritten(each, text, items) for each in value[:items]]
    if isinstance(value, dict):
        some = list(value.items())[:items]
        return {text(key): _rewritten(each, text, items) for key, each in some}
    return value


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


# Text that speaks to the judge, and how its force is taken away without its words.


#: Stands for every space of a marked text: no word, so that quotes are found all the same.
MARK = "^"
_CHARS_READ = 500_000  # of what is sent; usual settings send a tenth of that
_SPACES = re.compile(r"\s+")
_SIGN = "[\u3040-\u30ff\u3400-\u9fff]"
_BETWEEN_SIGNS = re.compile(f"(?<={_SIGN})(?={_SIGN})")
#: Letters that show nothing: they hide words between letters, or a whole text.
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u2060-\u2064\ufeff\U000e0000-\U000e007f]")
_INVISIBLE_TEXT = re.compile("[\U000e0020-\U000e007e]{8}")  # longer than the flag of a country
_TOLD = r"(?:instructions?|rules?|prompts?|directions?|guidelines?|orders?|criteria)"
_VERDICT = r"(?:supported|not_found|no_claim|contradicted|grounded|faithful|answered|correct)"
_JUDGE = r"(?:judge|grader|evaluator|fact[- ]?checker|llm|language model|ai (?:model|assistant))"
_SPEAKS_TO_A_MODEL = re.compile(
    rf"\b(?:ignore|disregard|forget|override|bypass)\b[^.!?\n]{{0,40}}\b{_TOLD}\b"
    rf"|\b(?:new|updated|system|developer) {_TOLD}\s*[:=]"
    r"|\b(?:you are|act as|pretend to be) (?:now )?(?:an?|the|no longer)\b"
    rf"[^.!?\n]{{0,20}}{_JUDGE}\b"
    rf"|\b(?:dear|attention|note (?:to|for)|hey|hello)[ ,:]+(?:the |all )?{_JUDGE}\b"
    r"|\b(?:mark|rate|label|score|judge|grade|classify|count|treat|report)\b[^.!?\n]{0,60}\bas\b"
    rf"[^.!?\n]{{0,20}}\b{_VERDICT}\b"
    r"|\b(?:say|state|report|reply|respond|answer|output|return)\b[^.!?\n]{0,20}"
    rf"\b(?:everything|all|every|each)\b[^.!?\n]{{0,40}}\b{_VERDICT}\b"
    r"|\bas (?:an?|the) (?:ai |llm |automated )?(?:judge|grader|evaluator|fact[- ]?checker)\b"
    rf"|\bverdicts?\b[^.!?\n]{{0,60}}\b{_VERDICT}\b"
    r"|\b(?:reviewer|evaluator|grader|auditor|qa)(?:'s)? (?:notes?|verified|approved|passed)\b"
    r"|[\"']?\b(?:verdicts?|answered|canary)\b[\"']?\s*(?:[:=]\s*[\"\[{]|=\s*\w)"
    r"|</?(?:data|system|assistant|user|instructions?)\b[^>\n]{0,40}>"
    r"|<\|(?:im_start|im_end|system|user|assistant|end|endoftext)\|>|\[/?INST\]",
    re.IGNORECASE,
)
#: Stems by which an order in other languages shows: a verb to disregard and a word for rules in one
#: sentence, or words for rating, all and right. Those in "signs" have no word boundaries.
_ORDER_WORDS = tuple(
    re.compile(rf"\b(?:{'|'.join(each['words'])})|{'|'.join(each['signs'])}", re.IGNORECASE)
    for each in json.loads(
        resources.files(__package__).joinpath("orders.json").read_text("utf-8")
    ).values()
)
_SENTENCE_END = re.compile(r"[.!?。！？\n]")  # noqa: RUF001 - other languages
_SPELT_OUT = re.compile(r"(?:\b[^\W\d_][ .-]{1,3}){10}")
_LEET, _LEET_WORD = (
    str.maketrans("013457@$", "oieastas"),
    re.compile(r"[a-z][013457@$][a-z]", re.IGNORECASE),
)


def suspected(texts: Mapping[str, str]) -> tuple[str, ...]:
    """
    Name the *texts* that seem to speak to the judge rather than to a reader.

    A pattern can neither find every such text nor be right about each it finds. So
    nothing is left out or scored by it: it only decides how the text is sent, and is
    put on record.
    """

    def orders(part: str) -> bool:
        ignore, rules, rate, every, right = (each.search(part) is not None for each in _ORDER_WORDS)
        return (ignore and rules) or (rate and every and right)

    found = []
    for name, text in texts.items():
        read = text[:_CHARS_READ]
        plain = _INVISIBLE.sub("", compatible(read)[:_CHARS_READ])  # some letters expand to 18
        forms = [plain, plain.translate(_LEET)] if _LEET_WORD.search(plain) else [plain]
        speaks = any(
            _SPEAKS_TO_A_MODEL.search(each)
            or (orders(each) and any(map(orders, _SENTENCE_END.split(each))))
            for each in forms
        )
        if speaks or _SPELT_OUT.search(plain) or _INVISIBLE_TEXT.search(read):
            found.append(name)
    return tuple(found)


def marked(text: str) -> str:
    """
    Put ``MARK`` for every space, and between signs that are written without spaces (Han, kana), so
    that no sentence reads as one addressed to the reader.

    Source: "datamarking" in Hines et al. (2024), Defending against indirect prompt
    injection attacks with spotlighting, arXiv:2403.14720.
    """
    return _SPACES.sub(MARK, _BETWEEN_SIGNS.sub(MARK, _INVISIBLE_TEXT.sub("", text)))


def secret_word(prefix: str, data: str) -> str:
    """Return a random word that is not in *data*."""
    while (word := f"{prefix}-{secrets.token_hex(6)}") in data:  # as likely as a lottery win
        continue
    return word
