"""What the judge is asked about one interaction: data, set apart from what we say."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self, TypeVar

from monitor.models import Interaction
from monitor.scoring.judges.injection import MARK, marked, secret_word, suspected
from monitor.scoring.judges.openai_errors import no_room
from monitor.scoring.judges.packing import Packed, pack
from monitor.scoring.judges.reply import JudgeReply, read_reply
from monitor.scoring.sentences import MOST_SENTENCES, split_sentences

_T_co = TypeVar("_T_co", covariant=True)
_LARGEST_SEED = 2**31 - 1
_LEAST_BUDGET = 200  # tokens; with less there is nothing to judge by


class Askable(Protocol[_T_co]):
    """What can be asked of a chat endpoint: what is sent, and how its answer is read."""

    @property
    def messages(self) -> list[dict[str, str]]:
        """What is sent."""

    @property
    def asked(self) -> Sequence[Any]:
        """What gets an entry in the answer, each of about the same length."""

    @property
    def seed(self) -> int:
        """The same for the same interaction."""

    @property
    def squeezed(self) -> int:
        """How often the endpoint found it too long."""

    def read(self, content: str) -> _T_co:
        """Read the answer, or raise a ``JudgeReplyError``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One request: what is sent, and how its answer is read."""

    messages: list[dict[str, str]]
    asked: tuple[int, ...]  #: numbers of the sentences that get a verdict
    canary: str
    seed: int
    marked: bool = False  #: spaces are written as ``MARK``, and may be in the answer
    squeezed: int = 0  #: how often the endpoint found the question too long

    def read(self, content: str) -> JudgeReply:
        """Read the answer, or raise a ``JudgeReplyError``."""
        text = content.replace(MARK, " ") if self.marked else content
        return read_reply(text, self.asked, self.canary)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """
    One interaction as the judge gets to see it.

    Passages come in an order drawn from the id of the interaction, because models give
    the first and the last more weight (Liu et al., 2023, Lost in the middle): over many
    interactions no place is favoured, and the same interaction is always asked alike.
    """

    query: str
    contexts: tuple[str, ...]  #: without blank ones, in the order they are sent
    sentences: tuple[str, ...]
    sentences_left_out: int  #: beyond the most that are ever judged
    seed: int
    suspects: tuple[str, ...]  #: which of query, contexts and output seem to speak to the judge
    budget: int  #: tokens for all texts together
    marked: bool
    pieces: int = 0  #: of the passages for each sentence, beyond the first thousand tokens
    squeezed: int = 0

    @classmethod
    def of(cls, interaction: Interaction, budget: int, pieces: int = 0) -> Case:
        """Prepare an interaction."""
        seed = seed_of(interaction.id)
        contexts = [c.text for c in interaction.contexts if c.text.strip()]
        random.Random(seed).shuffle(contexts)  # noqa: S311 - a fair order, not a secret
        found = split_sentences(interaction.output) or (interaction.output.strip(),)
        made = cls(
            query=interaction.query or "",
            contexts=tuple(contexts),
            sentences=found[:MOST_SENTENCES],
            sentences_left_out=max(len(found) - MOST_SENTENCES, 0),
            seed=seed,
            suspects=(),
            budget=budget,
            marked=False,
            pieces=pieces,
        )
        suspects = suspected(sent_texts(made.packed()))
        return replace(made, suspects=suspects, marked=bool(suspects))

    def numbers(self, packed: Packed) -> tuple[int, ...]:
        """List the numbers of all sentences that can get a verdict: none without passages."""
        return tuple(range(1, len(packed.sentences) + 1)) if self.contexts else ()

    def packed(self) -> Packed:
        """Fit the texts into the budget."""
        return pack(self.query, self.contexts, self.sentences, self.budget, pieces=self.pieces)

    def squeezed_more(self) -> Self | None:
        """Halve the room that the texts take; None when there is nothing left to halve."""
        size = min(self.budget, self.packed().tokens)
        if size // 2 < _LEAST_BUDGET:
            return None
        return replace(self, budget=size // 2, squeezed=self.squeezed + 1)

    def with_marks(self) -> Self:
        """Take the force out of the texts, because something in them spoke to the judge."""
        return replace(self, marked=True)

    def question(
        self, prompt: str, packed: Packed, asked: Sequence[int], doubted: Sequence[int]
    ) -> Question:
        """
        Ask for verdicts on *asked*; the secret words are new with every question.

        Raises
        ------
        ContextTooLongError
            If there is no room for any passage.
        """
        if packed.lost:
            raise no_room()
        write: Callable[[str], str] = marked if self.marked else str
        data: dict[str, Any] = {
            "query": write(packed.query),
            "contexts": [write(text) for text in packed.contexts if text],
            "sentences": {n: write(text) for n, text in enumerate(packed.sentences, start=1)},
            "asked": list(asked),
        }
        if doubted:
            data["asked_again_because_the_quote_was_in_no_passage"] = list(doubted)
        if self.marked:
            data["every_space_in_these_texts_is_written_as"] = MARK
        text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
        tag, canary = secret_word("data", text), secret_word("canary", text)
        return Question(
            messages=[
                {
                    "role": "system",
                    "content": prompt.replace("DELIMITER", tag).replace("CANARY", canary),
                },
                {"role": "user", "content": f"<{tag}>\n{text}\n</{tag}>"},
            ],
            asked=tuple(asked),
            canary=canary,
            seed=self.seed,
            marked=self.marked,
            squeezed=self.squeezed,
        )


def sent_texts(packed: Packed) -> dict[str, str]:
    """Name the texts that the judge gets to see: what is left out cannot speak to it."""
    return {
        "query": packed.query,
        "contexts": "\n".join(packed.contexts),
        "output": "\n".join(packed.sentences),
    }


def seed_of(interaction_id: str) -> int:
    """Draw a seed from the id of an interaction."""
    digest = hashlib.sha256(interaction_id.encode(errors="replace")).digest()
    return int.from_bytes(digest[:8]) & _LARGEST_SEED
