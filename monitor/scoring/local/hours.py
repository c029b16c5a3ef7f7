"""
Compare the opening hours of a claim with those of the passages, day by day.

Days may stand before their hours or behind them, as ranges or one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from monitor.scoring.language import listed, stem, words
from monitor.scoring.local.changes import THROUGH, WEEK, WordChange
from monitor.scoring.local.passages import Aligned
from monitor.scoring.local.times import plain_times

_MOST_CHARS = 5_000  # of a claim
_SEVERAL_DAYS = {stem("weekdays"): WEEK[:5], stem("weekends"): WEEK[5:]}
_UNSURE_DAYS = {WEEK[4], WEEK[6]}  # "weekdays" may include Friday, "weekends" Sunday, or not
_DAILY = frozenset(map(stem, ("daily", "every", "week")))
_LINKING = [[each] for each in (*THROUGH, "and")]
_JOINING = THROUGH | {"and", "on", "also"}
_NEAR, _MOST_TIMED = 6, 50  # words between days; sentences with times that are read
_MOST_OF_A_WEEK = 3  # days with hours: the others are closed

Hours = tuple[str, str]  #: from when to when
Item = tuple[list[str], Hours | None]  #: days, or the hours between days


def changed_hours(aligned: Aligned) -> tuple[WordChange, ...]:
    """Compare the hours of a claim with those that a sentence of the passages has for its days."""
    if ":" not in "".join([word.stem for word in aligned.tokens if word.number]):
        return ()
    passages = aligned.passages
    said, is_daily = _read_hours(aligned.text[:_MOST_CHARS], passages.language)
    if not _SEVERAL_DAYS.keys().isdisjoint(word.stem for word in aligned.tokens):
        said = {day: said[day] for day in said if day not in _UNSURE_DAYS}
    differing: tuple[WordChange, ...] = ()
    for number in passages.timed[:_MOST_TIMED] if said else ():
        told, _ = _read_hours(passages.sentences[number][1][:_MOST_CHARS], passages.language)
        days = [day for day, hours in said.items() if told.get(day, hours) != hours]
        days = [day for day in days if len({*told[day]}) > 1]  # from 0:00 to 0:00 says nothing
        if days:
            ours, theirs = (" to ".join(each[days[0]]) for each in (said, told))
            differing = differing or (WordChange(ours, theirs, sentence=number),)
        elif len(told) >= _MOST_OF_A_WEEK and not is_daily and said.keys() - told.keys():
            closed = min(said.keys() - told.keys())
            differing = differing or (
                WordChange(closed, "other days", certain=False, sentence=number),
            )
        elif not said.keys().isdisjoint(told):
            return ()  # one record has these hours
    return differing


@lru_cache(maxsize=512)  # each claim about hours reads the same sentences
def _read_hours(text: str, in_language: str) -> tuple[dict[str, Hours], bool]:
    """
    Return from when to when each weekday is open, and whether some are only meant by "daily".

    Hours that are hedged are none.
    """
    for mark in "(),;":
        text = text.replace(mark, " also ")
    stems = [word.stem for word in words(plain_times(text, in_language))]
    items = _days_and_hours(stems)
    at = [n for n, (days, _) in enumerate(items) if not days]  # where hours are
    if not at or not listed("hedged_hours").isdisjoint(stems):
        return {}, False
    found: dict[str, Hours] = {}
    is_daily = not _DAILY.isdisjoint(stems)
    is_plain = _SEVERAL_DAYS.keys().isdisjoint(stems) and all(items[n][1] for n in at)
    if is_daily and is_plain and (hours := items[at[0]][1]):
        found = dict.fromkeys(WEEK, hours)
    for n, days in [(n, days) for n, (days, _) in enumerate(items) if days]:
        earlier, later = [m for m in at if m < n], [m for m in at if m > n]
        order = (*reversed(earlier), *later) if at[0] == 0 else (*later, *reversed(earlier))
        # "9:00 to 17:00 Monday to Friday, on Saturday 10:00 to 12:00" ends the other way round
        turned = later == [len(items) - 1] == [n + 1] and (is_daily or n - 1 not in at)
        hours = items[n + 1 if turned else order[0]][1]
        for day in days:
            found.pop(day, None)
            found |= {day: hours} if hours else {}
    return found, is_daily and len(at) < len(items)


def _days_and_hours(stems: Sequence[str]) -> list[Item]:
    """Return the groups of days and the hours between them; None for hours of which half is new."""
    items: list[Item] = []
    day_at, ended = -1, -1
    for n, each in enumerate(stems):
        before = stems[n - 1] if n else ""
        if days := [each] if each in WEEK else _SEVERAL_DAYS.get(each, []):
            near = items and items[-1][0] and n - day_at < _NEAR
            joined = near and _JOINING.issuperset(stems[day_at + 1 : n])
            last = items[-1][0] if joined else []
            if last and before in THROUGH:
                first, end = WEEK.index(last[-1]), WEEK.index(days[0])
                last += [WEEK[d % 7] for d in range(first + 1, end + 7 * (end < first))]
            last += days if before != "no" else []
            items += [(last, None)] if last and not joined else []
            day_at = n
        elif ":" in each and n > ended:
            linked = n + 1 + (stems[n + 1 : n + 2] in _LINKING)
            is_range = ":" in "".join(stems[linked : linked + 1])
            items.append(([], (each, stems[linked]) if is_range else None))
            ended = linked if is_range else n
    return items
