"""
Find the figures of an answer that no passage has because the answer calculates them.

They are sums, differences, means, multiples and percentages of figures that the passages, the
user or earlier turns have.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain, islice, product
from operator import sub
from statistics import fmean

from monitor.models.interaction import Turn
from monitor.scoring.language import Word, language, listed, stem, words
from monitor.scoring.local.passages import Passages, plain_times

#: "2 × 9.80 = 19.60"
CALCULATION = re.compile(
    r"\d[^\w\n]{0,6}[×x*·+=–-][^\w\n]{0,6}\d[^\n]{0,40}?=|\d\s?[×·]\s?[^\w\n]{0,3}\d"
)
#: Asks for a figure that has to be computed, in any way or in a certain one.
CALCULATES, _ADDS, _AVERAGES, _SUBTRACTS = (
    re.compile(rf"\b(?:{language()['requests'][name]})\b", re.IGNORECASE)
    for name in ("calculates", "adds", "averages", "subtracts")
)
_PERCENT = re.compile(
    r"(?<![\d.,])(\d{1,3}(?:[.,]\d{1,2})?)\s?(?:%|percent|prozent|pour cent|por ciento)",
    re.IGNORECASE,
)
#: Ages, years, and numbers that are part of a name, such as "2-day": they count nothing.
_COUNTS_NOTHING = re.compile(
    r"\baged? \d+|\b\d+[ -](?:years?[ -]old|jahre alt|jährig)|\bde \d+ a[nñ]\w*|(?<!\d)\d+-"
    r"|\b(?:19|20)\d\d\b",
    re.IGNORECASE,
)
_MONEY = frozenset(map(stem, ("euro", "dollar", "pound", "yen", "franc")))
_DECIMAL = re.compile(r"\d+(?:\.\d+)?")
_PERIOD = re.compile(rf"\b(?:{language()['figures']['time']})\b", re.IGNORECASE)
_MORE = re.compile(rf"\d\s?(?:[^\W\d]+\s|[%€$£]\s?){{0,2}}(?:{language()['requests']['more']})\b")
_PERIODS = {7.0, 12.0, 24.0, 52.0, 60.0, 365.0}  # of how many others one consists
_ABOUT = 0.6  # share of the most that any sentence has of what is asked
_MOST_FIGURES, _MOST_SENTENCES, _TURNS_BACK, _TURN_CHARS = 40, 10, 6, 4_000  # bounds on time
_LEAST_COMPUTED = 10.0  # of whole figures: smaller ones come out by chance


def computed_figures(
    query: str, history: Sequence[Turn], passages: Passages, output: str
) -> frozenset[str]:
    """
    Return the figures of *output* that are calculated rightly, where there is cause to calculate.

    It is where *query* asks for a sum, difference or mean, or for another period, where the user
    counts something ("for 5 people"), and where the answer states a difference ("2 GB more"). The
    figures must be of sentences about what is asked and answered, or of earlier turns.
    """
    in_language, index = passages.language, passages.index
    turns = [(turn.role, turn.content[:_TURN_CHARS]) for turn in history[-_TURNS_BACK:]]
    of_user = " ".join([query, *(text for role, text in turns if role == "user")])
    adds, averages, subtracts = (
        each.search(query) is not None for each in (_ADDS, _AVERAGES, _SUBTRACTS)
    )
    changes_period, differs = _PERIOD.search(query) is not None, _MORE.search(output) is not None
    percents = {float(each.replace(",", ".")) for each in _PERCENT.findall(of_user)}
    counted = _counted(of_user, passages) - percents
    asks = adds or averages or subtracts or (changes_period and turns)
    if not (asks or counted or percents or differs):
        return frozenset()
    said, asked = (dict(_figures(words(plain_times(text, in_language), in_language)))
                   for text in (output, of_user))  # fmt: skip
    new = {each: said[each] for each in said.keys() - index.keys() - asked.keys()}
    if not new:
        return frozenset()
    rows = _rows_about(query, output, passages)
    together = [*chain.from_iterable(rows)]
    near = {*together}
    own = {value for each, value in asked.items() if each not in index}
    told = words(plain_times(" ".join(text for _, text in turns), in_language), in_language)
    earlier = {value for each, value in _figures(told) if each in index}
    several = [row for row in (*rows, together) if row]
    pairs = [*product(islice(near | own, _MOST_FIGURES), repeat=2)]
    results = _scaled(counted, near)
    for part, one in product(percents, islice(near, _MOST_FIGURES)):
        shares = (part / 100.0, 1.0 - part / 100.0, 1.0 + part / 100.0)
        results |= {each for share in shares if _is_rare(each := one * share)}
    if adds:
        results |= {*map(sum, several), *map(sum, pairs)}
    if averages:
        results |= {*map(fmean, several)}
    if subtracts or differs:
        results |= {abs(sub(*pair)) for pair in pairs}
    if changes_period:
        known = {*islice(earlier or near, _MOST_FIGURES)}
        bases = {each for one, other in product(known, known) for each in (one, abs(one - other))}
        results |= {each for base, n in product(bases, _PERIODS) for each in (base * n, base / n)}
        results |= _scaled(earlier, earlier)
    exact = {round(each, 2) for each in results}
    return frozenset(each for each, value in new.items() if round(value, 2) in exact)


def _rows_about(asked: str, said: str, passages: Passages) -> list[list[float]]:
    """Return the figures of each sentence that is about what is *asked*, else *said*."""
    for text in (asked, f"{asked} {said}"):
        about = words(text[:_TURN_CHARS], passages.language)
        about = tuple([w for w in about if not (w.number or w.stem in listed("asking"))])
        held = dict[int, float]()
        for each, weight in passages.weigh(about).items():
            for number in passages.holders(each):
                held[number] = held.get(number, 0.0) + weight
        least = _ABOUT * max(held.values(), default=0.0)
        near = [number for number in sorted(held, key=held.__getitem__) if held[number] >= least]
        found = (_figures(passages.words[n]) for n in near[-_MOST_SENTENCES:])
        if rows := [[value for _, value in row][:_MOST_FIGURES] for row in found if row]:
            return rows
    return []


def _counted(asked: str, passages: Passages) -> set[float]:
    """
    Return the figures of a user that count something.

    Not money, years, ages, and what the passages have themselves, such as the 2 of a 2-day pass.
    """
    said = words(_COUNTS_NOTHING.sub(" ", asked), passages.language)
    behind = ([w for w in said[n + 1 : n + 3] if w.content][:1] for n in range(len(said)))
    counts = [
        word
        for word, unit in zip(said, behind, strict=True)
        if unit and not unit[0].number and unit[0].stem not in _MONEY
        and word.stem not in passages.index
    ]  # fmt: skip
    return {value for _, value in _figures(counts)}


def _scaled(ones: set[float], others: set[float]) -> set[float]:
    """Return *others* times *ones*, and the larger of each two by the smaller."""
    found = set[float]()
    for one, other in product(islice(ones, _MOST_FIGURES), islice(others, _MOST_FIGURES)):
        found |= {one * other, *({max(one, other) / min(one, other)} if min(one, other) else ())}
    return {*filter(_is_rare, found)}


def _is_rare(figure: float) -> bool:
    """Return whether *figure* hardly comes out by chance: small whole figures do."""
    return figure >= _LEAST_COMPUTED or not figure.is_integer()


def _figures(said: Sequence[Word]) -> list[tuple[str, float]]:
    """Return the stems and values of the figures among some words; times of day are none."""
    plain = [(word.stem, word.stem.replace(",", ".")) for word in said if word.number]
    return [(each, float(value)) for each, value in plain if _DECIMAL.fullmatch(value)]
