"""Pack long passages into a budget of tokens: what bears on query and output stays."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from monitor.scoring.language import compatible, words

#: Stands where text was left out of a passage; no word, so that no quote can hold it.
GAP = " [...] "
#: Tokens of passages that are sent even if they share no word with query or answer.
ENOUGH = 1_000
_BYTES_PER_TOKEN = 4
_LONGEST_PIECE = 400  # characters
_PIECE_END = re.compile(r"\n\s*|(?<=[.!?])\s+|(?<=[。！？])\s*")  # noqa: RUF001 - other languages
_QUERY_SHARE, _OUTPUT_SHARE = 0.2, 0.5
_TOKENS_A_TEXT = 8  # of JSON around a passage or a sentence
_TOKENS_AROUND_GAP = 2
_LEAST_PIECE = 40  # tokens; a shorter one is not a sentence
# Constants of BM25: Robertson and Zaragoza (2009), The Probabilistic Relevance Framework.
_SATURATION, _LENGTH_WEIGHT = 1.2, 0.75


@dataclass(frozen=True, slots=True)
class Packed:
    """Texts that fit, and what was left out; ``contexts`` may hold empty texts."""

    query: str
    contexts: tuple[str, ...]
    sentences: tuple[str, ...]
    chars_kept: int
    chars: int
    sentences_cut: int = 0  #: sentences of which only the beginning is sent
    query_cut: bool = False

    @property
    def tokens(self) -> int:
        """Estimate how many tokens the texts take."""
        return sum(
            tokens_of(text) + _TOKENS_A_TEXT
            for text in (self.query, *self.contexts, *self.sentences)
        )

    @property
    def cut(self) -> bool:
        """Whether the judge sees less of the passages than the application did."""
        return self.chars_kept < self.chars

    @property
    def lost(self) -> bool:
        """Whether no passage is left at all, so that nothing can be judged by them."""
        return self.chars_kept == 0 and self.chars > 0


def tokens_of(text: str) -> int:
    """
    Estimate the tokens of *text*: a quarter of its bytes in UTF-8, at least one.

    About right for English with the usual byte-pair vocabularies, an over-estimate for
    most other alphabets, up to a third too low for Chinese and for numbers. An endpoint
    that finds it too long says so, and is asked again with less.
    """
    return len(text.encode(errors="replace")) // _BYTES_PER_TOKEN + 1


def pack(
    query: str,
    contexts: Sequence[str],
    sentences: Sequence[str],
    budget: int,
    *,
    every: bool = False,
    pieces: int = 0,
) -> Packed:
    """
    Fit *query*, *contexts* and *sentences* into *budget* tokens.

    Sentences come first, up to half of the budget: those that do not fit are left off the
    end. The query gets up to a fifth, its middle is left out. Passages get the rest, in
    pieces of a few sentences: in turns, each sentence of the output and the query take
    the piece that they rank highest (BM25), until the budget is full. Pieces keep their
    passage and their order; ``GAP`` stands for what is missing.

    With *every* each passage keeps its best piece while there is room. With *pieces* above 0,
    only so many are taken for each sentence beyond the first ``ENOUGH`` tokens of passages, and
    a passage that is there twice is sent once.
    """
    asked, most = query, int(budget * _QUERY_SHARE)
    if tokens_of(query) > most:
        half, raw = most * _BYTES_PER_TOKEN // 2, query.encode(errors="replace")
        asked = raw[:half].decode(errors="ignore") + GAP + raw[-half:].decode(errors="ignore")
    said: list[str] = []
    used, most, cut = 0, int(budget * _OUTPUT_SHARE), 0
    for sentence in sentences:
        used += tokens_of(sentence) + _TOKENS_A_TEXT
        if used > most:
            break
        said.append(sentence)
    if sentences and not said:
        said, cut = [_beginning(sentences[0], most)], 1
    left = budget - tokens_of(asked) - sum(tokens_of(s) + _TOKENS_A_TEXT for s in said)
    once = contexts
    if pieces:
        # Each passage that repeats, letter for letter, one before it is sent once.
        plain = [" ".join(text.split()).casefold() for text in contexts]
        once = [
            text if plain.index(p) == i else ""
            for i, (text, p) in enumerate(zip(contexts, plain, strict=True))
        ]
    kept = _pack_contexts([query, *said], once, left, every=every, pieces=pieces)
    return Packed(
        query=asked,
        contexts=tuple(kept),
        sentences=tuple(said),
        chars_kept=sum(len(text.replace(GAP, "")) for text in kept),
        chars=sum(map(len, contexts)),
        sentences_cut=cut,
        query_cut=asked != query,
    )


def _pack_contexts(
    wants: Sequence[str], contexts: Sequence[str], budget: int, *, every: bool, pieces: int
) -> list[str]:
    whole = min(budget, ENOUGH) if pieces else budget
    if sum(tokens_of(text) + _TOKENS_A_TEXT for text in contexts if text) <= whole:
        return list(contexts)
    cut = [(owner, piece) for owner, text in enumerate(contexts) for piece in _pieces(text)]
    order = StemIndex([piece for _, piece in cut]).turns(wants)
    if every:
        best: dict[int, int] = {}
        for _, number in order:
            best.setdefault(cut[number][0], number)
        leading = [(0, best[owner]) for owner in sorted(best)]
        order = [*leading, *(each for each in order if each[1] not in best.values())]
    left, kept, opened = budget, set[int](), set[int]()
    for turn, number in order:
        if pieces and turn >= pieces and budget - left >= ENOUGH:
            break
        owner, piece = cut[number]
        cost = tokens_of(piece) + (_TOKENS_AROUND_GAP if owner in opened else _TOKENS_A_TEXT)
        if cost <= left:
            left -= cost
            kept.add(number)
            opened.add(owner)
    if not kept and order and left >= _LEAST_PIECE:
        # Nothing would be worse than the beginning of the best: all claims would be unfounded.
        number = order[0][1]
        owner, piece = cut[number]
        cut[number], kept = (owner, _beginning(piece, left - _TOKENS_A_TEXT)), {number}
    texts, gaps = [""] * len(contexts), [False] * len(contexts)
    for number, (owner, piece) in enumerate(cut):
        if number in kept:
            texts[owner] += (GAP if gaps[owner] else "") + piece
        gaps[owner] = number not in kept
    return [text + GAP if text and gap else text for text, gap in zip(texts, gaps, strict=True)]


def _beginning(text: str, budget: int) -> str:
    raw = text.encode(errors="replace")[: max(budget, 0) * _BYTES_PER_TOKEN]
    return raw.decode(errors="ignore")


def _pieces(text: str) -> Iterator[str]:
    """Cut *text*, letter for letter, at the ends of sentences where there are some."""
    start = end = 0
    for match in (*_PIECE_END.finditer(text), None):
        last = len(text) if match is None else match.end()
        if last - start > _LONGEST_PIECE and end > start:
            yield from _slices(text[start:end])
            start = end
        end = last
    yield from _slices(text[start:])


def _slices(text: str) -> Iterator[str]:
    for start in range(0, len(text), 2 * _LONGEST_PIECE):
        yield text[start : start + 2 * _LONGEST_PIECE]


class StemIndex:
    """
    Which of some texts holds which stem how often, to rank them by BM25.

    References
    ----------
    .. [1] S. Robertson, H. Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond",
       Foundations and Trends in Information Retrieval 3 (2009), 333-389.
    """

    def __init__(self, pieces: Sequence[str]) -> None:
        self._count = len(pieces)
        self._where: dict[str, list[tuple[int, int]]] = {}
        sizes = []
        for number, piece in enumerate(pieces):
            read = compatible(piece)[: 2 * _LONGEST_PIECE]  # some letters expand to eighteen
            stems = Counter(word.stem for word in words(read) if word.content)
            sizes.append(stems.total())
            for stem, times in stems.items():
                self._where.setdefault(stem, []).append((number, times))
        usual = sum(sizes) / max(len(sizes), 1) or 1.0
        self._norms = [
            _SATURATION * (1 - _LENGTH_WEIGHT + _LENGTH_WEIGHT * size / usual) for size in sizes
        ]

    def turns(self, wants: Sequence[str]) -> list[tuple[int, int]]:
        """
        Rank pieces in turns: the best for each of *wants*, the second best, and so on.

        Return turns and numbers of pieces; what no want has a word of comes last.
        """
        turns: dict[int, int] = {}
        for turn, row in enumerate(zip_longest(*map(self.order, wants))):
            for number in row:
                if number is not None:
                    turns.setdefault(number, turn)
        for number in range(self._count):
            turns.setdefault(number, self._count)
        return [(turn, number) for number, turn in turns.items()]

    def order(self, want: str) -> list[int]:
        """Rank the pieces that share a stem with *want*, the best first."""
        scores: dict[int, float] = {}
        for stem in dict.fromkeys(word.stem for word in words(want) if word.content):
            found = self._where.get(stem, [])
            rare = math.log1p((self._count - len(found) + 0.5) / (len(found) + 0.5))
            for number, times in found:
                gain = rare * times / (times + self._norms[number])
                scores[number] = scores.get(number, 0.0) + gain
        return sorted(scores, key=lambda number: (-scores[number], number))
