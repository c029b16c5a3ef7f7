"""Say whether the passages hold what a question asks for, to judge an "I don't know"."""

from __future__ import annotations

from monitor.scoring.features.aligned import Aligned
from monitor.scoring.features.passages import Passages
from monitor.scoring.features.relevance import type_of_answer

_MOST_CHARS = 2_000  # of a question


def answer_held(query: str | None, passages: Passages) -> tuple[float, tuple[int, ...]]:
    """
    Measure how far two sentences of the passages hold what *query* asks for.

    Returns the share of its information in [0, 1], which is 0 when the kind of thing
    that is asked for (a person, a date, a number) is missing there, and the sentences.
    """
    if not query or not len(passages):
        return 0.0, ()
    aligned = Aligned.lay(query[:_MOST_CHARS], passages)
    told = [passages.sentences[number][1] for number in aligned.evidence]
    found = [word for number in aligned.evidence for word in passages.words[number]]
    _, misses = type_of_answer(query, " ".join(told), found)
    return (0.0 if misses else aligned.shares[1]), aligned.evidence
