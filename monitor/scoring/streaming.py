"""Grounding of an answer while it is written, chunk by chunk (seed 002, streaming evaluation)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from monitor.scoring.entailment import MOST_PASSAGES, local_entailment
from monitor.scoring.metrics.faithfulness import faithfulness
from monitor.scoring.sentences import is_checkable, split_sentences


@dataclass(frozen=True, slots=True)
class SentenceGrounding:
    """One finished sentence; ``support`` in [0, 1] is None where it states nothing."""

    sentence: str
    support: float | None
    grounded: bool


@dataclass(slots=True)
class StreamingGrounding:
    """
    Judges each sentence as soon as it is certainly complete.

    However the text is cut into chunks, the same sentences are judged, in the same order,
    as for the whole text. A sentence is complete when another one has begun behind it;
    ``finish`` judges the last.

    Parameters
    ----------
    contexts
        The passages.
    threshold
        From this support on, in [0, 1], a sentence is grounded.
    """

    contexts: Sequence[str]
    threshold: float = 0.5
    judged: list[SentenceGrounding] = field(default_factory=list)
    _text: str = ""

    def feed(self, chunk: str) -> list[SentenceGrounding]:
        """Take the next piece; give the sentences that it completes."""
        self._text += chunk
        return self._judge(split_sentences(self._text)[:-1])

    def finish(self) -> list[SentenceGrounding]:
        """Judge what is left."""
        return self._judge(split_sentences(self._text))

    @property
    def faithfulness(self) -> float | None:
        """Share of the sentences so far that are grounded; None when none states anything."""
        claims = [each.grounded for each in self.judged if each.support is not None]
        return faithfulness(claims) if claims else None

    def _judge(self, sentences: Sequence[str]) -> list[SentenceGrounding]:
        new = [self._ground(each) for each in sentences[len(self.judged) :]]
        self.judged += new
        return new

    def _ground(self, sentence: str) -> SentenceGrounding:
        if not is_checkable(sentence):
            return SentenceGrounding(sentence, None, grounded=False)
        passages = self.contexts[:MOST_PASSAGES]
        support = max((local_entailment(text, sentence) for text in passages), default=0.0)
        return SentenceGrounding(sentence, support, support >= self.threshold)
