"""
Judge an answer to a question that needs the turns before it.

"And on Sundays?" names what is different this time, "the second one" an item of a list in an
earlier answer, "why not?" nothing by itself. So the question is expanded: its own words, the item
it points at, and, with less weight, the question and answer before it. Each clause of the passages
is scored by how much it holds of these. An answer is relevant if a clause from which it is taken
scores about as high as the best one, and has the kind of figure that is asked for if others do.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from monitor.models.interaction import Turn
from monitor.scoring.language import Word, language, light, listed, words
from monitor.scoring.local.answer_type import (
    begins_with_yes_or_no,
    figure_asked,
    has_figure,
    lacks_reason,
    named,
    only_yes_or_no_is_asked,
    pattern,
    says_instead,
)
from monitor.scoring.local.passages import PREFIX, plain_times
from monitor.scoring.local.reading import Reading
from monitor.scoring.local.relevance import (
    DOES_AT_LEAST,
    DOES_NOT_AT_MOST,
    ELSEWHERE,
    UNCLEAR,
    YES_NO,
    Settled,
)

_MOST_ASKED = 10  # content words of a question that may need the turns before it
_TURNS_BACK, _TURN_CHARS = 6, 4_000
# Bound the time.
_MOST_SENTENCES, _MOST_CLAIMS, _MOST_CLAUSES, _SENTENCE_CHARS = 400, 20, 1_000, 2_000
_ENOUGH, _BARELY = 0.85, 0.5  # shares of the best score: enough, and too little without own words
_COPIES = 0.5  # share of an answer that one or two sentences hold: it is surely from there
_KNOWN = 0.15  # share of a question's information that the passages must hold to tell
_RIVAL = 0.8  # of what an answer's clause has of the question: another with the figure has as much
_BESIDE = 0.95  # the same, where both are of one sentence
# Weight of the turns before: where the question leans on them, and where it has words of its own.
_LEANING, _STANDING = 0.35, 0.15
_SATURATED = 0.8  # share of the most any clause holds of them from which on more does not count
_BARE = 0.3  # words that weigh less than this share of an unknown one do not name anything
_SUBJECT, _PASSAGE = 0.9, 0.35  # what a word counts that a clause has only from one of them
_SUBJECT_WORDS = 3
# Of the answer before, the share that an answer repeats; of an answer, the share that is new.
_AGAIN, _LITTLE_NEW = 0.5, 0.3
# Shares of an alignment: a second sentence that adds something, a clause that is taken over whole.
_ADDS, _WHOLE = 0.15, 0.5
_ROUNDING = 1e-9
_LINE = re.compile(r"^\s*(?:[-*•–]|\(?\d{1,2}[.)])\s+(.+)$", re.MULTILINE)
_NAMING = frozenset("BCDEFGHJKLMNPQRSTUVWXYZ")  # "hall B": a letter that is not a word of its own
_CODE = re.compile(r"\b\d{1,3}[A-Za-z]\b")  # "class 3b"

Keys = frozenset[str]  #: how words begin: by stem, and as they are written


class FollowUp(NamedTuple):
    """A question, with what it takes from the turns before it."""

    query: str
    own: tuple[Keys, ...]  #: of each of its informative words
    item: Keys | None  #: what names the item of a list that it points at
    before: str  #: the question before
    answered: str  #: the answer before
    leans: bool  #: it only names what is different this time, or nothing at all
    kind: str | None  #: of the figure it asks for

    @property
    def keys(self) -> Keys:
        """The keys of its own words."""
        return frozenset().union(*self.own)

    @property
    def yes_no(self) -> bool:
        """Whether it asks for nothing but yes or no."""
        return only_yes_or_no_is_asked(self.query)

    def fits(self, text: str) -> bool:
        """Return whether *text* has the kind of figure that is asked for, or says it in words."""
        kind = self.kind
        return kind is not None and bool(has_figure(kind, text) or says_instead(kind, text))


class Clause(NamedTuple):
    """A clause of the passages: its keys, and those around it."""

    text: str
    sentence: int
    keys: Keys
    subject: Keys  #: what it is about, as the beginning of its sentence or the one before says
    passage: Keys = frozenset()

    def has(self, key: str) -> float:
        """Return how far it is about *key*, in [0, 1]."""
        level = 1.0 if key in self.keys else _SUBJECT if key in self.subject else 0.0
        return level or _PASSAGE * (key in self.passage)


class Score(NamedTuple):
    """What a clause holds of a question: of all that is wanted, and of its own words."""

    total: float
    own: float
    fits: bool


class Wanted:
    """What a question wants of a clause, weighed: rare words count more."""

    def __init__(self, question: FollowUp, clauses: Sequence[Clause]) -> None:
        counts = Counter(key for each in clauses for key in each.keys)
        self.tells = {key: math.log(1.0 + len(clauses) / n) for key, n in counts.items()}
        self.unknown = math.log(1.0 + len(clauses))
        self.question = question
        self.before = _keys_of(named(question.before))
        self.topic = self.before - question.keys
        self.own = [*map(self._weigh, question.own)]
        self.total = sum(weight or self.unknown for weight, _ in self.own)
        self.known = sum(weight for weight, _ in self.own) / (self.total or 1.0)
        self.most = [max(column) for column in zip(*map(self._parts, clauses), strict=True)]

    def _weigh(self, keys: Keys) -> tuple[float, Keys]:
        """Return how much a word of the question tells, and its keys that the passages have."""
        known = keys & self.tells.keys()
        return min((self.tells[key] for key in known), default=0.0), known

    def _parts(self, clause: Clause) -> tuple[float, float, float]:
        """Return what a clause holds of the question's own words, of its topic and of its item."""
        own = sum(w * max(map(clause.has, keys), default=0.0) for w, keys in self.own)
        topic, item = (
            sum(self.tells[key] * clause.has(key) for key in keys if key in self.tells)
            for keys in (self.topic, self.question.item or ())
        )
        return own, topic, item

    def score(self, clause: Clause, text: str) -> Score:
        """Score a clause, with the figures of *text*."""
        own, topic, item = (
            part / most if most > 0 else 0.0
            for part, most in zip(self._parts(clause), self.most, strict=True)
        )
        leans = self.question.leans or self.most[0] <= 0
        total = own + item + (_LEANING if leans else _STANDING) * min(1.0, topic / _SATURATED)
        return Score(total, own, self.question.fits(text))

    def share_of(self, text: str, keys: Keys) -> float:
        """Return the share of the information of *text* that *keys* hold."""
        told = _word_keys(text)
        weights = [max(self.tells.get(key, self.unknown) for key in each) for each in told]
        held = sum(w for w, each in zip(weights, told, strict=True) if not each.isdisjoint(keys))
        return held / sum(weights) if told else 0.0


