"""
Compare the opening hours of a claim with those of the passages, day by day.

Days may stand before their hours or behind them, as ranges or one by one, in seven languages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise

from monitor.scoring.language import language, listed, stem, words
from monitor.scoring.local.changes import THROUGH, WEEK, WordChange
from monitor.scoring.local.passages import Aligned, plain_times

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

Hours = tuple[str, str]


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
