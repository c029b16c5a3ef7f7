"""What the judge is asked by criteria about one interaction: data, set apart from what we say."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from monitor.models import Interaction
from monitor.scoring.declaration import Answer, Answers, Criterion, Form, lookup
from monitor.scoring.judges.criteria_reply import read_answers
from monitor.scoring.judges.injection import MARK, marked, secret_word, suspected
from monitor.scoring.judges.openai_errors import no_room
from monitor.scoring.judges.packing import Packed, pack, tokens_of
from monitor.scoring.judges.question import seed_of, sent_texts
from monitor.scoring.sentences import MOST_SENTENCES, split_sentences

_LEAST_BUDGET = 200  # tokens; with less there is nothing to judge by
_REST_SHARE = 0.3  # of the budget, for all that is neither query, passage nor sentence
_LONGEST_CHARS, _LONGEST_ITEMS = 8_192, 512  # of a text and of a list, halved until all fit


@dataclass(frozen=True, slots=True, kw_only=True)
class CriteriaQuestion:
    """One request: what is sent, and how its answer is read."""

    messages: list[dict[str, str]]
    asked: tuple[Criterion, ...]
    most: dict[Form, int]
    canary: str
    seed: int
    marked: bool
    squeezed: int

    def read(self, content: str) -> dict[str, Answer]:
        """Read the answer, or raise a ``JudgeReplyError``."""
        text = content.replace(MARK, " ") if self.marked else content
        return read_answers(text, self.asked, self.most, self.canary)


@dataclass(frozen=True, slots=True, kw_only=True)
class CriteriaCase:
    """
    One interaction as the judge gets to see it: only the fields that metrics need.

    Passages keep their order and their numbers, because answers name them by number.
    """

    query: str
    contexts: tuple[str, ...]
    sentences: tuple[str, ...]
    rest: dict[str, Any]  #: reference, tool calls and other expectations, as they are sent
    seed: int
    suspects: tuple[str, ...]  #: which fields seem to speak to the judge
    budget: int  #: tokens for all texts together
    marked: bool
    beyond: int = 0  #: sentences of the output beyond the most that are ever judged
    squeezed: int = 0

    @classmethod
    def of(
        cls,
        interaction: Interaction,
        fields: frozenset[str],
        reference: Sequence[str],
        budget: int,
    ) -> Self:
        """Gather what *fields* name of an interaction."""
        roots = {path.partition(".")[0] for path in fields}
        query = (interaction.query or "") if "query" in roots else ""
        contexts = [c.text for c in interaction.contexts] if "contexts" in roots else []
        output = interaction.output if "output" in roots else ""
        sentences = split_sentences(output) or ((output.strip(),) if output else ())
        made = cls(
            query=query,
            contexts=tuple(contexts),
            sentences=tuple(sentences[:MOST_SENTENCES]),
            beyond=max(len(sentences) - MOST_SENTENCES, 0),
            rest=_rest(interaction, fields, reference),
            seed=seed_of(interaction.id),
            suspects=(),
            budget=budget,
            marked=False,
        )
        packed, rest = made.packed()
        suspects = suspected(sent_texts(packed) | {"expected": _json(rest)})
        return replace(made, suspects=suspects, marked=bool(suspects))

    def packed(self) -> tuple[Packed, dict[str, Any]]:
        """Fit the texts into the budget: query, passages and sentences, and all the rest."""
        rest = _fitted(self.rest, int(self.budget * _REST_SHARE))
        left = self.budget - (tokens_of(_json(rest)) if rest else 0)
        packed = pack(
            self.query, self.contexts, self.sentences, max(left, _LEAST_BUDGET), every=True
        )
        return packed, rest

    def squeezed_more(self) -> Self | None:
        """Halve the room that the texts take; None when there is nothing left to halve."""
        packed, rest = self.packed()
        size = min(self.budget, packed.tokens + tokens_of(_json(rest)))
        if size // 2 < _LEAST_BUDGET:
            return None
        return replace(self, budget=size // 2, squeezed=self.squeezed + 1)

    def with_marks(self) -> Self:
        """Take the force out of the texts, because something in them spoke to the judge."""
        return replace(self, marked=True)

    def question(self, prompt: str, criteria: Sequence[Criterion]) -> CriteriaQuestion:
        """
        Ask *criteria*; the secret words are new with every question.

        Raises
        ------
        ContextTooLongError
            If there is no room for any passage.
        """
        asked = [{"name": c.name, "form": c.form.value, "question": c.question} for c in criteria]
        packed, rest = self.packed()
        if packed.lost and self._left_out(packed):
            raise no_room()
        message: dict[str, Any] = {"criteria": asked, "data": self._data(packed, rest)}
        if self.marked:
            message["every_space_in_the_texts_of_data_is_written_as"] = MARK
        text = _json(message)
        tag, canary = secret_word("data", text), secret_word("canary", text)
        system = prompt.replace("DELIMITER", tag).replace("CANARY", canary)
        return CriteriaQuestion(
            messages=[
                {"role": "system", "content": system},
                {"role": "user", "content": f"<{tag}>\n{text}\n</{tag}>"},
            ],
            asked=tuple(criteria),
            most={
                Form.SENTENCES: len(packed.sentences),
                Form.PASSAGES: len(packed.contexts),
                Form.REFERENCE: len(rest.get("reference", ())),
            },
            canary=canary,
            seed=self.seed,
            marked=self.marked,
            squeezed=self.squeezed,
        )

    def details(self) -> dict[str, Any]:
        """Put on record how it was asked; what is as usual is left out."""
        packed, rest = self.packed()
        kept = {"chars_kept": packed.chars_kept, "chars": packed.chars}
        found: dict[str, Any] = {
            "contexts_packed": kept if packed.cut else None,
            "passages_left_out": self._left_out(packed),
            "query_cut": packed.query_cut,
            "sentences_left_out": self.beyond + len(self.sentences) - len(packed.sentences),
            "expected_cut": rest != self.rest,
            "injection_suspected": list(self.suspects),
            "texts_marked": self.marked,
        }
        return {"seed": self.seed} | {key: value for key, value in found.items() if value}

    def answers(self, found: dict[str, Answer], reference: Sequence[str]) -> Answers:
        """Put what was said beside what was sent; *reference* is the whole of it."""
        packed, rest = self.packed()
        return Answers(
            by_name=found,
            sentences=self.sentences[: len(packed.sentences)],
            passages=len(self.contexts),
            reference=tuple(reference[: len(rest.get("reference", ()))]),
            passages_left_out=tuple(self._left_out(packed)),
        )

    def _left_out(self, packed: Packed) -> list[int]:
        sent = zip(packed.contexts, self.contexts, strict=True)
        return [n for n, (part, text) in enumerate(sent, start=1) if text.strip() and not part]

    def _data(self, packed: Packed, rest: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = {
            "query": packed.query,
            "passages": numbered(packed.contexts),
            "sentences": numbered(packed.sentences),
        }
        data = {name: value for name, value in found.items() if value} | rest
        return _marked(data) if self.marked else data


def numbered(texts: Sequence[str]) -> list[dict[str, object]]:
    """Number *texts* from 1; empty ones are left out."""
    return [{"number": n, "text": text} for n, text in enumerate(texts, start=1) if text]


def reference_of(interaction: Interaction) -> tuple[str, ...]:
    """Split the answer that was expected into sentences."""
    answer = lookup(interaction, "expected.answer")
    text = answer if isinstance(answer, str) else ""
    return split_sentences(text)[:MOST_SENTENCES] or ((text.strip(),) if text.strip() else ())


def _rest(
    interaction: Interaction, fields: frozenset[str], reference: Sequence[str]
) -> dict[str, Any]:
    expected = {
        path.partition(".")[2]: lookup(interaction, path)
        for path in fields
        if path.startswith("expected.") and path != "expected.answer"
    }
    calls = [{"name": c.name, "arguments": c.arguments} for c in interaction.tool_calls]
    found: dict[str, Any] = {
        "reference": numbered(reference) if "expected.answer" in fields else [],
        "tool_calls": calls if "tool_calls" in fields else [],
        "expected": expected,
    }
    plain = json.loads(json.dumps(found, default=str))
    return {name: value for name, value in plain.items() if value}


def _fitted(value: dict[str, Any], budget: int) -> dict[str, Any]:
    """Cut long texts and long lists to ever less until all fit, or little is left of each."""
    chars, items = _LONGEST_CHARS, _LONGEST_ITEMS
    while value and tokens_of(_json(value)) > budget and items > 1:
        value = _clipped(value, chars, items)
        chars, items = chars // 2, items // 2
    return value


def _clipped(value: Any, chars: int, items: int) -> Any:
    if isinstance(value, str):
        return value[:chars]
    if isinstance(value, list):
        return [_clipped(each, chars, items) for each in value[:items]]
    if isinstance(value, dict):
        return {
            key[:chars]: _clipped(each, chars, items) for key, each in list(value.items())[:items]
        }
    return value


def _marked(value: Any) -> Any:
    if isinstance(value, str):
        return marked(value)
    if isinstance(value, list):
        return [_marked(each) for each in value]
    if isinstance(value, dict):
        return {marked(key): _marked(each) for key, each in value.items()}
    return value


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
