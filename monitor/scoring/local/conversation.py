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
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from monitor.models.interaction import Turn
from monitor.scoring.language import language, words
from monitor.scoring.local.answer_type import (
    YES_OR_NO,
    begins_with_yes_or_no,
    figure_asked,
    has_figure,
    lacks_place,
    lacks_reason,
    named,
    only_yes_or_no_is_asked,
    pattern,
    says_instead,
    units,
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
from monitor.scoring.local.subjects import (
    CODE,
    Keys,
    as_spelled,
    forms_of,
    keyed_words,
    keys_of,
    question_keys,
    without_accents,
    without_groups,
    word_keys,
)

DENIED = Settled(DOES_NOT_AT_MOST, "The passages deny it.")
_MOST_ASKED = 10  # content words of a question that may need the turns before it
_TURNS_BACK, _TURN_CHARS = 6, 4_000
# Bound the time.
_MOST_SENTENCES, _MOST_CLAIMS, _MOST_CLAUSES, _SENTENCE_CHARS = 400, 20, 1_000, 2_000
_ENOUGH, _BARELY = 0.85, 0.5  # shares of the best score: enough, and too little without own words
_COPIES = 0.5  # share of an answer that one or two sentences hold: it is surely from there
_KNOWN = 0.15  # share of a question's information that the passages must hold to tell
_RIVAL = 0.8  # of what an answer's clause has of the question: another with the figure has as much
_BESIDE = 0.95  # the same, where both are of one sentence
_NOTHING_NEW, _LITTLE_NEW = 0.15, 0.3  # shares of an answer's information that are new
_AGAIN = 0.5  # share of the answer before that an answer repeats
_OWN_WORDS = 0.55  # share of a question of yes or no that an answer without either repeats
# Weight of the turns before: where the question leans on them, and where it has words of its own.
_LEANING, _STANDING = 0.35, 0.15
_SATURATED = 0.8  # share of the most any clause holds of them from which on more does not count
_BARE = 0.3  # words that weigh less than this share of an unknown one do not name anything
_SUBJECT, _PASSAGE = 0.9, 0.35  # what a word counts that a clause has only from one of them
_SUBJECT_WORDS = 3
# Shares of an alignment: a second sentence that adds something, a clause that is taken over whole.
_ADDS, _WHOLE = 0.15, 0.5
_ROUNDING = 1e-9
_LINE = re.compile(r"^\s*(?:[-*•–]|\(?\d{1,2}[.)])\s+(.+)$", re.MULTILINE)


class FollowUp(NamedTuple):
    """A question, with what it takes from the turns before it."""

    query: str
    own: tuple[Keys, ...]  #: of each of its informative words
    item: Keys | None  #: what names the item of a list that it points at
    before: str  #: the question before
    answered: str  #: the answer before
    leans: bool  #: it only names what is different this time, or nothing at all
    kind: str | None  #: of the figure it asks for
    units: frozenset[str]  #: of the answer before, where it asks for the same once more

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
        if self.kind:
            return bool(has_figure(self.kind, text)) or says_instead(self.kind, text)
        free = "money" in self.units and says_instead("price", text)
        return free or not self.units.isdisjoint(units(text)) or says_instead("number", text)


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
        self.before = keys_of(named(question.before))
        self.topic = self.before - question.keys
        self.own = [*map(self._weigh, question.own)]
        self.total = sum(weight or self.unknown for weight, _ in self.own)
        self.known = sum(weight for weight, _ in self.own) / (self.total or 1.0)
        self.most = [max(column) for column in zip(*map(self._parts, clauses), strict=True)]

    def _weigh(self, keys: Keys) -> tuple[float, Keys]:
        """Return how much a word of the question tells, and its keys that the passages have."""
        own = without_groups(keys)
        if not own.isdisjoint(self.tells) and own.isdisjoint(self.before):
            # "autumn" after "spring": only the word itself counts
            keys = own if not keys.isdisjoint(self.before) else keys
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
        asks = self.question.kind or self.question.units
        return Score(total, own, bool(asks) and self.question.fits(text))

    def share_of(self, text: str, keys: Keys) -> float:
        """Return the share of the information of *text* that *keys* hold."""
        told = [own for each in word_keys(text) if (own := without_groups(each))]
        weights = [max(self.tells.get(key, self.unknown) for key in own) for own in told]
        held = sum(w for w, own in zip(weights, told, strict=True) if not own.isdisjoint(keys))
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
    asked, item = [*keyed_words(named(query))], _item(query, turns)
    if len(asked) > _MOST_ASKED or (alone.reason == "instruction" and not item):
        return None
    codes = [frozenset({code.lower()}) for code in CODE.findall(query)]
    own = (*question_keys(asked, reading), *codes)
    before, answered = (
        next((t.content[:_TURN_CHARS] for t in reversed(turns) if t.role == role), "")
        for role in ("user", "assistant")
    )
    only_differs = not own or leans(query)
    kind = figure_asked(query)
    same = only_differs and kind is None and not pattern("wh").search(query)
    same = same and pattern("wh").search(before) is not None
    asked_before = units(answered) if same else frozenset[str]()
    question = FollowUp(query, own, item, before, answered, only_differs, kind, asked_before)
    found = _judge(question, output, reading)
    if alone.reason == YES_NO and found.reason != DENIED.reason:
        return None
    if found.relevance is None or found.relevance < DOES_AT_LEAST:
        return found
    return found._replace(relevance=max(alone.relevance or 0.0, DOES_AT_LEAST))


def leans(query: str) -> bool:
    """Return whether a question only names what is different this time: "And the Mini?"."""
    return pattern("goes_on", r"[\s¿]*(?:{})").match(query) is not None


def _judge(question: FollowUp, output: str, reading: Reading) -> Settled:
    """Judge by the kind of thing that is asked for, then by where the answer is taken from."""
    if lacks_place(question.query, output):
        return Settled(DOES_NOT_AT_MOST, "It lacks the place that is asked for.")
    clauses = _clauses(reading)
    wanted = Wanted(question, clauses)
    if _is_denied(wanted, output, clauses):
        return DENIED
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
    asks_figure = bool(question.kind or question.units)
    fitting = [each for each in scores if each.fits] if asks_figure else []
    most, most_fitting = (max((s.own for s in each), default=0.0) for each in (scores, fitting))
    alike = question.kind or (ours.fits and most_fitting >= _RIVAL * most)
    pool = fitting if fitting and alike else scores
    best = max(pool)
    covers = most > 0 and ours.own >= max(each.own for each in pool)
    asks = question.item or question.leans or "?" in question.query
    if asks and (reason := _says_nothing(wanted, output, covers=covers)):
        return Settled(DOES_NOT_AT_MOST, reason)
    if fitting and not ours.fits:
        rival = max(fitting).own
        other = not question.own and pattern("other").search(question.query)
        if (question.kind or other or (tells and rival > 0)) and rival >= _RIVAL * ours.own:
            return Settled(DOES_NOT_AT_MOST, "It lacks the kind of figure that is asked for.")
    if pattern("asks_why").search(question.query):
        reasons = {each.sentence for each in clauses if pattern("because").search(each.text)}
        gives = not lacks_reason(question.query, output)
        if reasons and not gives and reasons.isdisjoint(each.sentence for each in taken):
            return Settled(DOES_NOT_AT_MOST, "It lacks the reason that is asked for.")
    if asks_figure and not question.item and _is_figure_of_another(output, clauses, scores):
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


def _is_denied(wanted: Wanted, output: str, clauses: Sequence[Clause]) -> bool:
    """Return whether *output* says yes, and all clauses that name what is asked about deny."""
    denials, names = pattern("denial").findall, wanted.question.keys & wanted.tells.keys()
    yes = pattern("plain_yes", YES_OR_NO).match(output)
    held = [sum(wanted.tells[key] for key in names & each.keys) for each in clauses]
    affirms = yes and not denials(wanted.question.query + output)
    least = _RIVAL * max(held, default=0.0) if affirms else 0.0
    texts = [c.text for c, each in zip(clauses, held, strict=True) if each >= least]
    return least > 0 and all(len(denials(text)) % 2 for text in texts)


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


def _says_nothing(wanted: Wanted, output: str, *, covers: bool) -> str | None:
    """Return how an answer evades a question; *covers*: its clause has all that is asked."""
    question, query, said = wanted.question, wanted.question.query, keys_of(output)
    repeat = pattern("again", r"\b(?:{})").search(query)
    if question.item or repeat or begins_with_yes_or_no(output):
        return None
    turns = f"{question.before} {question.answered}"
    old = keys_of(turns) | {as_spelled(word.surface)[:PREFIX] for word in words(turns)}
    yes_no, new = question.yes_no, 1.0 - wanted.share_of(output, old)
    fresh = question.keys - keys_of(question.before, question.answered)
    takes_up = (covers or not without_groups(said).isdisjoint(fresh)) and not lacks_reason(
        query, output
    )
    again = wanted.share_of(question.answered, said) >= _AGAIN
    if again and new < (_NOTHING_NEW if takes_up and yes_no else 0.0 if takes_up else _LITTLE_NEW):
        return "It repeats the answer before."
    says = pattern("stance").search(output) or says_instead("number", output)
    if question.leans or says or not yes_no:
        return None
    held = sum(weight for weight, keys in wanted.own if not keys.isdisjoint(said))
    enough = held >= _OWN_WORDS * wanted.total
    return None if enough else "It says neither yes nor no."


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
        subject, around = before if goes_on else frozenset[str](), keys_of(text)
        passages[n] = passages.get(n, frozenset()) | around
        last, before = n, around | subject
        for part in pattern("joins", r"[,;]\s+|\s+(?:{0})\s+").split(text):
            found.append((n, Clause(part, number, keys_of(part), subject)))
            subject |= frozenset().union(*word_keys(text)[:_SUBJECT_WORDS])
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
        said, weights = keys_of(aligned.text), aligned.weights
        repeated = {
            word.stem for word in aligned.tokens if not different.isdisjoint(forms_of(word))
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
        return [keys_of(re.split(r"[:–—(]|\s-\s", line)[0]) for line in lines]
    for sentence in reversed(re.split(r"(?<=[.!?])\s+", text)):
        _, colon, listed = sentence.rpartition(": ")
        joins = pattern("joins", r",\s*(?:(?:{0})\s+)?|\s+(?:{0})\s+")
        parts = [part for part in joins.split(listed.rstrip(".!?")) if part.strip()]
        if len(parts) > 1:
            items = [
                [without_accents(w.stem)[:PREFIX] for w in words(part) if w.content]
                for part in parts
            ]
            if not colon:  # the first part begins with what leads to the list
                items[0] = items[0][-max(map(len, items[1:])) :]
            return [frozenset(each) for each in items]
    return []
