"""
Which passages entail which statements of an answer: one door for all metrics that need to know.

What decides is the judgement of the configured back end (judge, NLI model or local scorer). It
says of each statement whether the passages together support it, and quotes the place. Which of
several passages does is known to an NLI model; else it is found by the quote, and by the local
scorer, which counts words.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Callable,
    Iterable,
    Iterator,
    Sequence,
)
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeVar

from monitor.scoring.base import Claim, ClaimVerdict, Judgement
from monitor.scoring.declaration import check_cpu
from monitor.scoring.language import words
from monitor.scoring.local.passages import Passages
from monitor.scoring.local.reading import read_claim
from monitor.scoring.local.scorer import LocalJudge
from monitor.scoring.sentences import (
    MOST_SENTENCES,
    is_checkable,
    split_sentences,
    split_statements,
)

#: A claim is compared with no more passages than this: the time is bounded.
MOST_PASSAGES = 20
#: Above this support a statement is surely supported.
STRONG = 0.8
#: In round brackets only authors with a year, and sources: "(EUR 30)" is a figure to support.
_MARKS = re.compile(
    r"\[[^\][]{1,100}\]|【[^】]{1,40}】|[¹²³⁰⁴-⁹]+"
    r"|\([A-Z][a-z'][\w'-]{0,60}[^()]{0,60}(?:19|20)\d\d[^()]{0,30}\)"
    r"|\((?:see )?(?i:source|citation|doc(?:ument)?|passage|context|ref(?:erence)?|chunk)s?:? \d"
    r"[^()]{0,30}\)"
)
_WORD = re.compile(r"\w+")
logger = logging.getLogger("groundwatch.stream")
_SHORT = 3  # content words; the local scorer is calibrated on longer statements


#: Verdicts on claims that a passage may support, as far as it does.
_CARRIED = frozenset({ClaimVerdict.SUPPORTED, ClaimVerdict.UNDECIDED})
#: Of what says nothing that a passage could support, whether it should or not.
_STATES_NOTHING = frozenset({ClaimVerdict.NO_CLAIM, ClaimVerdict.WRONG_REFUSAL})


class Entailment:
    """
    The support for each statement of one answer by each passage, in [0, 1].

    A statement is supported as far as all that it says is: one that the passages contradict is not
    supported by the words that it shares with them. Of several passages together, each supports
    it that supports a part. *statements* are parts of the answer without marks, of which the
    first 200 count.
    """

    def __init__(
        self, judgement: Judgement, passages: Sequence[str], statements: Sequence[str]
    ) -> None:
        self._texts = list(passages)
        self._passages = [f" {_bare(text)} " for text in passages]
        claims: dict[str, dict[str, Claim]] = {}  # by sentence and text: some are said twice
        for each in judgement.claims:
            claims.setdefault(_bare(each.sentence or each.text), {}).setdefault(each.text, each)
        #: By statement, its parts with the claims that were judged.
        self._parts: list[list[tuple[str, Claim]]] = []
        for statement in statements[:MOST_SENTENCES]:
            bare = _bare(statement)
            found = [*claims.get(bare, {}).values()]
            if not found and bare:
                check_cpu()
                found = [
                    claim
                    for text, several in claims.items()
                    if text and (f" {text} " in f" {bare} " or f" {bare} " in f" {text} ")
                    for claim in several.values()
                ]
                # Of a sentence that is more than the statement, those about the statement.
                about = [claim for claim in found if _is_mostly_in(_bare(claim.text), bare)]
                found = about or found
            found = [each for each in found if each.verdict not in _STATES_NOTHING]
            # One is read without its marks; more are in the judge's words.
            texts = [statement] if len(found) == 1 else [_MARKS.sub("", c.text) for c in found]
            self._parts.append(
                [
                    (part, claim)
                    for text, claim in zip(texts, found, strict=True)
                    for part in split_statements(text)
                ]
            )
        self._carried = tuple(
            dict.fromkeys(
                text for parts in self._parts for text, each in parts if each.verdict in _CARRIED
            )
        )
        self._by_words: dict[int, dict[str, float]] = {}

    def is_judged(self, statement: int) -> bool:
        """Return whether a statement says something that was judged."""
        return statement < len(self._parts) and bool(self._parts[statement])

    def support(self, statement: int, passages: Sequence[int]) -> list[float]:
        """
        Return the support of a statement by each of *passages*, all by their index.

        It is the most that a passage supports of the statement, and no more than what all of these
        support of the whole of it, together.
        """
        parts = self._parts[statement] if self.is_judged(statement) else []
        if not parts or any(claim.verdict not in _CARRIED for _, claim in parts):
            return [0.0] * len(passages)
        rows = [[self._of_part(part, each) for each in passages] for part in parts]
        all_of_it = min(max(row, default=0.0) for row in rows)
        return [min(all_of_it, max(column)) for column in zip(*rows, strict=True)]

    def _of_part(self, part: tuple[str, Claim], passage: int) -> float:
        text, claim = part
        if claim.by_passage:
            return claim.by_passage[passage]
        if claim.verdict is ClaimVerdict.SUPPORTED:
            quoted = claim.evidence and f" {_bare(claim.evidence)} " in self._passages[passage]
            if quoted or claim.context_index == passage:
                return claim.support
        # An undecided one is read again, without its marks.
        if passage not in self._by_words:
            found = supports(self._texts[passage], self._carried)
            self._by_words[passage] = dict(zip(self._carried, found, strict=True))
        return self._by_words[passage][text]

    def supporting(self, statement: int, least: float) -> list[int]:
        """Return those of the first passages that, with the others, support a statement."""
        found = self.support(statement, range(len(self._texts))[:MOST_PASSAGES])
        return [n for n, value in enumerate(found) if value >= least]

    def best(self, statement: int) -> list[int]:
        """Return those of the first passages that support a statement most, or surely."""
        found = self.support(statement, range(len(self._texts))[:MOST_PASSAGES])
        line = min(STRONG, max(found, default=0.0))
        return [n for n, value in enumerate(found) if value >= line > 0]


def supports(premise: str, hypotheses: tuple[str, ...]) -> tuple[float, ...]:
    """
    Return the local scorer's support for each of *hypotheses* by *premise*, in [0, 1].

    Of several sentences in one hypothesis the least supported counts. It counts words,
    numbers, names and negations: paraphrases and inferences score too low. All at once costs
    about as much as one, and recent results are cached.
    """
    return _supports(_Question(premise, hypotheses))


def local_entailment(premise: str, hypothesis: str) -> float:
    """Return the support for one statement; see `supports`."""
    return supports(premise, (hypothesis,))[0]


class _Question:
    """A cache key that is as small as its digest once it is answered."""

    __slots__ = ("_digest", "texts")

    def __init__(self, premise: str, hypotheses: tuple[str, ...]) -> None:
        sizes = [len(text) for text in (premise, *hypotheses)]
        raw = "\0".join((*map(str, sizes), premise, *hypotheses)).encode("utf-8", "surrogatepass")
        self._digest = hashlib.blake2b(raw, digest_size=16).digest()
        self.texts = (premise, hypotheses)  #: deleted by who answers: the cache keeps only us

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Question) and self._digest == other._digest

    def __hash__(self) -> int:
        return hash(self._digest)


@lru_cache(maxsize=1)
def _judge() -> LocalJudge:
    return LocalJudge()


@lru_cache(maxsize=512)
def _supports(question: _Question) -> tuple[float, ...]:
    check_cpu()
    premise, hypotheses = question.texts
    del question.texts
    if not premise.strip() or not hypotheses:
        return (0.0,) * len(hypotheses)
    stated = [[s for s in split_sentences(each) if is_checkable(s)] for each in hypotheses]
    found = iter(_judge().support(premise, [each for sentences in stated for each in sentences]))
    stems = {word.stem for word in words(premise)}
    supported: list[float] = []
    for text, sentences in zip(hypotheses, stated, strict=True):
        least = min([next(found) for _ in sentences], default=0.0)
        content = [word.stem for word in words(text) if word.content]
        # A few words are supported only if they are all there.
        held = len(content) > _SHORT or stems.issuperset(content)
        supported.append(least if held else 0.0)
    return tuple(supported)


def clear_cache() -> None:
    """Forget recent results, as for a measurement."""
    _supports.cache_clear()


def local_version() -> str:
    """Return the version of the rules by which `supports` and `contradictions` decide."""
    return _judge().version


def contradictions(premise: str, statements: Sequence[str]) -> list[bool]:
    """
    Return for each of *statements*, one sentence each, whether it contradicts *premise*.

    It does when it copies a sentence but for one detail: a number, a name, an opposite, a
    denial, or two words that have changed places.
    """
    passages = Passages([premise])
    if not len(passages):
        return [False] * len(statements)
    changes = [
        read_claim(each, passages).changes if is_checkable(each) else () for each in statements
    ]
    # what a passage only names without stating it, it does not contradict
    return [any(change.said or change.certain for change in found) for found in changes]


def _bare(text: str) -> str:
    """Leave of *text* its words: no marks of citations, punctuation or capitals."""
    return " ".join(_WORD.findall(_MARKS.sub(" ", text))).casefold()


def _is_mostly_in(claim: str, statement: str) -> bool:
    said = claim.split()
    return 2 * len({*said} & {*statement.split()}) > len({*said})


@dataclass(frozen=True, slots=True)
class SentenceGrounding:
    """One finished sentence; ``support`` in [0, 1] is None where it states nothing."""

    sentence: str
    support: float | None
    grounded: bool


@dataclass(slots=True)
class StreamingGrounding:
    """
    Checks each sentence of an answer against the passages as soon as it is complete.

    However the text is cut into chunks, the same sentences are checked, in the same order, as
    for the whole text. A sentence is complete when its line ends or another one has begun
    behind it; ``finish`` checks the last. Only the unfinished line is read again with each
    chunk, from its last sentence on.
    """

    contexts: Sequence[str]  #: the passages; the first 20 count
    threshold: float = 0.5  #: from this support on, in [0, 1], a sentence is grounded
    #: Gives the support for a statement by a passage.
    entailment: Callable[[str, str], float] = local_entailment
    judged: list[SentenceGrounding] = field(default_factory=list)
    _open: str = ""

    def feed(self, chunk: str) -> list[SentenceGrounding]:
        """Take the next piece; return the sentences that it completes."""
        *lines, self._open = f"{self._open}{chunk}\0".splitlines(keepends=True)
        self._open = self._open[:-1]
        complete = [each for line in lines for each in split_sentences(line)]
        begun = split_sentences(self._open)
        if len(begun) > 1:
            at = self._open.rfind(begun[-1])
            # What looks like a bullet within a line would be taken for one at its beginning.
            if at > 0 and begun[-1][0].isalpha():
                complete += begun[:-1]
                self._open = self._open[at:]
        return self._judge(complete)

    def finish(self) -> list[SentenceGrounding]:
        """Check what is left."""
        rest, self._open = self._open, ""
        return self._judge(split_sentences(rest))

    @property
    def faithfulness(self) -> float | None:
        """Share of the sentences so far that are grounded; None when none states anything."""
        claims = [each.grounded for each in self.judged if each.support is not None]
        return sum(claims) / len(claims) if claims else None

    def _judge(self, sentences: Sequence[str]) -> list[SentenceGrounding]:
        new = []
        for sentence in sentences:
            support = None
            if is_checkable(sentence):
                passages = self.contexts[:MOST_PASSAGES]
                support = max((self.entailment(text, sentence) for text in passages), default=0.0)
            grounded = support is not None and support >= self.threshold
            new.append(SentenceGrounding(sentence, support, grounded))
        self.judged += new
        return new


_T = TypeVar("_T")
#: Gets each finished sentence; False ends the stream before the chunk that finished it.
OnSentence = Callable[[SentenceGrounding], bool | None]


def check_stream(
    chunks: Iterable[_T],
    contexts: Sequence[str],
    on_sentence: OnSentence,
    *,
    text_of: Callable[[_T], str] = str,
    threshold: float = 0.5,
) -> Iterator[_T]:
    """
    Pass a stream on while its sentences are checked against the passages, one by one.

    Put it into a generator that ``groundwatch.watch`` watches: ``yield from check_stream(...)``.
    What was passed on is then recorded, also where the stream was ended early. The check runs
    between two chunks and costs a few milliseconds a sentence. If it breaks, it is logged and the
    stream goes on without it; what *on_sentence* raises is the caller's.

    *on_sentence* gets each finished sentence; where it returns False, the source is closed and
    nothing more is passed on. *text_of* returns the text of a chunk. From the support *threshold*
    on, in [0, 1], a sentence is grounded by the first 20 passages of *contexts*.
    """
    check = _StreamCheck(contexts, on_sentence, threshold)
    source = iter(chunks)
    try:
        for chunk in source:
            if not check.goes_on(text_of(chunk)):
                return
            yield chunk
        check.goes_on(None)
    finally:
        if (close := getattr(source, "close", None)) is not None:
            close()


async def acheck_stream(
    chunks: AsyncIterable[_T],
    contexts: Sequence[str],
    on_sentence: OnSentence,
    *,
    text_of: Callable[[_T], str] = str,
    threshold: float = 0.5,
) -> AsyncIterator[_T]:
    """Pass an asynchronous stream on as `check_stream` does; use it in ``async for``."""
    check = _StreamCheck(contexts, on_sentence, threshold)
    source = aiter(chunks)
    try:
        async for chunk in source:
            if not check.goes_on(text_of(chunk)):
                return
            yield chunk
        check.goes_on(None)
    finally:
        if (close := getattr(source, "aclose", None)) is not None:
            await close()


class _StreamCheck:
    """A streaming check that cannot break the stream."""

    def __init__(self, contexts: Sequence[str], on_sentence: OnSentence, threshold: float) -> None:
        self._stream: StreamingGrounding | None = StreamingGrounding(contexts, threshold)
        self._on_sentence = on_sentence

    def goes_on(self, text: str | None) -> bool:
        """Take a piece, None after the last; return whether the caller wants to go on."""
        if self._stream is None:
            return True
        try:
            finished = self._stream.finish() if text is None else self._stream.feed(text)
        except Exception as error:  # noqa: BLE001  # no mistake of ours ends the app's stream
            logger.warning("stream_check_failed error=%s", type(error).__name__)
            self._stream = None
            return True
        return all(self._on_sentence(each) is not False for each in finished)