def follow(
    query: str, history: Sequence[Turn], output: str, reading: Reading, alone: Settled
) -> Settled | None:
    """
    Judge an answer to a question that refers to earlier turns; None where it stands by itself.

    *alone* is the relevance to the question without them.
    """
    turns = [turn for turn in history if turn.role in {"user", "assistant"}][-_TURNS_BACK:]
    query = pattern("thanking", r"^(?:(?:{})[\s,.!]+)+").sub("", query)
    refuses = not reading.claims and any(each.refuses for each in reading.sentences)
    if not turns or refuses or pattern("again", r"^\W*(?:{})").search(query):
        return None
    asked, item = [*_keyed_words(named(query))], _item(query, turns)
    if len(asked) > _MOST_ASKED or (alone.reason == "instruction" and not item):
        return None
    codes = [frozenset({code.lower()}) for code in _CODE.findall(query)]
    own = (*(keys for _, keys in asked), *codes)
    before, answered = (
        next((t.content[:_TURN_CHARS] for t in reversed(turns) if t.role == role), "")
        for role in ("user", "assistant")
    )
    only_differs = not own or leans(query)
    kind = figure_asked(query)
    question = FollowUp(query, own, item, before, answered, only_differs, kind)
    found = _judge(question, output, reading)
    if alone.reason == YES_NO:
        return None
    if found.relevance is None or found.relevance < DOES_AT_LEAST:
        return found
    return found._replace(relevance=max(alone.relevance or 0.0, DOES_AT_LEAST))


