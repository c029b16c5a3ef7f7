"""
Compare the figures, dates and opening hours of a claim with those of the passages.

A figure may have another unit there, or stand with another subject; hours may be those of another
day. `computed_figures` finds those that no passage has because an answer calculates them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain, islice, pairwise, product, takewhile
from operator import sub
from statistics import fmean

from monitor.models.interaction import Turn
from monitor.scoring.language import (
    Word,
    is_ordinal,
    language,
    light,
    listed,
    stem,
    stem_of,
    words,
    words_of,
)
from monitor.scoring.local.changes import (
    EXCLUDED,
    MEASURES,
    THROUGH,
    WEEK,
    WordChange,
    numbers_compatible,
)
from monitor.scoring.local.passages import Aligned, Passages, plain_times

_MOST_SAID, _MOST_TOLD = 60, 120  # words laid beside each other
_LONGEST_READ, _MOST_PARTED = 2_000, 100  # characters of a sentence, and sentences, to look into
#: By stem of a unit, the others of its measure.
_UNITS = {
    unit: {*EXCLUDED[unit]} for each in MEASURES for unit in map(stem, re.split("[= \n]+", each))
}
_MONTHS = {each: set(map(stem_of, words(of, each))) for each, of in language()["months"].items()}
_SURE_UNITS = {*EXCLUDED}.union(*_MONTHS.values())
FEW = frozenset({"1", "2"})
_MOST_CHARS = 5_000  # of a claim
#: Words for several weekdays: those that all people mean by them, and all that they may mean.
_SURE_DAYS = {stem("weekdays"): WEEK[:4], stem("weekends"): WEEK[5:6]}
_ALL_DAYS = {stem("weekdays"): WEEK[:5], stem("weekends"): WEEK[5:]}
_ENGLISH_DAYS = {
    each: day
    for days in language()["weekdays"]["days"]
    for each, day in zip(days.split(), WEEK, strict=True)
}
_MEANING = {each: stem(to) for each, to in language()["weekdays"]["meaning"].items()}
_LINKING = [[each] for each in (*THROUGH, "and")]
_JOINING = THROUGH | {"and", "on", "also"}
_MARKS = re.compile(r"[(),;]")
_NEAR, _MOST_TIMED = 6, 50  # words between days; sentences with times that are read
_DAY_TO_DAY = re.compile(r"(?<=[a-z])\.?\s?[–—-]\s?(?=(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun))")
_MOST_OF_A_WEEK = 3  # days with hours: the others are closed
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
#: Ages, and numbers that are part of a name, such as "2-day": they count nothing.
_AGE_OR_NAME = re.compile(
    r"\baged? \d+|\b\d+[ -](?:years?[ -]old|jahre alt|jährig)|\bde \d+ a[nñ]\w*|\d+-", re.IGNORECASE
)
_DECIMAL = re.compile(r"\d+(?:\.\d+)?")
_MOST_OWN, _TURNS_BACK, TURN_CHARS = 40, 6, 4_000  # bounds on time
_LEAST_COMPUTED = 10.0  # of whole figures
_ABOUT, _MOST_ABOUT = 0.6, 10  # share of the most that any sentence has of what is asked, and said
_PERIOD = re.compile(rf"\b(?:{language()['figures']['time']})\b", re.IGNORECASE)
_MORE = re.compile(rf"\d\s?(?:[^\W\d]+\s|[%€$£]\s?){{0,2}}(?:{language()['requests']['more']})\b")
_PERIODS = {7.0, 12.0, 24.0, 52.0, 60.0, 365.0}  # of how many others one consists

Hours = tuple[str, str]


def other_figure(aligned: Aligned, query: frozenset[str]) -> tuple[WordChange, ...]:
    """
    Return a figure of a claim that has another unit in the best sentence, or its unit another.

    Either neither passages nor *query* have the figure, and the sentence has just one other with
    that unit; or the sentence has it with another unit of the same kind, such as days for weeks.
    The claim need not copy the rest: it is not certain.
    """
    said, told, passages = aligned.tokens[:_MOST_SAID], aligned.found[:_MOST_TOLD], aligned.passages
    stems = {word.stem for word in said}
    figures = [m for m, word in enumerate(told) if word.number and not is_ordinal(word)]
    for n, figure, unit in _figures_with_units(said):
        if figure.stem in FEW and not figure.surface[0].isdigit():  # "two" is often counted
            continue
        ours = f"{figure.surface} {unit.surface}"
        same = [m for m in figures if told[m].stem == figure.stem]
        others = [m for m in figures if unit.stem in map(stem_of, _behind(told, m, 2))]
        if figure.stem not in passages.index and figure.stem not in query:
            known = len(others) != 1 or told[others[0]].stem in stems or _is_year(told[others[0]])
            if not (known or numbers_compatible(aligned, n, others[0])):
                theirs = f"{told[others[0]].surface} {unit.surface}"
                return (WordChange(ours, theirs, certain=False),)
        elif len(same) == 1 and unit.stem in _UNITS and passages.apart(figure.stem, unit.stem, 3):
            kinds = [w for w in _behind(told, same[0], 3) if w.stem in _UNITS[unit.stem]]
            if kinds:
                return (WordChange(ours, f"{figure.surface} {kinds[0].surface}", certain=False),)
    return ()


#: Ends a part of a sentence that may have a figure and a subject of its own.
_PART_ENDS = re.compile(
    r"[;,|](?!\d)\s?|\s[–—-]\s|\s(?:and|und|et|y|while|but)\s|(?<=[^\W\d_])\.\s"
)


def figure_of_another(
    aligned: Aligned, asked: frozenset[str] = frozenset()
) -> tuple[WordChange, ...]:
    """
    Return a figure of a claim that stands in a part of the passages with another subject.

    So does the one of "The Metro costs 9 euros" in "Metro: 5 euros; Express: 9 euros", where a part
    that has all the known words of the claim has another figure of the same kind. *asked* are stems
    that the claim may leave out because they were named before. Nothing is found where the passages
    name the subject in other words. It is not certain.
    """
    passages, sides = aligned.passages, [aligned.tokens]
    counted = [*_figures_with_units(aligned.tokens)]
    if not any(len(_figures_by_unit(passages).get(unit.stem, ())) > 1 for _, _, unit in counted):
        return ()  # no other figure of its kind: that is fast
    if len(counted) != 1:
        text = plain_times(aligned.text[:_LONGEST_READ], passages.language)
        sides, asked = words_of(_PART_ENDS.split(text), passages.language), frozenset()
    asked -= listed("asking")
    said = {word.stem for side in sides for word in side} | asked
    for side in sides:
        figures = [(f, unit) for _, f, unit in _figures_with_units(side) if ":" not in f.stem]
        before = [word for word in takewhile(lambda word: not word.number, side) if word.content]
        own = [word.stem for word in before if word.surface.lower() not in light()]
        subject = asked or [each for each in own if each not in listed("asking")][:1]
        known = 2 * len([e for e in subject if e in passages.index]) > len(subject)
        if len(figures) == 1 and known and figures[0][0].stem in passages.index:
            told = _of_subject(*figures[0], side, said, asked, passages)
            if told is not None:
                number, *other = told
                ours, theirs = (f"{f.surface} {u.surface}" for f, u in (figures[0], other))
                return (WordChange(ours, theirs, certain=False, sentence=number),)
    return ()


def _figures_by_unit(passages: Passages) -> dict[str, set[str]]:
    """Return by each unit the figures that the passages have with it, or with one of its kind."""
    if passages.figures is None:
        passages.figures = found = dict[str, set[str]]()
        for number in {n for each, at in passages.index.items() if each[0].isdigit() for n in at}:
            for _, figure, unit in _figures_with_units(passages.words[number]):
                for each in _kind(unit, passages.language):
                    found.setdefault(each, set()).add(figure.stem)
    return passages.figures


def _kind(unit: Word, in_language: str) -> set[str]:
    """Return the stems of a unit and those that exclude it; months are one kind."""
    months = _MONTHS.get(in_language, set())
    return {unit.stem, *EXCLUDED.get(unit.stem, ()), *(months if unit.stem in months else ())}


def _of_subject(
    figure: Word,
    unit: Word,
    side: Sequence[Word],
    said: set[str],
    about: frozenset[str],
    passages: Passages,
) -> tuple[int, Word, Word] | None:
    """Return the sentence with the figure for the subject of *side*, and it, if not its own."""
    kind = _kind(unit, passages.language)
    own = {w.stem for w in side if w.content and w.stem in passages.index} - kind - {figure.stem}
    wanted = own | {each for each in about if each in passages.index and each not in kind}
    held = list[set[str]]()
    for number in passages.holders(figure.stem) if wanted else ():
        # a sentence with all that is wanted and no other such figure need not be parted
        alike = [u for _, _, u in _figures_with_units(passages.words[number]) if u.stem in kind]
        if wanted <= passages.stems[number] and len(alike) == 1:
            return None
    for _, part, subject, figures in _parts_with({figure.stem}, passages) if wanted else ():
        if any(f.stem == figure.stem and u.stem in kind for f, u in figures):
            if subject <= said:
                return None
            held.append(wanted & {*map(stem_of, part), *subject})
    for number, part, subject, figures in _parts_with(wanted, passages) if held else ():
        there = wanted & {*map(stem_of, part), *subject}
        others = [(f, u) for f, u in figures if u.stem in kind and f.stem not in said]
        is_whole = own <= there and all(there > h and subject & (there - h) for h in held)
        is_torn = any(figure.stem.startswith(f.stem) for f, _ in figures)  # "1, 000" is 1,000
        if is_whole and len(others) == 1 and not is_torn:
            return number, *others[0]
    return None


Part = tuple[Sequence[Word], frozenset[str], Sequence[tuple[Word, Word]]]


def _parts_with(stems: set[str], passages: Passages) -> Iterator[tuple[int, *Part]]:
    """Yield the parts of the sentences that have one of *stems*, each with its sentence."""
    numbers = sorted({n for each in stems for n in passages.holders(each)})[:_MOST_PARTED]
    for number in numbers:
        for part in _parts(passages.sentences[number][1][:_LONGEST_READ], passages.language):
            yield number, *part


@lru_cache(maxsize=512)  # claims are from the same sentences
def _parts(text: str, in_language: str) -> list[Part]:
    """
    Return the parts of a sentence, with what each is about and its figures.

    It is about what stands before its first figure, or about what the part before is.
    """
    found, subject = list[Part](), frozenset[str]()
    for said in words_of(_PART_ENDS.split(plain_times(text, in_language)), in_language):
        figures = [*_figures_with_units(said)]
        before = said[: figures[0][0]] if figures else said
        own = frozenset([word.stem for word in before if word.content]) - listed("later")
        subject = own or subject
        found.append((said, subject, [(figure, unit) for _, figure, unit in figures]))
    return found


def _figures_with_units(side: Sequence[Word]) -> Iterator[tuple[int, Word, Word]]:
    """Yield the place of each figure that counts something, the figure and what it counts."""
    for n, word in enumerate(side):
        for unit in side[n + 1 : n + 3] if word.number else ():
            if unit.content:
                in_name = n and side[n - 1].capital and unit.stem not in _SURE_UNITS  # "Polar 2"
                if not (unit.number or in_name or is_ordinal(word)):
                    yield n, word, unit
                break


def _behind(side: Sequence[Word], n: int, reach: int) -> list[Word]:
    """Return the informative words so far behind word *n*, up to the next number."""
    return [w for w in takewhile(lambda w: not w.number, side[n + 1 : n + 1 + reach]) if w.content]


def _is_year(word: Word) -> bool:
    return re.fullmatch(r"(?:19|20)\d\d", word.surface) is not None


# --- figures that an answer calculates ---


def computed_figures(
    query: str, history: Sequence[Turn], passages: Passages, output: str
) -> frozenset[str]:
    """
    Return the figures of *output* that are calculated rightly, where there is cause to calculate.

    It is where *query* asks for a sum, difference or mean, or for another period, where the user
    counts something ("for 5 people"), and where the answer states a difference ("2 GB more"). The
    figures must be of sentences about what is asked and answered, or of earlier turns.
    """
    turns = [turn.content[:TURN_CHARS] for turn in history[-_TURNS_BACK:]]
    users = [turn.content[:TURN_CHARS] for turn in history[-_TURNS_BACK:] if turn.role == "user"]
    in_language, index = passages.language, passages.index
    adds, averages, subtracts = (
        each.search(query) is not None for each in (_ADDS, _AVERAGES, _SUBTRACTS)
    )
    of_user = " ".join([query, *users])
    counted, percents = _counted(of_user, passages)
    changes_period, differs = _PERIOD.search(query) is not None, _MORE.search(output) is not None
    asks = adds or averages or subtracts or (changes_period and turns)
    if not (asks or counted or percents or differs):
        return frozenset()
    said, asked = (dict(_figures(text, in_language)) for text in (output, of_user))
    new = {stem: said[stem] for stem in said.keys() - index.keys() - asked.keys()}
    if not new:
        return frozenset()
    rows = _rows_about(query, output, passages)
    together = [*chain.from_iterable(rows)]
    near = {*together}
    own = {value for stem, value in asked.items() if stem not in index}
    earlier = {v for text in turns for stem, v in _figures(text, in_language) if stem in index}
    results = _scaled(counted, near, percents)
    about = {word.stem for word in words(f"{query} {output}"[:TURN_CHARS], in_language)}
    numbers = sorted({n for each in about for n in passages.holders(each)})[:_MOST_ABOUT]
    whole = [[value for _, value in _values(passages.words[number])] for number in numbers]
    several = [row for row in (*rows, together, *whole) if row]
    pairs = [*product(islice(near | own, _MOST_OWN), repeat=2)]
    if adds:
        results |= {*map(sum, several), *map(sum, pairs)}
    if averages:
        results |= {*map(fmean, several)}
    if subtracts or differs:
        results |= {abs(sub(*pair)) for pair in pairs}
    if changes_period:
        known = {*islice(earlier or near, _MOST_OWN)}
        bases = {each for one, other in product(known, known) for each in (one, abs(one - other))}
        results |= {each for base, n in product(bases, _PERIODS) for each in (base * n, base / n)}
        results |= _scaled(earlier, earlier, set())
    exact = {round(each, 2) for each in results}
    return frozenset(stem for stem, value in new.items() if round(value, 2) in exact)


def _rows_about(asked: str, said: str, passages: Passages) -> list[list[float]]:
    """Return the figures of each part of the passages that is about what is *asked*, or *said*."""
    for text in (asked, f"{asked} {said}"):
        tokens = [w for w in words(text[:TURN_CHARS], passages.language) if not w.number]
        weights = passages.weigh([w for w in tokens if w.stem not in listed("asking")])
        parts = [*islice(_parts_with({*weights}, passages), _MOST_PARTED)]
        held = [sum([weights.get(each, 0.0) for each in {*map(stem_of, part), *subject}])
                for _, part, subject, _ in parts]  # fmt: skip
        least = _ABOUT * max(held, default=0.0)
        near = [part for (_, part, *_), weight in zip(parts, held, strict=True) if weight >= least]
        rows = [[value for _, value in _values(part)][:_MOST_OWN] for part in near]
        if rows := [row for row in rows if row][:_MOST_OWN]:
            return rows
    return []


def _counted(asked: str, passages: Passages) -> tuple[set[float], set[float]]:
    """
    Return the figures of a user that count something, and the percentages.

    Not money, years, ages, and what the passages have themselves, such as the 2 of a 2-day pass.
    """
    said = words(_AGE_OR_NAME.sub(" ", asked), passages.language)
    if not any(word.number for word in said):
        return set(), set()
    found = [
        (f.stem, u.stem)
        for _, f, u in _figures_with_units(said)
        if not (_is_year(f) or f.stem in passages.index)
    ]
    values, money = dict(_values(said)), {*map(stem, ("euro", "dollar", "pound", "yen", "franc"))}
    counted = {values[f] for f, unit in found if f in values and unit not in money}
    percents = {float(each.replace(",", ".")) for each in _PERCENT.findall(asked)}
    return counted - percents, percents


def _scaled(ones: set[float], others: set[float], percents: set[float]) -> set[float]:
    """Return *others* times and divided by *ones*, and with *percents* taken or added."""
    found = set[float]()
    for one, other in product(islice(ones, _MOST_OWN), islice(others, _MOST_OWN)):
        found |= {one * other, *({max(one, other) / min(one, other)} if min(one, other) else ())}
    for part, other in product(islice(percents, _MOST_OWN), islice(others, _MOST_OWN)):
        found |= {other * share for share in (part / 100.0, 1.0 - part / 100.0, 1.0 + part / 100.0)}
    return {each for each in found if _is_rare(each)}


def _is_rare(figure: float) -> bool:
    """Return whether *figure* hardly comes out by chance: small whole figures do."""
    return figure >= _LEAST_COMPUTED or not figure.is_integer()


def _figures(text: str, in_language: str) -> list[tuple[str, float]]:
    """Return the stems and values of the figures in *text*; times of day are none."""
    return _values(words(plain_times(text, in_language), in_language))


def _values(said: Sequence[Word]) -> list[tuple[str, float]]:
    plain = [(w.stem, w.stem.replace(",", ".")) for w in said if w.number]
    return [(stem, float(each)) for stem, each in plain if _DECIMAL.fullmatch(each)]


# --- opening hours ---


def changed_hours(aligned: Aligned) -> Iterator[WordChange]:
    """Compare the hours of a claim with those that a sentence of the passages has for its days."""
    if ":" not in "".join([word.stem for word in aligned.tokens if word.number]):
        return
    passages, text = aligned.passages, _DAY_TO_DAY.sub(" to ", aligned.text[:_MOST_CHARS])
    said, is_daily = _read_hours(text, passages.language, sure=True)
    differing: list[WordChange] = []
    for number in passages.timed[:_MOST_TIMED] if said else ():
        told, _ = _read_hours(passages.sentences[number][1][:_MOST_CHARS], passages.language)
        days = [day for day, hours in said.items() if _differ(told.get(day, hours), hours)]
        days = [day for day in days if len({*told[day]}) > 1]  # from 0:00 to 0:00 says nothing
        if days:
            ours, theirs = (
                f"{start} to {end}" if start else f"until {end}"
                for start, end in (said[days[0]], told[days[0]])
            )
            differing.append(WordChange(ours, theirs, sentence=number))
        elif len(told) >= _MOST_OF_A_WEEK and not is_daily and said.keys() - told.keys():
            closed = min(said.keys() - told.keys())
            differing.append(WordChange(closed, "other days", certain=False, sentence=number))
        elif not said.keys().isdisjoint(told):
            return  # one record has these hours
    yield from differing[:1]


def _differ(one: Hours, other: Hours) -> bool:
    """Return whether hours are not the same; "until 22:00" has no beginning."""
    return one[1] != other[1] or ("" not in {one[0], other[0]} and one[0] != other[0])


@lru_cache(maxsize=512)  # each claim about hours reads the same sentences
def _read_hours(
    text: str, in_language: str, *, sure: bool = False
) -> tuple[dict[str, Hours], bool]:
    """
    Return from when to when each weekday is open, and whether some are only meant by "daily".

    Days may stand before their hours or behind them. Hours that are hedged are none. If *sure*,
    only days that all people mean by "weekdays" and "weekends".
    """
    said = words(plain_times(_MARKS.sub(" also ", text), in_language))
    stems = [word.stem for word in said]
    lower = [word.surface.lower() for word in said]
    english = [_ENGLISH_DAYS.get(each) or _ENGLISH_DAYS.get(each.rstrip("s")) for each in lower]
    if any(english):
        stems = [d or _MEANING.get(w, s) for d, w, s in zip(english, lower, stems, strict=True)]
    items = _days_and_hours(stems, _SURE_DAYS if sure else _ALL_DAYS)
    at = [n for n, (days, _, _) in enumerate(items) if not days]  # where hours are
    choice = any(
        one == "or" and ":" in f"{stems[n - 1]}{other}"
        for n, (one, other) in enumerate(pairwise(stems))
    )
    # from 9 to 12 and from 14 to 18: several hours of one day
    several = any(b - a == 1 and not items[b][2] for a, b in pairwise(at))
    if not at or choice or several or not listed("hedged_hours").isdisjoint(stems):
        return {}, False
    found: dict[str, Hours] = {}
    is_daily = not {"daili", "everi", "week"}.isdisjoint(stems)
    all_week = len(at) == len(items) or not {"daili", "everi"}.isdisjoint(stems)
    if is_daily and all_week and (hours := items[at[0]][1]):
        found = dict.fromkeys(WEEK[:4] if any(e in _ALL_DAYS for e in stems) else WEEK, hours)
    is_daily = is_daily and len(at) < len(items)
    for n, days in [(n, days) for n, (days, _, _) in enumerate(items) if days]:
        earlier, later = [m for m in at if m < n], [m for m in at if m > n]
        order = (*reversed(earlier), *later) if at[0] == 0 else (*later, *reversed(earlier))
        # "9:00 to 17:00 Monday to Friday, on Saturday 10:00 to 12:00" ends the other way round
        is_last = later == [len(items) - 1] == [n + 1]
        turned = is_last and (is_daily or n - 1 not in at or items[n + 1][2])
        hours = items[n + 1 if turned else order[0]][1]
        for day in days:
            found.pop(day, None)
            found |= {day: hours} if hours else {}
    return found, is_daily


def _days_and_hours(
    stems: Sequence[str], several: dict[str, list[str]]
) -> list[tuple[list[str], Hours | None, bool]]:
    """
    Return the groups of days and the hours between them, in the order of a text.

    *several* are the days that a word such as "weekdays" means. Of hours also whether they only
    say until when; they are None where half is unknown.
    """
    items: list[tuple[list[str], Hours | None, bool]] = []
    day_at, ended = -1, -1
    for n, each in enumerate(stems):
        before = stems[n - 1] if n else ""
        if days := [each] if each in WEEK else several.get(each, []):
            near = items and items[-1][0] and n - day_at < _NEAR
            joined = near and _JOINING.issuperset(stems[day_at + 1 : n])
            last = items[-1][0] if joined else []
            if last and before in THROUGH:
                first, end = WEEK.index(last[-1]), WEEK.index(days[0])
                last += [WEEK[d % 7] for d in range(first + 1, end + 7 * (end < first))]
            last += days if before != "no" else []
            items += [(last, None, False)] if last and not joined else []
            day_at = n
        elif ":" in each and n > ended:
            linked = n + 1 + (stems[n + 1 : n + 2] in _LINKING)
            if ":" in "".join(stems[linked : linked + 1]):
                items.append(([], (each, stems[linked]), False))
                ended = linked
            else:
                until = before in THROUGH
                items.append(([], ("", each) if until else None, until))
    return items