def leans(query: str) -> bool:
    """Return whether a question only names what is different this time: "And the Mini?"."""
    return pattern("goes_on", r"[\s¿]*(?:{})").match(query) is not None


def _judge(question: FollowUp, output: str, reading: Reading) -> Settled:
    """Judge by the kind of thing that is asked for, then by where the answer is taken from."""
    clauses = _clauses(reading)
    wanted = Wanted(question, clauses)
    if taken := _taken_from(reading, clauses, question):
        copied = max(claim.aligned.shares[1] for claim in reading.claims)
        return _compare(wanted, output, clauses, taken, copied)
    answers = question.yes_no and begins_with_yes_or_no(output)
    return Settled(DOES_AT_LEAST, YES_NO) if answers else UNCLEAR


def _compare(
    wanted: Wanted, output: str, clauses: Sequence[Clause], taken: Sequence[Clause], copied: float
) -> Settled:
    """Compare the clauses an answer is taken from with all clauses of the passages."""
    question = wanted.question
    ours = max(wanted.score(each, output) for each in taken)
    scores = [wanted.score(each, each.text) for each in clauses]
    tells = question.item is not None or wanted.known >= _KNOWN
    fitting = [each for each in scores if each.fits]
    best = max(fitting or scores)
    asks = question.item or question.leans or "?" in question.query
    covers = 0 < ours.own >= max(each.own for each in fitting or scores)
    if asks and not covers and _repeats(wanted, output):
        return Settled(DOES_NOT_AT_MOST, "It repeats the answer before.")
    if fitting and not ours.fits and max(fitting).own >= _RIVAL * ours.own:
        return Settled(DOES_NOT_AT_MOST, "It lacks the kind of figure that is asked for.")
    if pattern("asks_why").search(question.query):
        reasons = {each.sentence for each in clauses if pattern("because").search(each.text)}
        gives = not lacks_reason(question.query, output)
        if reasons and not gives and reasons.isdisjoint(each.sentence for each in taken):
            return Settled(DOES_NOT_AT_MOST, "It lacks the reason that is asked for.")
    if question.kind and not question.item and _is_figure_of_another(output, clauses, scores):
        return Settled(DOES_NOT_AT_MOST, "The passages have its figure for something else.")
    barely = ours.total >= _BARELY * best.total
    answers = question.yes_no and begins_with_yes_or_no(output)
    enough = barely and (answers or ours.total >= _ENOUGH * best.total)
    bare = not question.item and wanted.total <= _BARE * wanted.unknown
    if enough and best.total > 0 and (tells or bare or (question.kind and ours.fits)):
        return Settled(DOES_AT_LEAST, "It takes up what the conversation is about.")
    # where no clause has all that is asked, one beside the best, of its sentence, may have the rest
    nearest = {c.sentence for c, each in zip(clauses, scores, strict=True) if each == best}
    beside = wanted.most[0] < wanted.total - _ROUNDING
    beside = beside and not nearest.isdisjoint(each.sentence for each in taken)
    fails = not barely if bare else tells and asks
    fails = fails and copied >= _COPIES and not beside
    return Settled(DOES_NOT_AT_MOST, ELSEWHERE) if fails else UNCLEAR


def _is_figure_of_another(output: str, clauses: Sequence[Clause], scores: Sequence[Score]) -> bool:
    """Return whether the clauses with the figures of *output* have less of what is asked."""
    said = {word.stem for word in words(output) if word.number}
    ours, others = (0.0, -1), []  # what each has of the question, and its sentence
    for clause, (_, own, fits) in zip(clauses, scores, strict=True):
        figures = {word.stem for word in words(clause.text) if word.number} if fits else set()
        if fits and said.isdisjoint(figures):
            others.append((own, clause.sentence))
        elif figures:
            ours = max(ours, (own, clause.sentence))
    # beside it in one sentence, a clause says more precisely what its figure is of
    return any(0 < ours[0] < own * (_BESIDE if ours[1] == n else _RIVAL) for own, n in others)


def _repeats(wanted: Wanted, output: str) -> bool:
    """Return whether *output* says the answer before once more, and nothing of what is new."""
    question, said = wanted.question, _keys_of(output)
    old = _keys_of(question.before, question.answered)
    once_more = pattern("again", r"\b(?:{})").search(question.query)
    once_more = once_more or pattern("likewise").search(output)  # "Also from 9 to 7."
    if question.item or once_more or begins_with_yes_or_no(output) or question.fits(output):
        return False
    # "Which is cheaper?" may be answered by one of two things said before
    compares = any(word.stem in listed("asking") for word in words(question.query))
    if said & question.keys - old or (compares and not question.leans):
        return False
    again = wanted.share_of(question.answered, said) >= _AGAIN
    return again and wanted.share_of(output, old) > 1.0 - _LITTLE_NEW


def _clauses(reading: Reading) -> list[Clause]:
    """Return the clauses of the passages: each has the subject of its sentence."""
    passages: dict[int, Keys] = {}
    found: list[tuple[int, Clause]] = []
    last, before = -1, frozenset[str]()  # the passage and the keys of the sentence before
    for number, (n, whole) in enumerate(reading.passages.sentences[:_MOST_SENTENCES]):
        text = whole[:_SENTENCE_CHARS]
        goes_on = n == last and any(
            pattern(each, r"\s*(?:{})\b").match(text) for each in ("it", "goes_on_about")
        )
        subject, around = before if goes_on else frozenset[str](), _keys_of(text)
        passages[n] = passages.get(n, frozenset()) | around
        last, before = n, around | subject
        for part in pattern("joins", r"[,;]\s+|\s+(?:{0})\s+").split(text):
            found.append((n, Clause(part, number, _keys_of(part), subject)))
            subject |= frozenset().union(*_word_keys(text)[:_SUBJECT_WORDS])
    return [clause._replace(passage=passages[n]) for n, clause in found[:_MOST_CLAUSES]]


def _taken_from(reading: Reading, clauses: Sequence[Clause], question: FollowUp) -> list[Clause]:
    """
    Return the clauses from which an answer takes what it adds to a question, with its own keys.

    After "And the Mini?", "The Mini has four ports" is from where four ports are, not the Mini.
    """
    found, passages, asked = [], reading.passages, question.keys
    different = asked if question.leans and not question.item else frozenset[str]()
    elsewhere = asked & frozenset[str]().union(*(each.keys for each in clauses))
    for aligned in [claim.aligned for claim in reading.claims[:_MOST_CLAIMS]]:
        said, weights = _keys_of(aligned.text), aligned.weights
        repeated = {
            word.stem for word in aligned.tokens if not different.isdisjoint(_forms_of(word))
        }
        rest = passages.index.keys() - repeated
        new = {stem: w for stem, w in weights.items() if stem in rest} or weights
        evidence, (first, both) = passages.best(new)
        numbers = {word.stem for word in aligned.tokens if word.number}
        least = first * sum(new.values()) - _ROUNDING
        best = {
            n
            for n in {n for stem in new for n in passages.holders(stem)}
            if sum(w for stem, w in new.items() if stem in passages.stems[n]) >= least
        }
        for sentence in best.union(evidence[1:] if both - first >= _ADDS else ()):
            held = []
            for clause in [each for each in clauses if each.sentence == sentence]:
                text = plain_times(clause.text, passages.language)
                known = passages.weigh(words(text, passages.language))
                shared = sum(w for stem, w in known.items() if stem in new)
                held.append((len(numbers & known.keys()), shared, sum(known.values()), clause))
            most = max((each[:2] for each in held), default=(0, 0.0))
            for figures, shared, whole, clause in held:
                alike = (figures, shared) == most and not said.isdisjoint(clause.keys)
                if alike or shared >= _WHOLE * whole > 0:
                    found.append(clause._replace(keys=clause.keys | (said - elsewhere)))
    return found


def _item(query: str, turns: Sequence[Turn]) -> Keys | None:
    """Return what names the item of a list that a question points at, and no other item."""
    spans, ordinals = (language()["conversation"][name] for name in ("spans", "places"))
    places = [
        n
        for n, place in enumerate(ordinals)
        if re.search(rf"\b(?:{place})\b(?!\W+(?:{spans}))", query[:1].lower() + query[1:])
    ]
    for turn in reversed(turns if len(places) == 1 else []):
        items = _items(turn.content[:_TURN_CHARS]) if turn.role == "assistant" else []
        at = len(items) - 1 if places[0] == len(ordinals) - 1 else places[0]
        if len(items) > 1 and at < len(items):
            others = frozenset().union(*(each for n, each in enumerate(items) if n != at))
            return items[at] - others or None
    return None


def _items(text: str) -> list[Keys]:
    """Return the items of a list in *text*: its lines, or what commas and "and" join."""
    lines = _LINE.findall(text)
    if len(lines) > 1:
        return [_keys_of(re.split(r"[:–—(]|\s-\s", line)[0]) for line in lines]
    for sentence in reversed(re.split(r"(?<=[.!?])\s+", text)):
        _, colon, listed = sentence.rpartition(": ")
        joins = pattern("joins", r",\s*(?:(?:{0})\s+)?|\s+(?:{0})\s+")
        parts = [part for part in joins.split(listed.rstrip(".!?")) if part.strip()]
        if len(parts) > 1:
            items = [
                [_without_accents(w.stem)[:PREFIX] for w in words(part) if w.content]
                for part in parts
            ]
            if not colon:  # the first part begins with what leads to the list
                items[0] = items[0][-max(map(len, items[1:])) :]
            return [frozenset(each) for each in items]
    return []


# --- what names a subject ---


def _forms_of(word: Word) -> Keys:
    """Return how the stem of a word begins, and how it is written."""
    return frozenset({_without_accents(word.stem)[:PREFIX], _as_spelled(word.surface)[:PREFIX]})


def _keys_of(*texts: str) -> Keys:
    """Return the keys of texts: what tells one subject from another."""
    return frozenset[str]().union(*(keys for text in texts for keys in _word_keys(text)))


@lru_cache(maxsize=4096)  # clauses and their sentences are read several times
def _word_keys(text: str) -> tuple[Keys, ...]:
    """Return the keys of each informative word."""
    codes = [frozenset({code.lower()}) for code in _CODE.findall(text)]
    return (*(keys for _, keys in _keyed_words(text)), *codes)


def _keyed_words(text: str) -> Iterator[tuple[Word, Keys]]:
    """
    Yield each informative word with its keys: how its stem begins, and how it is written.

    Capitals make a name of what is a word of no information otherwise: "US", "hall B".
    """
    for n, word in enumerate(words(text)):
        lower = word.surface.lower()
        capitals = word.surface.isupper() and (len(lower) > 1 or (n and word.surface in _NAMING))
        if capitals or (word.content and lower not in light()):
            yield word, _forms_of(word)


@lru_cache(maxsize=20_000)
def _as_spelled(surface: str) -> str:
    """Return a word as it is written, without accents, articles and possessives."""
    plain = _without_accents(surface.lower()).replace("\u2019", "'")
    return plain.removesuffix("'s").rpartition("'")[2]


def _without_accents(text: str) -> str:
    """Return *text* without accents."""
    if text.isascii():
        return text
    return "".join(c for c in unicodedata.normalize("NFD", text) if not unicodedata.combining(c))
